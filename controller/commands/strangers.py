"""Records that somebody else put into a log's topic: counted, and told once at the end of a command.

Every reader passes over them (`eventlog.kafka.form`). A command that said nothing of them would call a log empty whose
topic is full.
"""

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click

from controller import places
from eventlog.log import EventLog
from eventlog.record import Position


class Strangers:
    """Counts them, each once, however often it is read."""

    def __init__(self) -> None:
        """Begin with none."""
        self._offsets: dict[int, set[int]] = defaultdict(set)
        self._first: tuple[Position, str] | None = None

    def __call__(self, position: Position, reason: str) -> None:
        """Count it."""
        self._offsets[position.partition].add(position.offset)
        if self._first is None or position < self._first[0]:
            self._first = position, reason

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(len, self._offsets.values()))

    @property
    def first(self) -> str | None:
        """The place of the first one, as PARTITION/OFFSET."""
        return None if self._first is None else str(self._first[0])

    def told(self) -> str | None:
        """Say how many there are, where the first one is, and what that means; None if there are none."""
        if self._first is None:
            return None
        position, reason = self._first
        records = "1 record that is" if self.count == 1 else f"{self.count:,} records that are"
        return (
            f"{records} not the log's, first at {position} ({reason}): another program has written to the topic; "
            "allow Write to the controller alone, and see `cliquelog verify` for each"
        )


@asynccontextmanager
async def opened(place: str, kafka_config: Path | None) -> AsyncIterator[tuple[EventLog, Strangers]]:
    """Open a log for reading, for the time of the block; then tell on standard error what was passed over.

    Raises LogError.
    """
    strangers = Strangers()
    log, _ = await places.open_readonly(place, kafka_config=kafka_config, foreign=strangers)
    try:
        yield log, strangers
    finally:
        await log.close()
        warn(place, strangers)


def warn(place: str, strangers: Strangers) -> None:
    """Tell on standard error what was passed over, if anything was."""
    if (told := strangers.told()) is not None:
        click.echo(f"Warning: {place} holds {told}", err=True)

"""Records that somebody else put into a log's topic: counted, and told once at the end of a command.

Every reader passes over them (`eventlog.kafka.form`). A command that said nothing of them would call a log empty whose
topic is full.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import click

from controller import places
from eventlog.integrity import MAX_FINDINGS
from eventlog.log import EventLog
from eventlog.record import Position

BLOCK = 1024
"""Offsets whose bits are one number: a topic may hold millions of them, and an offset by itself takes 70 bytes."""


class Strangers:
    """Counts them, each once, however often it is read; keeps the reasons of the first few in each partition."""

    def __init__(self) -> None:
        """Begin with none."""
        self._seen: dict[int, dict[int, int]] = defaultdict(dict)
        self._reasons: dict[int, dict[int, str]] = defaultdict(dict)
        self._first: tuple[Position, str] | None = None

    def __call__(self, position: Position, reason: str) -> None:
        """Count it."""
        block, bit = divmod(position.offset, BLOCK)
        seen, reasons = self._seen[position.partition], self._reasons[position.partition]
        seen[block] = seen.get(block, 0) | 1 << bit
        if len(reasons) < MAX_FINDINGS:
            reasons[position.offset] = reason
        if self._first is None or position < self._first[0]:
            self._first = position, reason

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(self._count, self._seen))

    def _count(self, partition: int) -> int:
        return sum(bits.bit_count() for bits in self._seen[partition].values())

    @property
    def first(self) -> str | None:
        """The place of the first one, as PARTITION/OFFSET."""
        return None if self._first is None else str(self._first[0])

    def lines(self) -> Iterator[str]:
        """Name those whose reasons were kept, and count the others of each partition."""
        for partition, reasons in sorted(self._reasons.items()):
            for offset, reason in sorted(reasons.items()):
                yield f"{partition}/{offset} not-ours: {reason}; it was passed over"
            if (more := self._count(partition) - len(reasons)) > 0:
                yield f"partition {partition}: {more:,} more not-ours that were passed over"

    def told(self) -> str | None:
        """Say how many there are, where the first one is, and what that means; None if there are none."""
        if self._first is None:
            return None
        position, reason = self._first
        records = "1 record that is" if self.count == 1 else f"{self.count:,} records that are"
        return (
            f"{records} not the log's, first at {position} ({reason}): another program has written to the topic; "
            "allow Write to the controller alone, and see `cliquelog verify`"
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

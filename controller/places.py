"""Where a log is: `sqlite:PATH` or `kafka://...`. The one place that knows the adapters by name."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from eventlog.log import EventLog, LogUnreadable, SnapshotStore
from eventlog.record import Position
from eventlog.sqlite import SqliteLog, SqliteSnapshots
from eventlog.sqlite.place import remove as remove_file
from eventlog.sqlite.place import resolved, size

SQLITE = "sqlite:"
KAFKA = "kafka:"

Foreign = Callable[[Position, str], None]
"""Is told of a record that somebody else put into the log, and what shows it. Only Kafka lets others do so."""


def _path(place: str) -> str:
    if not place.startswith(SQLITE) or place == SQLITE:
        raise LogUnreadable(
            f"{place!r} does not name a log: write sqlite:PATH, as in sqlite:/var/lib/cliquelog/log.sqlite, "
            "or kafka://HOST:PORT/TOPIC"
        )
    return place.removeprefix(SQLITE)


def unheard(_position: Position, _reason: str) -> None:
    """Take no notice."""


async def open_for_writing(
    place: str, partitions: int | None, *, kafka_config: Path | None = None, foreign: Foreign = unheard
) -> tuple[EventLog, SnapshotStore]:
    """Open a log and its snapshots; one in a file that is not there is made.

    `partitions` None takes what is there, 24 for a new file. Raises LogError.
    """
    if place.startswith(KAFKA):
        from controller import kafka_places  # noqa: PLC0415 - see there

        return await kafka_places.open_for_writing(place, partitions, kafka_config, foreign)
    log = await SqliteLog.open(_path(place), partitions=partitions)
    return log, SqliteSnapshots(log)


async def open_readonly(
    place: str, *, kafka_config: Path | None = None, foreign: Foreign = unheard
) -> tuple[EventLog, SnapshotStore]:
    """Open a log and its snapshots for reading only. Raises LogError."""
    if place.startswith(KAFKA):
        from controller import kafka_places  # noqa: PLC0415 - see there

        return await kafka_places.open_readonly(place, kafka_config, foreign)
    log = await SqliteLog.open_readonly(_path(place))
    return log, SqliteSnapshots(log)


class Making(msgspec.Struct, frozen=True):
    """How a log on Kafka is made and reached: its settings, its replicas, and how many acknowledge a record."""

    kafka_config: Path | None
    replication: int
    min_insync: int


async def open_or_make(place: str, partitions: int, making: Making) -> EventLog:
    """Open a log for appending; one that is not there is made with so many partitions. Raises LogError.

    One in a file that is there may have another number.
    """
    if place.startswith(KAFKA):
        from controller import kafka_places  # noqa: PLC0415 - see there

        return await kafka_places.open_or_make(place, partitions, making)
    return await SqliteLog.open(_path(place), partitions=None if size_bytes(place) else partitions)


def size_bytes(place: str) -> int:
    """Give the size of a log's files, 0 if there are none. Raises LogError if it names no log in a file."""
    if place.startswith(KAFKA):
        raise LogUnreadable(f"{place!r} is not in a file, which this command needs: write sqlite:PATH")
    path = resolved(Path(_path(place)))
    return size(path) + size(path.with_name(f"{path.name}-wal"))


def remove(place: str) -> None:
    """Remove the file of a log that is closed, unless somebody else has it open. Raises LogError."""
    remove_file(resolved(Path(_path(place))))


async def damage(log: EventLog) -> Sequence[str]:
    """Give what the log's engine finds wrong with its own storage; reads all of it. Kafka's brokers check theirs."""
    return await log.damage() if isinstance(log, SqliteLog) else ()


def is_dense(log: EventLog) -> bool:
    """Tell whether the log's engine gives offsets without gaps."""
    return isinstance(log, SqliteLog)

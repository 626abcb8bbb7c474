"""Where a log is: `sqlite:PATH` or `kafka://...`. The one place that knows the adapters by name."""

from collections.abc import Callable, Sequence
from contextlib import suppress
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


async def open_to_copy(place: str, *, kafka_config: Path | None, foreign: Foreign) -> EventLog:
    """Open a log for reading only, also where a topic was given more partitions than its log has. Raises LogError."""
    if place.startswith(KAFKA):
        from controller import kafka_places  # noqa: PLC0415 - see there

        return await kafka_places.open_to_copy(place, kafka_config, foreign)
    return await SqliteLog.open_readonly(_path(place))


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
        from eventlog.kafka.topics import Wanted  # noqa: PLC0415 - see there

        wanted = Wanted(partitions, making.replication, making.min_insync)
        return await kafka_places.open_or_make(place, making.kafka_config, wanted, unheard)
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


def stamp(place: str) -> str:
    """Give what tells a log in a file from another that stood there, or from itself before it was changed.

    Kafka's records do not change, and of a topic its name and their places tell enough.
    """
    if place.startswith(KAFKA):
        return place
    path = resolved(Path(_path(place)))
    stamps = []
    for file in (path, path.with_name(f"{path.name}-wal")):
        with suppress(OSError):
            found = file.stat()
            if found.st_size:
                stamps.append(f"{found.st_ino} {found.st_size} {found.st_mtime_ns}")
    return "/".join(stamps)


async def damage(log: EventLog) -> Sequence[str]:
    """Give what the log's engine finds wrong with its own storage; reads all of it. Kafka's brokers check theirs."""
    return await log.damage() if isinstance(log, SqliteLog) else ()


def is_dense(log: EventLog) -> bool:
    """Tell whether the log's engine gives offsets without gaps."""
    return isinstance(log, SqliteLog)

"""Where a log is: `sqlite:PATH`, and later other engines. The one place that knows the adapters by name."""

from collections.abc import Sequence
from pathlib import Path

from eventlog.log import EventLog, LogUnreadable, SnapshotStore
from eventlog.sqlite import SqliteLog, SqliteSnapshots

SCHEME = "sqlite:"


def _path(place: str) -> str:
    if not place.startswith(SCHEME) or place == SCHEME:
        raise LogUnreadable(
            f"{place!r} does not name a log: write sqlite:PATH, as in sqlite:/var/lib/cliquelog/log.sqlite"
        )
    return place.removeprefix(SCHEME)


async def open_for_writing(place: str, partitions: int | None) -> tuple[EventLog, SnapshotStore]:
    """Open a log and its snapshots, or create them; `partitions` None takes what is there, 24 for a new log.

    Raises LogError.
    """
    log = await SqliteLog.open(_path(place), partitions=partitions)
    return log, SqliteSnapshots(log)


async def open_readonly(place: str) -> tuple[EventLog, SnapshotStore]:
    """Open a log and its snapshots for reading only. Raises LogError."""
    log = await SqliteLog.open_readonly(_path(place))
    return log, SqliteSnapshots(log)


def size_bytes(place: str) -> int:
    """Give the size of a log's files, 0 if there are none. Raises LogError if it names no log."""
    path = Path(_path(place))
    return sum(file.stat().st_size for file in (path, path.with_name(f"{path.name}-wal")) if file.exists())


async def damage(log: EventLog) -> Sequence[str]:
    """Give what the log's engine finds wrong with its own storage; reads all of it."""
    return await log.damage() if isinstance(log, SqliteLog) else ()

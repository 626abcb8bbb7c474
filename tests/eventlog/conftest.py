from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from eventlog.log import EventLog, SnapshotStore
from eventlog.memory import MemoryLog, MemorySnapshots
from eventlog.record import Entry, Headers
from eventlog.sqlite import SqliteLog, SqliteSnapshots

PARTITIONS = 4


class ReadElsewhere:
    """A SQLite log that is read through another opener of its file, so that no answer comes from memory."""

    def __init__(self, appended: SqliteLog, read: SqliteLog) -> None:
        self._appended = appended
        self.topic, self.partitions, self.append = appended.topic, appended.partitions, appended.append
        self.read, self.beginning_offset, self.end_offset = read.read, read.beginning_offset, read.end_offset
        self._close_reader = read.close

    async def close(self) -> None:
        await self._appended.close()
        await self._close_reader()


@pytest.fixture(params=["memory", "sqlite", "sqlite, read by another opener"])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EventLog]:
    """An empty log of four partitions, once for each adapter."""
    log: EventLog
    if request.param == "memory":
        log = MemoryLog(partitions=PARTITIONS)
    else:
        log = opened = await SqliteLog.open(tmp_path / "log.sqlite", partitions=PARTITIONS)
        if request.param != "sqlite":
            log = ReadElsewhere(opened, await SqliteLog.open(tmp_path / "log.sqlite", partitions=PARTITIONS))
    yield log
    await log.close()


@pytest.fixture(params=["memory", "sqlite"])
async def snapshots(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SnapshotStore]:
    """An empty snapshot store, once for each adapter."""
    if request.param == "memory":
        yield MemorySnapshots()
        return
    log = await SqliteLog.open(tmp_path / "log.sqlite", partitions=PARTITIONS)
    yield SqliteSnapshots(log)
    await log.close()


@pytest.fixture
def entry() -> Callable[..., Entry]:
    """Give a maker of entries; what they say does not matter to a log."""

    def make(key: str = "clique.0", value: bytes = b"{}", controller: str = "one") -> Entry:
        return Entry(key, 1_700_000_000_000, Headers("node-seen", 1, controller), value)

    return make


@pytest.fixture
def fill(entry: Callable[..., Entry]) -> Callable[..., Awaitable[None]]:
    """Give a maker of closed SQLite logs with some records in them."""

    async def make(path: Path, records: int = 10) -> None:
        log = await SqliteLog.open(path, partitions=PARTITIONS)
        await log.append([entry(key=f"clique.{number}", value=b"%d" % number * 100) for number in range(records)])
        await log.close()

    return make

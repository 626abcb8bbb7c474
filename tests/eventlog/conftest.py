from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NoReturn

import pytest

from eventlog.kafka import KafkaLog, KafkaPlace, KafkaSettings, KafkaSnapshots
from eventlog.log import EventLog, SnapshotStore
from eventlog.memory import MemoryLog, MemorySnapshots
from eventlog.record import Entry, Headers, Position
from eventlog.sqlite import SqliteLog, SqliteSnapshots
from tests.integration.broker.logs import make_log

PARTITIONS = 4


ELSEWHERE = "sqlite, read by another opener"
ENGINES = ["memory", "sqlite", ELSEWHERE, pytest.param("kafka", marks=pytest.mark.integration)]


async def new_kafka_log(place: KafkaPlace) -> KafkaLog:
    """Make a log on one broker and open it."""
    await make_log(place, PARTITIONS)
    return await KafkaLog.open(place, KafkaSettings(), partitions=PARTITIONS, foreign=refuse_strangers)


def refuse_strangers(position: Position, reason: str) -> NoReturn:
    """Fail: nobody but the log wrote here."""
    raise AssertionError(f"{position}: {reason}")


class ReadElsewhere:
    """A SQLite log that is read through another opener of its file, so that no answer comes from memory."""

    def __init__(self, appended: SqliteLog, read: SqliteLog) -> None:
        self._appended = appended
        self.topic, self.partitions, self.append = appended.topic, appended.partitions, appended.append
        self.read, self.beginning_offset, self.end_offset = read.read, read.beginning_offset, read.end_offset
        self.settle, self._close_reader = appended.settle, read.close

    async def close(self) -> None:
        await self._appended.close()
        await self._close_reader()


@pytest.fixture(params=ENGINES)
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EventLog]:
    """An empty log of four partitions, once for each adapter."""
    log: EventLog
    if request.param == "memory":
        log = MemoryLog(partitions=PARTITIONS)
    elif request.param == "kafka":
        log = await new_kafka_log(request.getfixturevalue("new_place")())
    else:
        log = opened = await SqliteLog.open(tmp_path / "log.sqlite", partitions=PARTITIONS)
        if request.param == ELSEWHERE:
            log = ReadElsewhere(opened, await SqliteLog.open(tmp_path / "log.sqlite", partitions=PARTITIONS))
    yield log
    await log.close()


@pytest.fixture(params=ENGINES)
async def snapshots(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SnapshotStore]:
    """An empty snapshot store, once for each adapter."""
    if request.param == "memory":
        yield MemorySnapshots()
    elif request.param == "sqlite":
        log = await SqliteLog.open(tmp_path / "log.sqlite", partitions=PARTITIONS)
        yield SqliteSnapshots(log)
        await log.close()
    else:
        kafka = await new_kafka_log(request.getfixturevalue("new_place")())
        yield KafkaSnapshots(kafka)
        await kafka.close()


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

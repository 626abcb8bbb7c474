"""A snapshot is of the log that it is restored for, on each kind of log."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from controller.engines.restoring import look
from eventlog import codec
from eventlog.events import NodeSeen
from eventlog.kafka import KafkaPlace, KafkaSettings
from eventlog.log import EventLog, LogUnreadable
from eventlog.memory import MemoryLog, MemorySnapshots
from eventlog.sqlite import SqliteLog
from projections.partition import PartitionFold, digest
from tests.integration.broker.logs import make_log, opened

CLIQUE = "c.0"


@pytest.fixture(params=["memory", "sqlite", pytest.param("kafka", marks=pytest.mark.integration)])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EventLog]:
    """An empty log of one partition."""
    if request.param == "kafka":
        new_place: Callable[[], KafkaPlace] = request.getfixturevalue("new_place")
        place = new_place()
        await make_log(place, 1)
        async with opened(place, KafkaSettings()) as log:
            yield log
        return
    log = MemoryLog(partitions=1) if request.param == "memory" else await SqliteLog.open(tmp_path / "log", partitions=1)
    yield log
    await log.close()


async def joined(log: EventLog, *nodes: str) -> PartitionFold:
    """Let the nodes be seen, and give the fold of all that is there."""
    for node in nodes:
        seen = NodeSeen(node, f"uid-{node}", 1, CLIQUE)
        await log.append([codec.entry(CLIQUE, seen, timestamp_ms=1, controller="a")])
    return await look(log, MemorySnapshots(), 0)


async def saved(fold: PartitionFold) -> MemorySnapshots:
    snapshots = MemorySnapshots()
    await snapshots.save(0, fold.next_offset, fold.snapshot())
    return snapshots


async def test_a_snapshot_of_another_log_is_refused_though_this_one_has_grown_past_it(log: EventLog) -> None:
    other = await saved(await joined(MemoryLog(partitions=1), "n0", "n1"))
    await joined(log, "m0", "m1", "m2")
    with pytest.raises(
        LogUnreadable, match="partition 0: the record at offset 1 is not the last one that its snapshot"
    ):
        await look(log, other, 0)


async def test_a_snapshot_of_this_log_is_restored_at_its_end_and_before(log: EventLog) -> None:
    snapshots = await saved(await joined(log, "n0", "n1"))
    assert digest([await look(log, snapshots, 0)]) == digest([await joined(log)])
    whole = await joined(log, "n2")
    assert digest([await look(log, snapshots, 0)]) == digest([whole])


async def test_a_snapshot_whose_last_record_is_gone_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    async def beginning(_partition: int) -> int:
        return 2

    log = MemoryLog(partitions=1)
    snapshots = await saved(await joined(log, "n0", "n1"))
    whole = await joined(log, "n2")
    monkeypatch.setattr(log, "beginning_offset", beginning)
    restored = await look(log, snapshots, 0)
    assert digest([restored]) == digest([whole])


async def test_the_head_goes_on_from_a_snapshot_and_from_a_snapshot_of_that(log: EventLog) -> None:
    once = await look(log, await saved(await joined(log, "n0", "n1")), 0)
    assert (once.next_offset, once.head) == ((await joined(log)).next_offset, (await joined(log)).head)
    twice = await look(log, await saved(once), 0)
    assert (twice.before, twice.head) == (once.before, once.head)

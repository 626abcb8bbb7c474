"""The replay's comparison with what a controller saved can fail, and does wherever the two differ."""

import msgspec

from controller.history.replaying import Replay, replay
from eventlog import codec
from eventlog.events import NodeSeen
from eventlog.memory import MemoryLog, MemorySnapshots
from eventlog.record import Record
from projections.partition import SNAPSHOT_VERSION, PartitionFold, PartitionState, digest

CLIQUE = "c0.1"
PARTITIONS = 2
NODES = 5


async def filled() -> tuple[MemoryLog, list[Record]]:
    """Give a log with records in one of its partitions."""
    log = MemoryLog(partitions=PARTITIONS)
    seen = [NodeSeen(f"n{number}", f"u{number}", number + 1, CLIQUE, "d0") for number in range(NODES)]
    positions = await log.append([codec.entry(CLIQUE, event, timestamp_ms=1, controller="test") for event in seen])
    return log, list(await log.read(positions[0].partition, 0, limit=100, timeout_s=0.0))


def folded(records: list[Record]) -> PartitionFold:
    fold = PartitionFold()
    for record in records:
        fold.apply(record)
    return fold


async def compared(saved: PartitionFold | None) -> Replay:
    """Replay the log beside this snapshot of its one partition that has records."""
    log, records = await filled()
    snapshots = MemorySnapshots()
    if saved is not None:
        await snapshots.save(records[0].partition, saved.next_offset, saved.snapshot())
    return await replay(log, snapshots)


async def test_what_the_controller_saved_at_the_end_is_equal() -> None:
    _, records = await filled()
    whole = folded(records)
    replayed = await compared(whole)
    assert replayed.digest_equal
    assert (replayed.records, replayed.digest) == (NODES, digest([whole]))


async def test_a_snapshot_of_another_state_is_not_equal() -> None:
    _, records = await filled()
    other = folded([msgspec.structs.replace(records[0], value=records[1].value), *records[1:]])
    assert other.next_offset == NODES, "it claims the same place"
    assert not (await compared(other)).digest_equal


async def test_a_missing_snapshot_is_not_equal() -> None:
    assert not (await compared(None)).digest_equal


async def test_an_older_snapshot_is_not_equal_though_it_was_right_then() -> None:
    _, records = await filled()
    assert not (await compared(folded(records[:-1]))).digest_equal


async def test_a_snapshot_of_another_version_is_not_equal() -> None:
    log, records = await filled()
    fold, snapshots = folded(records), MemorySnapshots()
    state = PartitionState(SNAPSHOT_VERSION + 1, fold.next_offset, fold.before, fold.head, fold.aggregates)
    await snapshots.save(records[0].partition, NODES, msgspec.msgpack.encode(state, order="deterministic"))
    assert not (await replay(log, snapshots)).digest_equal


async def test_a_log_without_records_is_not_equal() -> None:
    replayed = await replay(MemoryLog(partitions=PARTITIONS), MemorySnapshots())
    assert (replayed.records, replayed.digest_equal) == (0, False)


class Late(MemoryLog):
    """A log whose first records are gone, as on Kafka after a retention; its offsets go on."""

    async def beginning_offset(self, partition: int) -> int:
        return min(2, await self.end_offset(partition))


async def test_records_are_counted_not_offsets() -> None:
    log = Late(partitions=PARTITIONS)
    seen = [NodeSeen(f"n{number}", f"u{number}", number + 1, CLIQUE, "d0") for number in range(NODES)]
    await log.append([codec.entry(CLIQUE, event, timestamp_ms=1, controller="test") for event in seen])
    assert (await replay(log, MemorySnapshots())).records == NODES - 2

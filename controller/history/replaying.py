"""Replays a whole log, and compares what comes of it with the states that its controller saved when it ended."""

import time

import msgspec

from eventlog.log import EventLog, SnapshotStore
from eventlog.reading import batches
from projections.partition import PartitionFold, digest

BATCH = 5000


class Replay(msgspec.Struct, frozen=True):
    """What came of it: `digest` is of the whole state at the log's end.

    `digest_equal`: the state of each partition at its end is, byte for byte, what its newest snapshot holds. A
    controller takes one when it ends, so after a clean end none is older. A partition with records and without a
    snapshot is not equal: nothing tells. Nor is a log without records.
    """

    records: int
    seconds: float
    digest: str
    digest_equal: bool


async def replay(log: EventLog, snapshots: SnapshotStore) -> Replay:
    """Fold every partition from its first record on. Raises LogError."""
    began = time.perf_counter()
    folds, equal, total = [], True, 0
    for partition in range(log.partitions):
        fold = PartitionFold(await log.beginning_offset(partition))
        count, end = 0, await log.end_offset(partition)
        async for records in batches(log, partition, fold.next_offset, end, limit=BATCH):
            for record in records:
                fold.apply(record)
            count += len(records)
        saved = await snapshots.load(partition)
        equal = equal and (count == 0 if saved is None else saved.state == fold.snapshot())
        folds.append(fold)
        total += count
    return Replay(total, time.perf_counter() - began, digest(folds), equal and total > 0)

"""Restoring: the state of a partition from its newest snapshot and the rest of its records (rule 9).

Whoever has the partition folds on from there. Others only look: who begins to observe at all partitions, and who hears
of an unknown controller where that has said what it is. What they meet is for whoever has the partition to count.
"""

from collections.abc import AsyncIterator, Sequence

from eventlog.log import EventLog, LogUnavailable, LogUnreadable, SnapshotStore
from eventlog.record import Record
from projections.partition import PartitionFold, restore

POLL_S = 1.0
SILENT_READS_MAX = 5
"""Reads without a record after which a restore takes what it has for the whole: the end of a partition may lie past the
last record that can be read (Kafka's markers), and a log may lag behind its end for a moment."""
LOOK_BATCH = 1000


async def newest(log: EventLog, snapshots: SnapshotStore, partition: int) -> tuple[PartitionFold, int]:
    """Give the fold that the newest snapshot holds and the snapshot's size; an empty one and 0 without.

    Raises LogUnreadable where records are gone that no snapshot tells of, or where log and snapshot do not belong
    together, and other LogErrors.
    """
    snapshot = await snapshots.load(partition)
    if snapshot is not None and (restored := restore(snapshot.state)) is not None:
        await _refuse_another_log(log, partition, restored)
        return restored, len(snapshot.state)
    if (beginning := await log.beginning_offset(partition)) > 0:
        # What follows is a part of the history; folded alone it would give indices away that are held.
        raise LogUnreadable(
            f"partition {partition}: the records below offset {beginning} are gone, and no snapshot that can "
            "be read holds what they said: bring them back, or start with a new log"
        )
    return PartitionFold(), 0


async def _refuse_another_log(log: EventLog, partition: int, fold: PartitionFold) -> None:
    """Compare the record that was folded last with the one that is there, if it is.

    A log that was made anew, or whose end was lost, may have grown past its old snapshot.
    """
    last = fold.next_offset - 1
    if not await log.beginning_offset(partition) <= last < await log.end_offset(partition):
        return  # `rest` says so if it is not there yet; if it is gone, nothing can be said.
    for _ in range(SILENT_READS_MAX):
        if records := await log.read(partition, last, limit=1, timeout_s=POLL_S):
            break
    else:
        raise LogUnavailable(f"partition {partition}: the record at offset {last} cannot be read now; try again")
    if not fold.ends_with(records[0]):
        raise LogUnreadable(
            f"partition {partition}: the record at offset {last} is not the last one that its snapshot was made of, "
            "so they are not of one log: bring the log back, or remove its snapshots"
        )


async def rest(log: EventLog, partition: int, fold: PartitionFold, limit: int) -> AsyncIterator[Sequence[Record]]:
    """Give the records up to the partition's end as of now, in batches that the caller folds. Raises LogError."""
    end = await log.end_offset(partition)
    if fold.next_offset > end:
        raise LogUnreadable(
            f"partition {partition}: the snapshot goes up to {fold.next_offset} and the log ends "
            f"at {end}, so they are not of one log: bring the log back, or remove its snapshots"
        )
    silent = 0
    while fold.next_offset < end and silent < SILENT_READS_MAX:
        records = await log.read(partition, fold.next_offset, limit=limit, timeout_s=POLL_S)
        silent = 0 if records else silent + 1
        yield records


async def look(log: EventLog, snapshots: SnapshotStore, partition: int) -> PartitionFold:
    """Give the partition's fold up to its end as of now, for somebody who does not have it. Raises LogError."""
    fold, _ = await newest(log, snapshots, partition)
    async for records in rest(log, partition, fold, LOOK_BATCH):
        for record in records:
            fold.apply(record)
    return fold

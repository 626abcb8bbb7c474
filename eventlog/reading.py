"""Reads a partition from one offset up to another, a batch at a time: for whoever goes through a whole log."""

from collections.abc import AsyncIterator, Sequence

from eventlog.log import EventLog
from eventlog.record import Record


async def batches(
    log: EventLog, partition: int, offset: int, end: int, *, limit: int
) -> AsyncIterator[Sequence[Record]]:
    """Give the records from `offset` on and below `end`, up to `limit` at once; no batch is empty.

    `end` is an end that the partition had, so nothing is waited for. Raises what `EventLog.read` raises.
    """
    while offset < end:
        # The last offsets may hold no record (Kafka's transaction markers): an empty answer ends the partition too.
        records = await log.read(partition, offset, limit=min(limit, end - offset), timeout_s=0.0)
        # Where offsets have gaps, as many records as there are offsets can lead past the end.
        records = [record for record in records if record.offset < end]
        if not records:
            return
        yield records
        # An engine that breaks its promise and gives offsets out of order must not make this read on for ever.
        offset = max(offset, records[-1].offset) + 1

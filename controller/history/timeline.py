"""All records of a log in the order of their times: what a person reads, and what a rerun goes through.

A log has no order among its partitions but time. Within a partition the order is that of the offsets, whatever the
times say: clocks go back, and an import keeps the order of an object's versions.
"""

import heapq
from collections.abc import AsyncIterator

import msgspec

from eventlog.log import EventLog
from eventlog.record import Record

BATCH = 2000


class Until(msgspec.Struct, frozen=True):
    """Where to stop: after this time, or at this offset, of one partition or (None) of each. None is no bound."""

    time_ms: int | None = None
    offset: int | None = None
    partition: int | None = None

    def includes(self, record: Record) -> bool:
        """Say whether the record is before the end."""
        if self.time_ms is not None and record.timestamp_ms > self.time_ms:
            return False
        bounded = self.partition is None or self.partition == record.partition
        return self.offset is None or not bounded or record.offset <= self.offset


async def in_time_order(log: EventLog, until: Until) -> AsyncIterator[tuple[int, Record]]:
    """Give each record with its time, which never goes back within a partition. Raises LogError."""
    waiting: list[tuple[int, int, Record, AsyncIterator[tuple[int, Record]]]] = []
    for partition in range(log.partitions):
        await _advance(waiting, partition, _of_partition(log, partition, until))
    while waiting:
        time_ms, partition, record, rest = heapq.heappop(waiting)
        yield time_ms, record
        await _advance(waiting, partition, rest)


async def _advance(
    waiting: list[tuple[int, int, Record, AsyncIterator[tuple[int, Record]]]],
    partition: int,
    rest: AsyncIterator[tuple[int, Record]],
) -> None:
    async for time_ms, record in rest:
        heapq.heappush(waiting, (time_ms, partition, record, rest))
        return


async def _of_partition(log: EventLog, partition: int, until: Until) -> AsyncIterator[tuple[int, Record]]:
    offset, end = await log.beginning_offset(partition), await log.end_offset(partition)
    latest = 0
    while offset < end:
        records = await log.read(partition, offset, limit=min(BATCH, end - offset), timeout_s=0.0)
        if not records:
            return  # The end may lie past the last record that can be read (Kafka's markers).
        for record in records:
            latest = max(latest, record.timestamp_ms)
            if until.includes(record):
                yield latest, record
        offset = records[-1].offset + 1

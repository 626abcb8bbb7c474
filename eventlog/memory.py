"""The log in memory: the oracle that the other adapters are compared with, and the log of simulations.

It keeps the port's promises in the plainest way: a list for each partition, an offset is an index into it. It lives in
one event loop and is gone with its process.
"""

import asyncio
from collections.abc import Sequence

from eventlog.log import InvalidRequest, OffsetOutOfRange, Snapshot, StoredSnapshot
from eventlog.partitioner import partition_for
from eventlog.record import Entry, Position, Record, refusal
from eventlog.waiting import Waiters


class MemoryLog:
    """An `EventLog` in lists."""

    def __init__(self, topic: str = "cliquelog", partitions: int = 24) -> None:
        self._topic = topic
        self._records: tuple[list[Record], ...] = tuple([] for _ in range(partitions))
        self._waiters = Waiters()
        self._closed = False

    @property
    def topic(self) -> str:
        """The log's name."""
        return self._topic

    @property
    def partitions(self) -> int:
        """How many partitions the log has."""
        return len(self._records)

    async def append(self, entries: Sequence[Entry]) -> Sequence[Position]:
        """Append the entries; see `EventLog.append`."""
        self._refuse_if_closed()
        for entry in entries:
            if reason := refusal(entry):
                raise InvalidRequest(reason)
        positions = [self._place(entry) for entry in entries]
        self._waiters.wake({position.partition: position.offset + 1 for position in positions})
        return positions

    async def read(self, partition: int, offset: int, *, limit: int, timeout_s: float) -> Sequence[Record]:
        """Give records from `offset` on; see `EventLog.read`."""
        self._refuse_if_closed()
        if limit < 1:
            raise InvalidRequest(f"a read with limit {limit} asks for nothing; ask for 1 record or more")
        records = self._partition(partition)
        if offset < 0:
            raise OffsetOutOfRange(f"partition {partition} begins at offset 0, and {offset} was asked for")
        with self._waiters.waiting(partition, offset) as arrived:
            if offset >= len(records) and timeout_s > 0:
                await asyncio.wait((arrived,), timeout=timeout_s)
        return records[offset : offset + limit]

    async def beginning_offset(self, partition: int) -> int:
        """Give 0: nothing is ever dropped."""
        self._refuse_if_closed()
        self._partition(partition)
        return 0

    async def end_offset(self, partition: int) -> int:
        """Give the offset of the next record."""
        self._refuse_if_closed()
        return len(self._partition(partition))

    async def settle(self, timeout_s: float) -> None:
        """Do nothing: an append is done at once."""

    async def close(self) -> None:
        """End the log; readers that wait are given an empty answer."""
        self._closed = True
        self._waiters.wake_all()

    def _place(self, entry: Entry) -> Position:
        partition = partition_for(entry.key, self.partitions)
        records = self._records[partition]
        offset = len(records)
        records.append(
            Record(self._topic, partition, offset, entry.key, entry.timestamp_ms, entry.headers, entry.value)
        )
        return Position(partition, offset)

    def _partition(self, partition: int) -> list[Record]:
        if not 0 <= partition < self.partitions:
            raise InvalidRequest(f"there is no partition {partition}: the log has {self.partitions}, counted from 0")
        return self._records[partition]

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise InvalidRequest("the log is closed; open it again to use it")


class MemorySnapshots:
    """A `SnapshotStore` in a dict."""

    def __init__(self) -> None:
        self._snapshots: dict[int, StoredSnapshot] = {}

    async def save(self, partition: int, next_offset: int, state: bytes) -> None:
        """Replace the partition's snapshot; see `SnapshotStore.save`."""
        there = self._snapshots.get(partition)
        if there is None or there.next_offset <= next_offset:
            self._snapshots[partition] = StoredSnapshot(partition, next_offset, state)

    async def load(self, partition: int) -> Snapshot | None:
        """Give the partition's snapshot, or None."""
        return self._snapshots.get(partition)

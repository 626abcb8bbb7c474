"""The feed: what a worker of a consumer group delivers, given on to the partitions' consumers without gap or double.

Problem: a group delivers from wherever it stands, perhaps twice, perhaps not at all while partitions move, and one
message at a time. Invariant: a read gives the records that follow the offset asked for, whatever was delivered: older
ones are dropped, and what is missing before a newer one is read from the log itself. So what is delivered is a matter
of speed only, and a lane that is full may be emptied.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from eventlog.log import EventLog
from eventlog.record import Record

LANE_MAX = 5_000
"""Messages that are kept for a consumer that is behind; to read them again later is quicker than to keep more."""


class Feed:
    """What is delivered of each partition; a `Source` for their consumers."""

    def __init__(self, log: EventLog) -> None:
        """`log` gives what was not delivered."""
        self._log = log
        self._lanes = [_Lane() for _ in range(log.partitions)]

    def deliver(self, partition: int, offset: int, record: Record | None) -> None:
        """Take what is at this offset; None for what is no record of the log."""
        lane = self._lanes[partition]
        if len(lane.waiting) >= LANE_MAX:
            lane.waiting.clear()
        lane.waiting.append((offset, record))
        lane.arrived.set()

    def reached(self, partition: int, offset: int) -> int:
        """Give where the next record may be, for a consumer that goes on at `offset`: strangers' are passed over."""
        return self._lanes[partition].known_upto(offset)

    def clear(self) -> None:
        """Forget what was delivered: the partitions are somebody else's."""
        for lane in self._lanes:
            lane.waiting.clear()

    async def read(self, partition: int, offset: int, *, limit: int, timeout_s: float) -> Sequence[Record]:
        """Give the records that follow; see `EventLog.read`. Raises LogError."""
        lane = self._lanes[partition]
        now = asyncio.get_running_loop().time
        deadline = now() + timeout_s
        while True:
            if lane.begins_after(offset):
                if lane.waiting[0][0] > lane.known_upto(offset):
                    records = await self._read_missing(lane, partition, offset, limit)
                else:
                    records = lane.take(offset, limit)
                if records:
                    return records
            elif not await lane.more(deadline - now()):
                return []

    async def _read_missing(self, lane: "_Lane", partition: int, offset: int, limit: int) -> Sequence[Record]:
        upto = lane.waiting[0][0]
        records = await self._log.read(partition, offset, limit=limit, timeout_s=0.0)
        if not records or records[0].offset >= upto:
            lane.hole = (offset, upto)
        return records


class _Lane:
    """One partition's messages: offset, and the record unless it is none. In `hole` (from, to) there are no records."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, Record | None]] = deque()
        self.arrived = asyncio.Event()
        self.hole = (-1, -1)

    def begins_after(self, offset: int) -> bool:
        """Drop what lies before, and say whether anything is left."""
        while self.waiting and self.waiting[0][0] < offset:
            self.waiting.popleft()
        return bool(self.waiting)

    async def more(self, timeout_s: float) -> bool:
        """Wait for the next message; say whether one came in time."""
        if timeout_s <= 0:
            return False
        self.arrived.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self.arrived.wait()
        except TimeoutError:
            return False
        return True

    def known_upto(self, offset: int) -> int:
        """Give where the next record may be, if all is known from `offset` on."""
        begin, end = self.hole
        return end if begin == offset else offset

    def take(self, offset: int, limit: int) -> list[Record]:
        """Take what follows without a gap."""
        expected = self.known_upto(offset)
        records: list[Record] = []
        while self.waiting and len(records) < limit:
            at, record = self.waiting[0]
            if at > expected:
                break
            self.waiting.popleft()
            if at == expected:
                expected += 1
                if record is not None:
                    records.append(record)
        if not records:
            self.hole = (offset, expected)
        return records

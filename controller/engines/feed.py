"""The feed: what a worker of a consumer group delivers, given on to the partitions' consumers without gap or double.

Problem: a group delivers from wherever it stands, perhaps twice, perhaps not at all while partitions move, and one
message at a time, at a tenth of the pace at which the log can be read. Invariant: a read gives the records that follow
the offset asked for, whatever was delivered: older ones are dropped, and what is missing before a newer one is read
from the log itself. So what is delivered is a matter of speed only, and a lane that is full may be emptied. A partition
of which the deliveries are far behind is read from the log until it is level again.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from eventlog.log import EventLog
from eventlog.record import Record

LANE_MAX = 5_000
"""Messages that are kept for a consumer that is behind; to read them again later is quicker than to keep more."""


FAR_BEHIND = 10
"""Records that the deliveries of a partition may be behind its end before the log itself is read. With 200, while 2,016
nodes joined in 10 s, deliveries were behind in all partitions at once, and rows came four times as late."""


class Deliverer(Protocol):
    """Delivers what is appended to the partitions that it was let go live."""

    def end(self, partition: int) -> int:
        """Give the partition's end as far as it is known, else 0."""

    def hold(self, partition: int) -> None:
        """Deliver no more of the partition for now."""

    async def go_live(self, partition: int, offset: int) -> None:
        """Deliver from this offset on."""


class Feed:
    """What is delivered of each partition; a `Source` for their consumers."""

    def __init__(self, log: EventLog, deliverer: Deliverer) -> None:
        """`log` gives what was not delivered."""
        self._log = log
        self._deliverer = deliverer
        self._lanes = [_Lane() for _ in range(log.partitions)]

    def deliver(self, partition: int, offset: int, record: Record | None) -> None:
        """Take what is at this offset; None for what is no record of the log."""
        lane = self._lanes[partition]
        if lane.is_behind:
            return
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
            lane.is_behind = False

    async def read(self, partition: int, offset: int, *, limit: int, timeout_s: float) -> Sequence[Record]:
        """Give the records that follow; see `EventLog.read`. Raises LogError."""
        lane = self._lanes[partition]
        if lane.is_behind or self._deliverer.end(partition) - lane.known_upto(offset) > FAR_BEHIND:
            return await self._catch_up(lane, partition, offset, limit, timeout_s)
        now = asyncio.get_running_loop().time
        deadline = now() + timeout_s
        while True:
            if lane.begins_after(offset):
                if lane.waiting[0][0] > lane.known_upto(offset):
                    # An empty answer is no proof that nothing lies between: the log's readers may lag behind.
                    left_s = max(0.0, deadline - now())
                    return await self._log.read(partition, offset, limit=limit, timeout_s=left_s)
                if records := lane.take(offset, limit):
                    return records
            elif not await lane.more(deadline - now()):
                if self._deliverer.end(partition) > lane.known_upto(offset):
                    # Something is there and was not delivered.
                    return await self._log.read(partition, offset, limit=limit, timeout_s=0.0)
                return []

    async def _catch_up(
        self, lane: "_Lane", partition: int, offset: int, limit: int, timeout_s: float
    ) -> Sequence[Record]:
        """Read the log itself, and go back to deliveries once that gives less than it may."""
        if not lane.is_behind:
            lane.is_behind = True
            self._deliverer.hold(partition)
            lane.waiting.clear()
        # Strangers' messages alone may make up the distance: not to wait here would be to ask again and again.
        records = await self._log.read(partition, offset, limit=limit, timeout_s=timeout_s)
        if len(records) < limit:
            lane.is_behind = False
            await self._deliverer.go_live(partition, records[-1].offset + 1 if records else offset)
        return records


class _Lane:
    """One partition's messages: offset, and the record unless it is none.

    In `hole` (from, to) there are no records: all that is there was delivered, and is none.
    """

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, Record | None]] = deque()
        self.arrived = asyncio.Event()
        self.hole = (-1, -1)
        self.is_behind = False

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

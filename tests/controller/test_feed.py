"""What is read through a feed is the log, whatever was delivered: in part, twice, from before, or nothing at all."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from controller.engines.feed import FAR_BEHIND, LANE_MAX, Feed
from eventlog.codec import entry
from eventlog.events import RelistBegan
from eventlog.memory import MemoryLog
from eventlog.record import Record

NOTHING_S = 0.01


class Deliverer:
    """Takes note of what the feed asks for; `known_end` is what it knows of the partition's end."""

    def __init__(self, known_end: int = 0) -> None:
        self.known_end = known_end
        self.asked: list[int | str] = []

    def end(self, _partition: int) -> int:
        return self.known_end

    def hold(self, _partition: int) -> None:
        self.asked.append("hold")

    async def go_live(self, _partition: int, offset: int) -> None:
        self.asked.append(offset)


async def filled(count: int) -> tuple[MemoryLog, list[Record]]:
    log = MemoryLog(partitions=1)
    await log.append([entry("watch/a", RelistBegan("a", str(n)), timestamp_ms=n, controller="c") for n in range(count)])
    return log, list(await log.read(0, 0, limit=count + 1, timeout_s=0))


async def read_on(feed: Feed, offset: int, limit: int) -> list[Record]:
    """Read until nothing more comes."""
    found: list[Record] = []
    while records := await feed.read(0, offset, limit=limit, timeout_s=NOTHING_S):
        found += records
        offset = records[-1].offset + 1
    return found


@given(
    count=st.integers(1, 12),
    start=st.integers(0, 11),
    delivered=st.lists(st.integers(0, 11), max_size=30),
    limit=st.integers(1, 5),
    strangers=st.sets(st.integers(0, 11)),
)
def test_once_the_newest_is_delivered_all_is_read_whatever_came_before_it(
    count: int, start: int, delivered: list[int], limit: int, strangers: set[int]
) -> None:
    async def run() -> None:
        log, records = await filled(count)
        # A stranger's message is a gap in the log itself.
        ours = [record for record in records if record.offset not in strangers]
        gapped = Gapped(log, strangers)
        feed = Feed(gapped, Deliverer())
        for offset in [offset for offset in delivered if offset < count] + [count - 1]:
            feed.deliver(0, offset, None if offset in strangers else records[offset])
        assert await read_on(feed, start, limit) == [record for record in ours if record.offset >= start]

    asyncio.run(run())


class Gapped(MemoryLog):
    """A log in which some offsets hold what is no record of it."""

    def __init__(self, log: MemoryLog, strangers: set[int]) -> None:
        super().__init__(partitions=1)
        self._inner = log
        self._strangers = strangers
        self.reads = 0

    async def read(self, partition: int, offset: int, *, limit: int, timeout_s: float) -> list[Record]:
        self.reads += 1
        found = await self._inner.read(partition, offset, limit=100, timeout_s=timeout_s)
        return [record for record in found if record.offset not in self._strangers][:limit]


class Lagging(MemoryLog):
    """A log whose readers lag behind its writers: the first reads without a wait give nothing."""

    def __init__(self, log: MemoryLog, empty_answers: int) -> None:
        super().__init__(partitions=1)
        self._inner = log
        self._left = empty_answers

    async def read(self, partition: int, offset: int, *, limit: int, timeout_s: float) -> list[Record]:
        if self._left:
            self._left -= 1
            return []
        return list(await self._inner.read(partition, offset, limit=limit, timeout_s=timeout_s))


async def test_what_was_not_delivered_is_not_passed_over_where_the_log_gives_it_late() -> None:
    log, records = await filled(6)
    feed = Feed(Lagging(log, 2), Deliverer())
    feed.deliver(0, 0, records[0])
    feed.deliver(0, 4, records[4])
    found: list[Record] = []
    for _ in range(7):
        offset = found[-1].offset + 1 if found else 0
        found += await feed.read(0, offset, limit=1, timeout_s=NOTHING_S)
    assert found == records[:5]


async def test_what_is_known_to_be_there_and_is_never_delivered_is_read_from_the_log() -> None:
    log, records = await filled(FAR_BEHIND)
    feed = Feed(log, Deliverer(known_end=FAR_BEHIND))
    assert await feed.read(0, 0, limit=100, timeout_s=NOTHING_S) == records


async def test_a_partition_at_whose_end_strangers_alone_have_written_is_waited_for() -> None:
    # The log in memory has nothing: so it is on Kafka for who reads past messages that are no records.
    feed = Feed(MemoryLog(partitions=1), Deliverer(known_end=FAR_BEHIND + 1))
    now = asyncio.get_running_loop().time
    began = now()
    assert await feed.read(0, 0, limit=100, timeout_s=5 * NOTHING_S) == []
    assert now() - began >= 4 * NOTHING_S


async def test_what_is_delivered_in_order_is_not_read_from_the_log() -> None:
    log, records = await filled(5)
    gapped = Gapped(log, set())
    feed = Feed(gapped, Deliverer())
    for record in records:
        feed.deliver(0, record.offset, record)
    assert await read_on(feed, 0, 2) == records
    assert gapped.reads == 0


async def test_a_read_waits_for_the_next_delivery() -> None:
    log, records = await filled(1)
    feed = Feed(log, Deliverer())
    reading = asyncio.create_task(feed.read(0, 0, limit=5, timeout_s=20))
    await asyncio.sleep(0)
    assert not reading.done()
    feed.deliver(0, 0, records[0])
    assert await reading == records


async def test_strangers_messages_are_passed_over_without_looking_again_and_again() -> None:
    log, records = await filled(4)
    gapped = Gapped(log, {0, 1, 2})
    feed = Feed(gapped, Deliverer())
    for record in records[:3]:
        feed.deliver(0, record.offset, None)
        assert await feed.read(0, 0, limit=5, timeout_s=NOTHING_S) == []
    assert feed.reached(0, 0) == 3
    feed.deliver(0, 3, records[3])
    assert await feed.read(0, 0, limit=5, timeout_s=NOTHING_S) == records[3:]
    assert gapped.reads == 0


async def test_a_consumer_that_is_far_behind_reads_the_log_itself() -> None:
    log, records = await filled(1)
    feed = Feed(log, Deliverer())
    for offset in range(LANE_MAX + 10):
        feed.deliver(0, offset, records[0])
    assert len(feed._lanes[0].waiting) == 10
    assert await feed.read(0, 0, limit=5, timeout_s=NOTHING_S) == records


async def test_a_partition_whose_deliveries_are_far_behind_is_read_from_the_log_until_it_is_level() -> None:
    log, records = await filled(FAR_BEHIND + 200)
    deliverer = Deliverer(known_end=len(records))
    feed = Feed(log, deliverer)
    feed.deliver(0, 0, records[0])
    assert await feed.read(0, 0, limit=100, timeout_s=NOTHING_S) == records[:100]
    assert deliverer.asked == ["hold"]
    feed.deliver(0, 1, records[1])  # What was under way is of no use now.
    assert await feed.read(0, 100, limit=100, timeout_s=NOTHING_S) == records[100:200]
    assert await feed.read(0, 200, limit=100, timeout_s=NOTHING_S) == records[200:]
    assert len(records) < 300
    assert deliverer.asked == ["hold", len(records)]
    await log.append([entry("watch/a", RelistBegan("a", "new"), timestamp_ms=1, controller="c")])
    (new,) = await log.read(0, len(records), limit=5, timeout_s=0)
    feed.deliver(0, new.offset, new)
    assert await feed.read(0, len(records), limit=100, timeout_s=NOTHING_S) == [new]


async def test_a_partition_that_was_taken_away_while_it_was_read_from_the_log_begins_anew() -> None:
    log, records = await filled(FAR_BEHIND + 200)
    deliverer = Deliverer(known_end=len(records))
    feed = Feed(log, deliverer)
    assert await feed.read(0, 0, limit=100, timeout_s=NOTHING_S) == records[:100]
    feed.clear()
    deliverer.known_end = 0
    feed.deliver(0, 100, records[100])
    assert await feed.read(0, 100, limit=100, timeout_s=NOTHING_S) == records[100:101]

"""One partition's consumer: restoring, arbitrating, acting, and a log that fails."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import pytest
import structlog
from structlog.testing import capture_logs

from controller.appender import Appender
from controller.engines.consumer import ConsumerConfig, PartitionConsumer
from eventlog import codec
from eventlog.codec import NewerSchema
from eventlog.events import AnyEvent, DaemonSetSeen, DomainSeen, IndexAssigned, NodeSeen
from eventlog.log import AppendOutcomeUnknown, EventLog, LogError, LogUnavailable, LogUnreadable, OffsetOutOfRange
from eventlog.memory import MemoryLog, MemorySnapshots
from eventlog.record import Entry, Headers, Position, Record
from kube.clock import SystemClock
from projections.clique import CliqueState
from projections.effects import AnyEffect, Target, WriteCdc
from projections.partition import PartitionFold, digest
from projections.settings import Settings

CLIQUE = "c.0"
SETTINGS = Settings("driver")
CONFIG = ConsumerConfig(batch=50, poll_s=0.05, snapshot_records=1_000_000)


class Counts:
    """What was counted."""

    def __init__(self) -> None:
        self.records = 0
        self.appends: list[str] = []
        self.refused: list[str] = []
        self.passed_over = 0

    def folded(self, partition: int, records: int) -> None:  # noqa: ARG002
        self.records += records

    def appended(self, event: str, records: int) -> None:
        self.appends.extend([event] * records)

    def inadmissible(self, decision: str) -> None:
        self.refused.append(decision)

    def undecodable(self, partition: int) -> None:  # noqa: ARG002
        self.passed_over += 1


class TroubledLog:
    """A log in memory whose appends fail on demand, with or without effect, and whose readers can lag behind."""

    def __init__(self) -> None:
        self._log = MemoryLog(partitions=1)
        self.troubles: list[tuple[LogError, bool]] = []
        self.readable = asyncio.Event()
        self.readable.set()
        self.beginning = 0
        self.unreadable = 0
        self.topic = self._log.topic
        self.partitions = 1

    async def append(self, entries: Sequence[Entry]) -> Sequence[Position]:
        if not self.troubles:
            return await self._log.append(entries)
        error, with_effect = self.troubles.pop(0)
        if with_effect:
            await self._log.append(entries)
        raise error

    async def read(self, partition: int, offset: int, *, limit: int, timeout_s: float) -> Sequence[Record]:
        if offset < self.beginning:
            raise OffsetOutOfRange(f"partition {partition} begins at offset {self.beginning}, {offset} was asked for")
        if self.unreadable:
            self.unreadable -= 1
            raise LogUnavailable("no broker answers")
        if not self.readable.is_set():
            await asyncio.sleep(min(timeout_s, 0.001))
            return []
        return await self._log.read(partition, offset, limit=limit, timeout_s=timeout_s)

    async def beginning_offset(self, partition: int) -> int:  # noqa: ARG002
        return self.beginning

    async def end_offset(self, partition: int) -> int:
        return await self._log.end_offset(partition)

    async def close(self) -> None:
        await self._log.close()


class Instance:
    """A consumer of partition 0 with what it counts, saves and wants."""

    def __init__(
        self, log: EventLog, identity: str, snapshots: MemorySnapshots, config: ConsumerConfig = CONFIG
    ) -> None:
        self.counts = Counts()
        self.wanted: dict[str, Mapping[Target, AnyEffect]] = {}
        self.positions: list[str] = []
        self.unarbitrated: list[str] = []
        logger = structlog.get_logger()
        self.appender = Appender(log, SystemClock(), identity, self.counts, logger, retry_s=0.001)
        self.consumer = PartitionConsumer(
            0,
            log=log,
            source=log,
            snapshots=snapshots,
            appender=self.appender,
            want=self._want,
            settings=SETTINGS,
            config=config,
            metrics=self.counts,
            logger=logger,
        )

    def _want(self, owner: str, effects: Mapping[Target, AnyEffect], position: str) -> None:
        self.wanted[owner] = effects
        self.positions.append(position)
        state = self.consumer.aggregates[owner]
        if isinstance(state, CliqueState):
            held = {node for one in state.domains.values() for node, holding in one.holdings.items() if holding.active}
            self.unarbitrated += [node for node in state.nodes if node not in held]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Act until the block ends."""
        if self.consumer.next_offset == 0:
            await self.consumer.restore()
        acting = asyncio.Event()
        acting.set()
        task = asyncio.create_task(self.consumer.run(acting.is_set))
        try:
            yield
        finally:
            failed = task.done() and not task.cancelled()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            assert not failed

    @property
    def rows(self) -> dict[str, int | None]:
        """What the clique wants to be written: index by node."""
        writes = [effect for effect in self.wanted.get(CLIQUE, {}).values() if isinstance(effect, WriteCdc)]
        return {row.node: row.index for write in writes for row in write.rows}


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - nobody announces what it waits for
            await asyncio.sleep(0.002)


async def append(log: EventLog, *events: AnyEvent, key: str = CLIQUE, by: str = "test") -> None:
    await log.append([codec.entry(key, event, timestamp_ms=1, controller=by) for event in events])


async def a_domain(log: EventLog) -> None:
    await append(
        log,
        DomainSeen("d0", 1, "team", "d0", "template", "Single"),
        DaemonSetSeen("d0", "ds", 2, "driver", "daemons", 18, reader=True),
    )


def nodes(count: int, first: int = 0) -> list[AnyEvent]:
    return [NodeSeen(f"n{number}", f"u{number}", 10 + number, CLIQUE, "d0") for number in range(first, count)]


async def whole(log: EventLog) -> PartitionFold:
    fold = PartitionFold()
    for record in await log.read(0, 0, limit=100_000, timeout_s=0):
        fold.apply(record)
    return fold


async def decisions(log: EventLog) -> list[str]:
    records = await log.read(0, 0, limit=100_000, timeout_s=0)
    return [record.headers.event_type for record in records if record.headers.event_type.startswith("index-")]


async def test_a_snapshot_and_the_rest_give_the_same_state_as_the_whole_log() -> None:
    log, snapshots = MemoryLog(partitions=1), MemorySnapshots()
    await a_domain(log)
    await append(log, *nodes(150))
    first = Instance(log, "a", snapshots)
    await first.consumer.restore()
    await first.consumer.snapshot()
    await append(log, *nodes(300, first=150))
    second = Instance(log, "a", snapshots)
    await second.consumer.restore()
    assert second.counts.records == 150
    fold = await whole(log)
    assert second.consumer.next_offset == fold.next_offset
    assert digest([second.consumer._fold]) == digest([fold])
    assert second.consumer._fold.head == fold.head


async def test_a_large_state_is_saved_more_rarely_so_that_what_is_written_grows_as_the_log_does() -> None:
    class Counted(MemorySnapshots):
        saved: list[tuple[int, int]]

        async def save(self, partition: int, next_offset: int, state: bytes) -> None:
            self.saved.append((next_offset, len(state)))
            await super().save(partition, next_offset, state)

    log, snapshots = MemoryLog(partitions=1), Counted()
    snapshots.saved = []
    await a_domain(log)
    config = ConsumerConfig(batch=5, poll_s=0.05, snapshot_records=5, snapshot_bytes=100)
    instance = Instance(log, "a", snapshots, config)
    async with instance.running():
        for first in range(0, 400, 20):
            await append(log, *nodes(first + 20, first=first))
            end = await log.end_offset(0)
            await eventually(lambda end=end: instance.consumer.next_offset >= end)
    assert len(snapshots.saved) > 3
    distances = []
    for (before, size), (offset, _) in itertools.pairwise(snapshots.saved):
        distances.append(offset - before)
        assert distances[-1] >= max(5, size // 100)
    assert distances[-1] > 2 * distances[0]
    restarted = Instance(log, "a", snapshots, config)
    await restarted.consumer.restore()
    assert restarted.consumer._snapshot_distance == snapshots.saved[-1][1] // 100


async def test_a_restore_waits_for_a_log_that_lags_behind_its_end() -> None:
    """Seed 6919 of the exploration: what was not restored, the first lists could not prove to be gone."""
    lagging = TroubledLog()
    await a_domain(lagging)
    lagging.readable.clear()
    instance = Instance(lagging, "a", MemorySnapshots())
    restoring = asyncio.create_task(instance.consumer.restore())
    await asyncio.sleep(0.002)  # one read or two find nothing
    lagging.readable.set()
    await restoring
    assert instance.consumer.next_offset == await lagging.end_offset(0) > 0


async def test_a_snapshot_of_another_form_costs_only_time() -> None:
    log, snapshots = MemoryLog(partitions=1), MemorySnapshots()
    await a_domain(log)
    await snapshots.save(0, 2, b"of a version to come")
    instance = Instance(log, "a", snapshots)
    await instance.consumer.restore()
    assert digest([instance.consumer._fold]) == digest([await whole(log)])


async def test_effects_are_handed_on_only_when_nothing_is_left_to_decide() -> None:
    log = MemoryLog(partitions=1)
    await a_domain(log)
    await append(log, *nodes(5))
    instance = Instance(log, "a", MemorySnapshots())
    async with instance.running():
        await eventually(lambda: len(instance.rows) == 5)
        await append(log, *nodes(9, first=5))
        await eventually(lambda: len(instance.rows) == 9)
    assert sorted(index for index in instance.rows.values() if index is not None) == list(range(9))
    assert instance.unarbitrated == []
    assert await decisions(log) == ["index-assigned"] * 9


async def test_a_position_names_the_last_record_that_the_effects_come_from() -> None:
    log = MemoryLog(partitions=1)
    await a_domain(log)
    await append(log, *nodes(2))
    instance = Instance(log, "a", MemorySnapshots())
    async with instance.running():
        await eventually(lambda: len(instance.rows) == 2)
    assert instance.positions[-1] == f"0/{await log.end_offset(0) - 1}"


@pytest.mark.parametrize(
    ("trouble", "with_effect"),
    [
        (LogUnavailable("the disk is full"), False),
        (AppendOutcomeUnknown("the answer was lost"), False),
        (AppendOutcomeUnknown("the answer was lost"), True),
    ],
)
async def test_an_append_that_fails_loses_nothing_and_gives_nothing_twice(
    trouble: LogError, *, with_effect: bool
) -> None:
    log = TroubledLog()
    await a_domain(log)
    await append(log, *nodes(4))
    log.troubles = [(trouble, with_effect), (trouble, with_effect)]
    instance = Instance(log, "a", MemorySnapshots())
    async with instance.running():
        await eventually(lambda: len(instance.rows) == 4)
    assert sorted(instance.rows.values(), key=str) == [0, 1, 2, 3]
    assert instance.appender.trouble is None
    assert len(instance.counts.refused) == (8 if with_effect else 0)


async def test_a_log_that_cannot_be_written_is_told_as_trouble_until_it_can() -> None:
    log = TroubledLog()
    log.troubles = [(LogUnavailable("the disk is full"), False)] * 3
    instance = Instance(log, "a", MemorySnapshots())
    with capture_logs() as lines:
        task = asyncio.create_task(instance.appender.append([(CLIQUE, nodes(1)[0])]))
        await eventually(lambda: instance.appender.trouble is not None or task.done())
        assert [position.offset for position in await task] == [0]
    assert [line["event"] for line in lines] == ["log not writable", "log writable again"]
    assert instance.appender.trouble is None


async def test_decisions_are_appended_once_though_the_log_is_read_late() -> None:
    log = TroubledLog()
    await a_domain(log)
    await append(log, *nodes(3))
    instance = Instance(log, "a", MemorySnapshots())
    await instance.consumer.restore()
    log.readable.clear()
    async with instance.running():
        await eventually(lambda: len(instance.counts.appends) >= 3)
        for _ in range(20):
            await asyncio.sleep(0.002)
        assert instance.wanted == {}
        log.readable.set()
        await eventually(lambda: len(instance.rows) == 3)
    assert await decisions(log) == ["index-assigned"] * 3


async def test_two_controllers_on_one_log_give_each_node_one_index() -> None:
    log = TroubledLog()
    await a_domain(log)
    first, second = Instance(log, "a", MemorySnapshots()), Instance(log, "b", MemorySnapshots())
    async with first.running(), second.running():
        for number in range(12):
            await append(log, *nodes(number + 1, first=number))
            await asyncio.sleep(0)
        await eventually(lambda: len(first.rows) == 12 and len(second.rows) == 12)
    assert first.rows == second.rows
    assert sorted(index for index in first.rows.values() if index is not None) == list(range(12))
    assert first.unarbitrated + second.unarbitrated == []


async def test_a_decision_that_is_not_admissible_is_counted_and_told_with_its_place() -> None:
    log = MemoryLog(partitions=1)
    await a_domain(log)
    await append(log, *nodes(1))
    await append(log, IndexAssigned("d0", "n0", 3, 18), IndexAssigned("d0", "n0", 4, 18), by="rival")
    instance = Instance(log, "a", MemorySnapshots())
    with capture_logs() as lines:
        await instance.consumer.restore()
    assert instance.counts.refused == ["index-assigned"]
    assert [(line["event"], line["position"], line["by"]) for line in lines] == [
        ("decision not admissible", "0/4", "rival")
    ]


async def test_a_record_of_a_newer_version_ends_it_with_one_sentence() -> None:
    log = MemoryLog(partitions=1)
    await a_domain(log)
    await log.append([Entry(CLIQUE, 1, Headers("node-seen", codec.SCHEMA_VERSION + 1, "newer"), b"{}")])
    instance = Instance(log, "a", MemorySnapshots())
    with pytest.raises(NewerSchema, match=r"0/2 .*use a newer cliquelog$"):
        await instance.consumer.restore()


async def test_records_that_are_no_events_are_passed_over_counted_and_named_and_work_goes_on() -> None:
    log, snapshots = MemoryLog(partitions=1), MemorySnapshots()
    sane = MemoryLog(partitions=1)
    for one in (log, sane):
        await a_domain(one)
        await append(one, *nodes(2))
    headers = Headers("node-seen", codec.SCHEMA_VERSION, "one")
    await log.append([Entry(CLIQUE, 1, headers, b"{not json"), Entry("never.seen", 1, headers, b"")])
    first, second = Instance(log, "a", snapshots), Instance(sane, "a", MemorySnapshots())
    with capture_logs() as lines:
        async with first.running(), second.running():
            await append(log, *nodes(4, first=2))
            await append(sane, *nodes(4, first=2))
            await eventually(lambda: len(first.rows) == len(second.rows) == 4)
    assert first.rows == second.rows == {"n0": 0, "n1": 1, "n2": 2, "n3": 3}
    told = [(line["position"], line["log_level"]) for line in lines if line["event"] == "record passed over"]
    assert told == [("0/4", "error"), ("0/5", "error")]
    assert first.counts.passed_over == 2
    assert "never.seen" not in first.consumer.aggregates
    assert digest([await whole(log)]) == digest([await whole(sane)])
    assert (await whole(log)).head != (await whole(sane)).head
    # A restart from a snapshot that was made since does not tell again what was told.
    await first.consumer.snapshot()
    again = Instance(log, "a", snapshots)
    await again.consumer.restore()
    assert again.counts.passed_over == 0
    assert again.consumer.aggregates == first.consumer.aggregates


async def test_a_log_that_begins_above_the_snapshot_is_refused() -> None:
    log, snapshots = TroubledLog(), MemorySnapshots()
    await a_domain(log)
    first = Instance(log, "a", snapshots)
    await first.consumer.restore()
    await first.consumer.snapshot()
    await append(log, *nodes(5))
    log.beginning = 4
    with pytest.raises(OffsetOutOfRange, match="begins at offset 4, 2 was asked for"):
        await Instance(log, "a", snapshots).consumer.restore()


async def test_a_log_whose_first_records_are_gone_is_refused_where_no_snapshot_holds_what_they_said() -> None:
    log = TroubledLog()
    await a_domain(log)
    await append(log, *nodes(5))
    log.beginning = 4
    with pytest.raises(LogUnreadable, match=r"the records below offset 4 are gone, .* or start with a new log"):
        await Instance(log, "a", MemorySnapshots()).consumer.restore()


async def test_a_log_that_cannot_be_read_now_is_waited_for_and_told_as_trouble_meanwhile() -> None:
    log = TroubledLog()
    await a_domain(log)
    instance = Instance(log, "a", MemorySnapshots())
    with capture_logs() as lines:
        async with instance.running():
            log.unreadable = 10_000
            await eventually(lambda: instance.consumer.trouble == "no broker answers")
            log.unreadable = 0
            await append(log, *nodes(3))
            await eventually(lambda: len(instance.rows) == 3)
    assert [line["event"] for line in lines].count("log not readable") == 1
    assert instance.consumer.trouble is None


async def test_a_snapshot_that_goes_beyond_its_log_is_refused() -> None:
    log, snapshots = MemoryLog(partitions=1), MemorySnapshots()
    await a_domain(log)
    first = Instance(log, "a", snapshots)
    await first.consumer.restore()
    await first.consumer.snapshot()
    with pytest.raises(LogError, match="remove its snapshots"):
        await Instance(MemoryLog(partitions=1), "a", snapshots).consumer.restore()


async def test_a_snapshot_that_cannot_be_saved_is_told_and_costs_nothing_else() -> None:
    class Full(MemorySnapshots):
        async def save(self, partition: int, next_offset: int, state: bytes) -> None:  # noqa: ARG002
            raise LogUnavailable("the disk is full")

    log = MemoryLog(partitions=1)
    await a_domain(log)
    instance = Instance(log, "a", Full())
    await instance.consumer.restore()
    with capture_logs() as lines:
        await instance.consumer.snapshot()
    assert [line["event"] for line in lines] == ["snapshot not saved"]
    assert instance.consumer.next_offset == 2

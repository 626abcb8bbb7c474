"""The engine on Faust without Faust: partitions are given and taken by the test, messages come from a log in memory."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec
import pytest
import structlog
from structlog.testing import capture_logs

from controller.appender import Appender
from controller.engines.consumer import ConsumerConfig, PartitionConsumer, Source
from controller.engines.faust import FaustEngine, view_keys
from controller.engines.stall import Patience, Stalled
from controller.metrics import Metrics
from eventlog import codec
from eventlog.events import (
    AnyEvent,
    CdcSeen,
    ClaimTemplateGone,
    ControllerStarted,
    DaemonSetSeen,
    DomainSeen,
    IndexAssigned,
    NodeSeen,
    ViewCompleted,
)
from eventlog.log import LogUnavailable, Snapshot
from eventlog.memory import MemoryLog, MemorySnapshots
from eventlog.partitioner import partition_for
from kube.clock import SystemClock
from projections.effects import AnyEffect, Target, WriteCdc
from projections.fold import CONTROLLER_PREFIX
from projections.settings import Settings
from tests.controller import cluster as make
from tests.controller.test_consumer import eventually

PARTITIONS = 2
KEYS = view_keys(PARTITIONS)
CLIQUES = {partition_for(clique, PARTITIONS): clique for clique in ("c.0", "c.1", "c.2", "c.3")}
"""By partition: a clique in it."""
IMPATIENT = Patience(look_s=0.02, progress_s=0.1, assignment_s=0.5)


class Worker:
    """What stands for the Faust worker: it delivers a live partition's records as they come, unless it is stuck."""

    name = "group"

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self.live: list[tuple[int, int]] = []
        self.is_stuck = False
        self.engine: FaustEngine | None = None
        self._pumps: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()

    async def stop(self) -> None:
        for pump in self._pumps:
            pump.cancel()

    async def go_live(self, partition: int, offset: int) -> None:
        self.live.append((partition, offset))
        self._pumps.append(asyncio.create_task(self._pump(partition, offset)))

    def hold(self, _partition: int) -> None:
        raise AssertionError("nothing here is far behind")

    def end(self, partition: int) -> int:
        del partition
        return 0

    async def _pump(self, partition: int, offset: int) -> None:
        while True:
            for record in await self._log.read(partition, offset, limit=10, timeout_s=1):
                offset = record.offset + 1
                if self.engine is not None and not self.is_stuck:
                    self.engine.deliver(partition, record.offset, record)

    async def commit(self, offsets: Mapping[int, int]) -> bool:
        del offsets
        return True


class CountedSnapshots(MemorySnapshots):
    """Counts what is loaded, and can be away."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[int] = []
        self.away = False

    async def load(self, partition: int) -> Snapshot | None:
        self.loads.append(partition)
        if self.away:
            raise LogUnavailable("no broker answers")
        return await super().load(partition)


class Rig:
    """An engine on a log in memory, with who leads."""

    def __init__(self, *, lease: bool = True, patience: Patience | None = None) -> None:
        self.log = MemoryLog(partitions=PARTITIONS)
        self.snapshots = CountedSnapshots()
        self.leader = "leader"
        self.wanted: dict[str, Mapping[Target, AnyEffect]] = {}
        self.metrics = Metrics()
        self.worker = Worker(self.log)
        logger, clock = structlog.get_logger(), SystemClock()
        appender = Appender(self.log, clock, "me", self.metrics, logger, retry_s=0.001)

        def consumer(partition: int, source: Source) -> PartitionConsumer:
            return PartitionConsumer(
                partition,
                log=self.log,
                source=source,
                snapshots=self.snapshots,
                appender=appender,
                want=self.want,
                settings=Settings("driver"),
                config=ConsumerConfig(poll_s=0.05),
                metrics=self.metrics,
                logger=logger,
            )

        self.engine = FaustEngine(
            log=self.log,
            make=consumer,
            make_worker=lambda _: self.worker,  # type: ignore[arg-type,return-value]
            leader=(lambda: self.leader) if lease else None,
            identity="me",
            group="group",
            patience=patience or Patience(),
            appender=appender,
            metrics=self.metrics,
            clock=clock,
            logger=logger,
        )
        self.worker.engine = self.engine

    def want(self, owner: str, effects: Mapping[Target, AnyEffect], position: str) -> None:
        del position
        self.wanted[owner] = effects

    def wants(self, partition: int) -> bool:
        return bool(self.wanted.get(CLIQUES[partition]))

    async def append(self, *events: tuple[str, AnyEvent], by: str = "leader") -> None:
        await self.log.append([codec.entry(key, event, timestamp_ms=1, controller=by) for key, event in events])

    async def join(self, partition: int, node: str = "n0") -> None:
        """Let a node join a domain in the partition's clique."""
        clique = CLIQUES[partition]
        await self.append(
            (clique, DomainSeen("dom", 1, "team", "dom", "template", "Single")),
            (clique, DaemonSetSeen("dom", "ds", 2, "driver", "dom", reader=True)),
            (clique, NodeSeen(node, f"uid-{node}", 3, clique, "dom")),
        )

    async def mark(self, observer: str = "leader") -> None:
        await self.append(*((key, ViewCompleted(observer)) for key in KEYS))

    async def revoke(self) -> None:
        await self.worker.stop()
        self.engine.revoked()

    async def events(self, partition: int) -> list[AnyEvent]:
        return [codec.decode(record) for record in await self.log.read(partition, 0, limit=1000, timeout_s=0)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async def live() -> None:
            async with asyncio.TaskGroup() as group:
                await self.engine.begin(group)
                begun.set()

        begun = asyncio.Event()
        task = asyncio.create_task(live())
        await begun.wait()
        try:
            yield
        finally:
            await self.worker.stop()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def a_moment() -> None:
    """Let everything happen that waits for nothing; what must not happen would have."""
    await asyncio.sleep(0.3)


def test_each_partition_has_a_key_of_its_own_for_its_view() -> None:
    for partitions in (1, 2, 24, 100):
        keys = view_keys(partitions)
        assert [partition_for(key, partitions) for key in keys] == list(range(partitions))


async def test_a_partition_is_restored_delivers_from_where_that_ended_and_acts() -> None:
    rig = Rig()
    await rig.join(0)
    await rig.mark()
    end = await rig.log.end_offset(0)
    async with rig.running():
        assert rig.engine.waits_for() == "waiting for the partitions of group group"
        rig.engine.assigned(frozenset({0}))
        assert rig.engine.waits_for() == "restoring 1 partitions, first 0"
        await eventually(lambda: rig.wants(0))
        assert rig.worker.live == [(0, end)]
        assert rig.engine.waits_for() is None
    assert isinstance((await rig.events(0))[end], IndexAssigned)


async def test_nobody_acts_on_a_view_of_somebody_who_does_not_lead() -> None:
    rig = Rig()
    await rig.join(0)
    await rig.mark("dead")
    async with rig.running():
        rig.engine.assigned(frozenset({0}))
        await eventually(lambda: rig.worker.live != [])
        await a_moment()
        assert not rig.wants(0)
        assert rig.engine.waits_for() == "waiting for an observer's complete view of 1 partitions, first 0"
        await rig.mark("leader")
        await eventually(lambda: rig.wants(0))


async def test_a_leader_that_is_gone_takes_the_wishes_with_it_until_the_next_has_a_view() -> None:
    rig = Rig()
    await rig.join(0)
    await rig.mark()
    async with rig.running():
        rig.engine.assigned(frozenset({0}))
        await eventually(lambda: rig.wants(0))
        rig.leader = ""
        assert not rig.engine.may_send()
        await eventually(lambda: not rig.wants(0))
        rig.leader = "next"
        assert rig.engine.may_send()
        await a_moment()
        assert not rig.wants(0)
        await rig.mark("next")
        await eventually(lambda: rig.wants(0))


async def test_a_revoked_partition_wants_nothing_at_once_and_appends_nothing_more() -> None:
    rig = Rig()
    await rig.join(0)
    await rig.mark()
    async with rig.running():
        rig.engine.assigned(frozenset({0}))
        await eventually(lambda: rig.wants(0))
        await rig.revoke()
        assert not rig.wants(0)
        await rig.join(0, "n1")
        before = await rig.events(0)
        await a_moment()
        assert await rig.events(0) == before
        assert not rig.wants(0)


async def test_what_stays_through_a_rebalance_is_not_restored_and_reads_what_it_missed() -> None:
    rig = Rig()
    await rig.join(0)
    await rig.mark()
    async with rig.running():
        rig.engine.assigned(frozenset({0, 1}))
        await eventually(lambda: rig.wants(0) and len(rig.worker.live) == 2)
        await rig.revoke()
        await rig.join(0, "n1")
        end = await rig.log.end_offset(0)
        rig.worker.live.clear()
        rig.engine.assigned(frozenset({0}))
        await eventually(lambda: rig.worker.live == [(0, end)])
        await eventually(lambda: len(rows(rig.wanted[CLIQUES[0]])) == 2)
        assert sorted(rig.snapshots.loads) == [0, 1], "each was restored once"
        lost = await rig.snapshots.load(1)
        assert lost is not None, "what was lost is saved for whoever has it now"


def rows(effects: Mapping[Target, AnyEffect]) -> list[str]:
    return [row.node for effect in effects.values() if isinstance(effect, WriteCdc) for row in effect.rows]


async def test_a_restore_waits_for_brokers_that_are_away() -> None:
    rig = Rig()
    await rig.join(0)
    await rig.mark()
    rig.snapshots.away = True
    async with rig.running():
        rig.engine.assigned(frozenset({0}))
        await eventually(lambda: rig.engine.trouble() == "no broker answers")
        rig.snapshots.away = False
        await eventually(lambda: rig.wants(0))
        assert rig.engine.trouble() is None


async def test_who_comes_to_lead_while_brokers_are_away_waits_for_them() -> None:
    rig = Rig()
    await rig.join(0)
    rig.snapshots.away = True
    known = asyncio.create_task(rig.engine.known())
    await a_moment()
    rig.snapshots.away = False
    assert CLIQUES[0] in dict(await known)


async def test_it_is_told_that_brokers_are_away_while_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(_partition: int) -> int:
        raise LogUnavailable("no broker answers")

    rig = Rig(patience=IMPATIENT)
    await rig.mark()
    async with rig.running():
        rig.engine.assigned(frozenset({0, 1}))
        await eventually(lambda: rig.engine.waits_for() is None)
        assert rig.engine.trouble() is None
        with monkeypatch.context() as patch:
            patch.setattr(rig.log, "end_offset", away)
            await eventually(lambda: rig.engine.trouble() == "no broker answers")
        await eventually(lambda: rig.engine.trouble() is None)


async def test_the_late_mark_of_a_former_leader_does_not_keep_all_from_acting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.engines.faust.MARKED_S", 0.05)
    rig = Rig()
    await rig.join(0)
    rig.leader = "me"
    async with rig.running():
        rig.engine.assigned(frozenset({0, 1}))
        await rig.engine.view_complete({})
        await eventually(lambda: rig.wants(0))
        # Its append was under way when it was stopped, and goes on where that ended.
        await rig.mark("former")
        await eventually(lambda: not rig.wants(0))
        await eventually(lambda: rig.wants(0))
        end = await rig.log.end_offset(1)
        await a_moment()
        assert await rig.log.end_offset(1) == end, "it marks once"


async def test_without_a_lease_each_acts_on_what_its_own_lists_have_brought() -> None:
    rig = Rig(lease=False)
    async with rig.running():
        rig.engine.assigned(frozenset({0}))
        await rig.join(0)
        await a_moment()
        assert not rig.wants(0)
        await rig.engine.view_complete({0: await rig.log.end_offset(0)})
        await eventually(lambda: rig.wants(0))


async def test_a_view_is_marked_in_every_partition() -> None:
    rig = Rig()
    await rig.engine.view_complete({})
    for partition in range(PARTITIONS):
        assert await rig.events(partition) == [ViewCompleted("me")]


async def test_a_live_read_is_recorded_for_the_aggregate_that_asked_and_for_none_that_is_gone() -> None:
    rig = Rig()
    await rig.join(0)
    await rig.mark()
    clique = CLIQUES[0]
    target = Target("computedomaincliques", "driver", f"dom.{clique}")
    raw = msgspec.json.encode(make.cdc("cdc-1", 101, "dom", clique, []))
    async with rig.running():
        rig.engine.assigned(frozenset({0}))
        await eventually(lambda: rig.wants(0))
        await rig.engine.observe(clique, target, raw)
        assert [event for event in await rig.events(0) if isinstance(event, CdcSeen)] != []
        await rig.revoke()
        rig.engine.assigned(frozenset({1}))
        before = await rig.events(0)
        await rig.engine.observe(clique, target, msgspec.json.encode(make.cdc("cdc-1", 102, "dom", clique, [])))
        assert await rig.events(0) == before


async def test_a_name_that_somebody_else_has_taken_is_looked_after_by_whoever_has_the_domain() -> None:
    rig = Rig()
    domain = next(name for name in ("d0", "d1", "d2", "d3") if partition_for(name, PARTITIONS) == 0)
    target = Target("resourceclaimtemplates", "team", "taken")
    taken = {"metadata": {"name": "taken", "namespace": "team", "uid": "t-1", "resourceVersion": "7"}}
    await rig.append((domain, DomainSeen(domain, 1, "team", "job", "taken", "Single")))
    await rig.mark()
    async with rig.running():
        rig.engine.assigned(frozenset({0}))
        await eventually(lambda: rig.engine.waits_for() is None)
        await rig.engine.observe(domain, target, msgspec.json.encode(taken))
        await eventually(lambda: [seen.uid for seen in rig.engine.taken_names()] == ["t-1"])
        await rig.engine.observe(domain, target, None)
        await eventually(lambda: rig.engine.taken_names() == [])
        assert ClaimTemplateGone in [type(event) for event in await rig.events(0)]


async def test_another_group_on_the_log_is_warned_of_once() -> None:
    rig = Rig()
    for identity, settings in {
        "stranger": {"engine": "faust", "group": "other"},
        "second": {"engine": "faust", "group": "other"},
        "mate": {"engine": "faust", "group": "group"},
    }.items():
        await rig.append((CONTROLLER_PREFIX + identity, ControllerStarted(identity, "1", settings)), by=identity)
    with capture_logs() as lines:
        async with rig.running():
            rig.engine.assigned(frozenset({0}))
            await eventually(lambda: rig.worker.live != [])
            for identity in ("mate", "stranger", "second", "stranger", "unknown"):
                await rig.append((CLIQUES[0], NodeSeen("n", "u", 1, CLIQUES[0])), by=identity)
            await eventually(lambda: b"cliquelog_other_groups 1.0" in rig.metrics.render())
            await a_moment()
    told = [line["other"] for line in lines if line["log_level"] == "warning"]
    assert told == ["group other"]


async def test_a_worker_that_is_stuck_ends_and_one_that_has_nothing_to_do_does_not() -> None:
    rig = Rig(patience=IMPATIENT)

    async def live() -> None:
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            await rig.engine.begin(group)
            rig.engine.assigned(frozenset({0, 1}))
            await eventually(lambda: len(rig.worker.live) == 2)
            await asyncio.sleep(5 * IMPATIENT.progress_s)
            assert b"cliquelog_lag_records 0.0" in rig.metrics.render()
            rig.worker.is_stuck = True
            await rig.join(0)

    with pytest.raises(ExceptionGroup) as raised:
        await live()
    (stalled,) = raised.value.exceptions
    assert isinstance(stalled, Stalled)
    assert "partition 0 stands at offset 0" in str(stalled)
    assert b"cliquelog_lag_records 3.0" in rig.metrics.render()
    await rig.worker.stop()


async def test_a_worker_that_gets_no_assignment_ends() -> None:
    rig = Rig(patience=IMPATIENT)

    async def live() -> None:
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            await rig.engine.begin(group)

    with pytest.raises(ExceptionGroup) as raised:
        await live()
    assert raised.group_contains(Stalled, match="no partitions were assigned")


async def test_a_worker_without_partitions_of_its_own_waits_for_ever() -> None:
    rig = Rig(patience=IMPATIENT)
    async with rig.running():
        rig.engine.assigned(frozenset())
        await asyncio.sleep(3 * IMPATIENT.assignment_s)
        assert rig.engine.waits_for() is None


async def test_a_rebalance_that_comes_while_it_ends_changes_nothing() -> None:
    """As where all of a group are asked to end at once: each is given what the others leave."""
    rig = Rig()
    async with rig.running():
        await rig.mark()
        rig.engine.assigned(frozenset({0}))
        await eventually(lambda: len(rig.worker.live) == 1)
    rig.engine.revoked()
    rig.engine.assigned(frozenset({0, 1}))
    closing = asyncio.create_task(rig.engine.close())
    await asyncio.sleep(0)
    rig.engine.revoked()
    rig.engine.assigned(frozenset({1}))
    await closing
    await a_moment()
    assert [partition for partition, _ in rig.worker.live] == [0]
    saved = await rig.snapshots.load(0)
    assert saved is not None
    assert saved.next_offset == await rig.log.end_offset(0)

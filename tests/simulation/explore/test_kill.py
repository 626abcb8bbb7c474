"""A process that is killed does nothing more: no call of it has any effect, and none returns."""

import asyncio
from collections.abc import Awaitable
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec
import pytest

from eventlog.log import AppendOutcomeUnknown, LogUnavailable
from eventlog.memory import MemoryLog, MemorySnapshots
from eventlog.record import Entry, Headers
from kube import names
from kube.client import NotFound, Selector, Unreachable
from simulation.client import SimulatedClient
from simulation.explore.faulty_client import FaultyClient
from simulation.explore.faulty_log import FaultyLog, FaultySnapshots
from simulation.explore.loop import VirtualLoop
from tests.kube.serving import api_of
from tests.simulation.explore.ports import latency, process

if TYPE_CHECKING:
    from simulation.explore.process import Process

NODE = msgspec.json.encode({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}})
ENTRY = Entry("clique.0", 1, Headers("node-seen", 1, "p"), b"{}")
LONG_S = 10_000.0


async def never_returns(call: Awaitable[object]) -> bool:
    """Say whether a call is still out after a long time."""
    try:
        async with asyncio.timeout(LONG_S):
            await call
    except TimeoutError:
        return True
    return False


class World:
    """A server, a log and one process."""

    def __init__(self, rates: dict[str, float]) -> None:
        self.api = api_of((names.NODES,))
        self.inner_log, self.inner_snapshots = MemoryLog(partitions=1), MemorySnapshots()
        self.process: Process = process(rates)
        self.client = FaultyClient(SimulatedClient(self.api), self.process, latency(), page=500)
        self.log = FaultyLog(self.inner_log, self.process, latency())
        self.snapshots = FaultySnapshots(self.inner_snapshots, self.process, {})

    async def records(self) -> int:
        return len(await self.inner_log.read(0, 0, limit=100, timeout_s=0.0))

    def nodes(self) -> int:
        return len(self.api.store.snapshot(Selector(names.NODES)))


def on_virtual_time(scenario: "type[Scenario]") -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario.run())


class Scenario:
    """What a test does in a loop of its own."""

    @staticmethod
    async def run() -> None:
        raise NotImplementedError


def test_after_the_kill_nothing_has_an_effect_and_nothing_returns() -> None:
    class Killed(Scenario):
        @staticmethod
        async def run() -> None:
            world = World({})
            world.process.kill()
            assert await never_returns(world.client.create(names.NODES, "", NODE))
            assert await never_returns(world.client.list(Selector(names.NODES)))
            assert await never_returns(world.log.append([ENTRY]))
            assert await never_returns(world.log.read(0, 0, limit=1, timeout_s=0.0))
            assert await never_returns(world.snapshots.save(0, 1, b"state"))
            assert world.nodes() == 0
            assert await world.records() == 0
            assert await world.inner_snapshots.load(0) is None

    on_virtual_time(Killed)


def test_a_watch_of_a_killed_process_tells_nothing_more() -> None:
    class Watching(Scenario):
        @staticmethod
        async def run() -> None:
            world = World({})
            version = world.api.store.version
            lines = world.client.watch(Selector(names.NODES), resource_version=str(version), timeout_s=60)
            async with aclosing(lines):
                first = asyncio.ensure_future(anext(lines))
                await asyncio.sleep(1)
                world.process.kill()
                await SimulatedClient(world.api).create(names.NODES, "", NODE)
                assert await never_returns(first)

    on_virtual_time(Watching)


def test_a_crash_before_a_call_leaves_nothing_and_one_after_it_leaves_all() -> None:
    class Crashing(Scenario):
        @staticmethod
        async def run() -> None:
            before, after = World({"crash before a call": 1.0}), World({"crash after a call": 1.0})
            for world in (before, after):
                assert await never_returns(world.client.create(names.NODES, "", NODE))
            assert (before.nodes(), after.nodes()) == (0, 1)
            before, after = World({"crash before a call": 1.0}), World({"crash after a call": 1.0})
            for world in (before, after):
                assert await never_returns(world.log.append([ENTRY]))
                assert world.log.acknowledged == []
            assert (await before.records(), await after.records()) == (0, 1)

    on_virtual_time(Crashing)


def test_an_append_fails_in_the_ways_that_the_port_allows() -> None:
    class Failing(Scenario):
        @staticmethod
        async def run() -> None:
            lost = World({"append: acknowledgement lost": 1.0})
            with pytest.raises(AppendOutcomeUnknown):
                await lost.log.append([ENTRY])
            unavailable = World({"append: log unavailable": 1.0})
            with pytest.raises(LogUnavailable):
                await unavailable.log.append([ENTRY])
            assert (await lost.records(), await unavailable.records()) == (1, 0)
            assert lost.log.acknowledged == []

    on_virtual_time(Failing)


def test_a_request_that_was_given_up_takes_effect_once_or_never() -> None:
    class GivenUp(Scenario):
        @staticmethod
        async def run() -> None:
            late, lost = World({"request: takes effect late": 1.0}), World({"request: lost": 1.0})
            for world in (late, lost):
                with pytest.raises(Unreachable):
                    await world.client.create(names.NODES, "", NODE)
                assert world.nodes() == 0
            await asyncio.sleep(LONG_S)
            assert (late.nodes(), lost.nodes()) == (1, 0)
            with pytest.raises(NotFound):
                await SimulatedClient(lost.api).get(names.NODES, "", "n0")

    on_virtual_time(GivenUp)

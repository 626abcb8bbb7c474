"""Three workers on 24 partitions while 1,008 nodes form a domain, and what happens to workers and brokers meanwhile.

Killed, frozen for longer than their session and thawed, without a broker, restarted one after the other: nobody should
notice in the rows. A worker that ends is started again, as a supervisor does. Broker and workers are real; the cluster
is simulated, in this process.
"""

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest

from controller.exits import LEADERSHIP, LOG, STALLED
from eventlog.kafka import KafkaPlace
from simulation.formation import Plan
from tests.integration.broker.broker import Broker
from tests.integration.clique_watch import doubled, renumbered, shaken, vanished
from tests.integration.controllers import Controller
from tests.integration.engines import Engine, faust_on
from tests.integration.replays import Replay, by_node, verify
from tests.integration.simulated import Simulated, simulated
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration
PLAN = Plan(nodes=1_008, clique_size=18, seed=7, window_s=40.0, wave=1_008)
WORKERS = 3
SESSION_S = 6.0
"""The shortest that brokers allow unless told otherwise."""
FORMED_S = 300.0
QUIET_S = 5.0
RESTART_S = 0.5
"""How soon a supervisor starts a worker again."""


class Supervised:
    """A worker that is started again whenever it ends. `codes` are those with which it has ended."""

    def __init__(self, worker: Controller) -> None:
        self.worker = worker
        self.codes: list[int] = []
        self._stopping = False

    async def run(self) -> None:
        """Keep it running until it is stopped."""
        while not self._stopping:
            await self.worker.start()
            self.codes.append(await self.worker.life())
            await asyncio.sleep(RESTART_S)

    def stop(self) -> None:
        """Ask it to end, for good."""
        self._stopping = True
        self.worker.signal(signal.SIGTERM)


class Group:
    """The workers, their broker and their cluster."""

    def __init__(self, workers: list[Supervised], broker: Broker, cluster: Simulated) -> None:
        self.workers = workers
        self.broker = broker
        self.cluster = cluster

    async def reaches(self, share: float) -> None:
        """Wait until so large a part of the rows is Ready."""

        async def ready() -> int:
            return self.cluster.world.meter.rows_ready

        await eventually(ready, lambda rows: rows >= share * PLAN.nodes, f"{share:.0%} of the rows are Ready", FORMED_S)

    async def observer(self) -> Supervised:
        """Wait until one of them leads, and give it."""

        async def leading() -> list[Supervised]:
            told = [await leads(one) for one in self.workers]
            return [one for one, yes in zip(self.workers, told, strict=True) if yes]

        (one,) = await eventually(leading, lambda found: len(found) == 1, "one of the workers leads")
        return one


async def leads(one: Supervised) -> bool:
    """Say whether the worker says that it leads; one that is not up yet does not."""
    try:
        return "cliquelog_leader 1.0" in (await one.worker.metrics()).splitlines()
    except aiohttp.ClientError:
        return False


Meddle = Callable[[Group, random.Random], Awaitable[None]]


async def kill(group: Group, dice: random.Random) -> None:
    """Kill a worker without any warning, six times, and every other time the one that observes."""
    for number, share in enumerate(sorted(dice.uniform(0.02, 0.8) for _ in range(6))):
        await group.reaches(share)
        one = await group.observer() if number % 2 else dice.choice(group.workers)
        await running(one)
        lives = len(one.codes)
        one.worker.signal(signal.SIGKILL)
        await ended(one, lives)


async def freeze(group: Group, dice: random.Random) -> None:
    """Let each worker, so the observer too, stand still for longer than its session, and then go on as before."""
    for share, one in zip((0.05, 0.3, 0.55), dice.sample(group.workers, WORKERS), strict=True):
        await group.reaches(share)
        await running(one)
        one.worker.freeze()
        await asyncio.sleep(2.5 * SESSION_S + dice.uniform(0, 5))
        one.worker.thaw()


async def no_broker(group: Group, dice: random.Random) -> None:
    """Kill the broker and start it again, twice."""
    for share in (0.1, 0.5):
        await group.reaches(share + dice.uniform(0, 0.1))
        await asyncio.to_thread(group.broker.kill)
        await asyncio.sleep(dice.uniform(0, 5))
        await asyncio.to_thread(group.broker.start)


async def roll(group: Group, dice: random.Random) -> None:
    """Restart each worker as a rollout does: the next one when the one before is ready again."""
    await group.reaches(0.1)
    for one in dice.sample(group.workers, WORKERS):
        await running(one)
        lives = len(one.codes)
        one.worker.signal(signal.SIGTERM)
        await ended(one, lives)
        await asyncio.sleep(2 * RESTART_S)
        await one.worker.ready()


async def running(one: Supervised) -> None:
    """Wait until the worker has a process: one that has just ended gets the next in a moment."""

    async def is_running() -> bool:
        return one.worker.is_running

    await eventually(is_running, bool, "the worker runs")


async def ended(one: Supervised, lives: int) -> None:
    """Wait until the worker has ended more often than so many times."""

    async def codes() -> int:
        return len(one.codes)

    await eventually(codes, lambda count: count > lives, "the worker ends")


@pytest.fixture
async def engine(own_broker: Broker, new_place: Callable[[], KafkaPlace], tmp_path: Path) -> Engine:
    """Workers whose sessions are as short as may be."""
    config = tmp_path / "client.properties"
    config.write_text(f"session.timeout.ms={int(SESSION_S * 1000)}\nrequest.timeout.ms=2000\n")
    engine = await faust_on(msgspec.structs.replace(new_place(), servers=(own_broker.server,)))
    return msgspec.structs.replace(engine, options=(*engine.options, "--kafka-config", str(config)))


@asynccontextmanager
async def workers_of(engine: Engine, cluster: Simulated, broker: Broker, folder: Path) -> AsyncIterator[Group]:
    """Run the workers for the time of the block; at its end they are asked to end."""
    group = Group(
        [Supervised(engine.controller(cluster, folder / f"worker-{number}")) for number in range(WORKERS)],
        broker,
        cluster,
    )
    async with asyncio.TaskGroup() as tasks:
        lives = [tasks.create_task(one.run()) for one in group.workers]
        try:
            for one in group.workers:
                await asyncio.sleep(RESTART_S)
                await one.worker.ready()
            yield group
            for one in group.workers:
                one.stop()
            await asyncio.wait(lives, timeout=60)
        finally:
            for life in lives:
                life.cancel()
            for one in group.workers:
                await one.worker.__aexit__(None, None, None)


@pytest.mark.parametrize(
    ("meddle", "codes"),
    [
        (kill, {-signal.SIGKILL}),
        (freeze, {LEADERSHIP}),
        (no_broker, {LOG, STALLED}),
        (roll, {0}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_formation_is_whole_whatever_happens_to_workers_and_broker(
    engine: Engine, own_broker: Broker, tmp_path: Path, meddle: Meddle, codes: set[int]
) -> None:
    dice = random.Random(meddle.__name__)
    async with simulated(PLAN, tmp_path) as cluster, workers_of(engine, cluster, own_broker, tmp_path) as group:
        world = cluster.world
        domain = world.formation.create_domain()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(world.formation.join(domain))
            tasks.create_task(meddle(group, dice))
        await group.reaches(1.0)

        async def idle() -> float:
            return world.idle_s()

        await eventually(idle, lambda seconds: seconds > QUIET_S, "nothing is written any more", FORMED_S)
        seen = [set(one.codes) for one in group.workers]
        print(f"{meddle.__name__}: workers ended with {[one.codes for one in group.workers]}")
        rows, versions, addresses = cluster.rows(), list(cluster.versions), cluster.addresses()
    assert set().union(*seen) <= codes
    assert [one.codes[-1] for one in group.workers] == [0] * WORKERS, "each ends cleanly when it is asked to"
    check_rows(rows, addresses)
    for wrong in (doubled, renumbered, vanished, shaken):
        assert wrong(versions) == []
    code, output = await verify(engine.place)
    assert code == 0, output
    replay = await Replay.of(engine.place)
    assert by_node(replay.rows(domain)) == by_node(rows)
    assert {node: found for node, found in replay.indices_seen(domain).items() if len(found) > 1} == {}


def check_rows(rows: dict[str, list[dict[str, object]]], addresses: dict[str, str]) -> None:
    """Check that each node has one row, Ready, with its daemon's address, and that no clique has an index twice."""
    sizes = PLAN.sizes()
    assert {clique: len(found) for clique, found in rows.items()} == sizes
    assert {row["nodeName"]: row["ipAddress"] for found in rows.values() for row in found} == addresses
    assert {row["status"] for found in rows.values() for row in found} == {"Ready"}
    for clique, found in rows.items():
        assert sorted(row["index"] for row in found) == list(range(sizes[clique]))

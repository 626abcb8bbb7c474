"""The formation of `cliquelog simulate` on virtual time, by any of the strategies; ours is the whole controller.

Problem: settings of the controller, and strategies, are to be compared by what they do, not by how fast this machine
runs Python. So nothing waits: an event loop on virtual time runs server, cluster and strategy. Equal seeds give equal
figures. Latency then holds the waits that the strategy makes, what the server takes for requests (`simulation.costs`,
shared cores), and what clients add; it holds no processor time of the controller's, and no time for a watch event to
come to it.
"""

import asyncio
import random
from collections import Counter
from types import TracebackType
from typing import Self

import msgspec
import structlog

from bench.limited import LimitedClient
from bench.load import Load
from controller.app import Controller
from controller.config import RunConfig
from controller.simulating.child import Usage
from controller.simulating.run import ending_together, form, touch
from controller.simulating.sides import IMAGE, Others, Side
from controller.writing.manifests import DaemonDeployment
from controller.writing.pacing import Pace
from eventlog.memory import MemoryLog, MemorySnapshots
from projections.settings import Settings
from simulation.capacity import Limits
from simulation.client import SimulatedClient
from simulation.explore.loop import LoopClock, VirtualLoop
from simulation.formation import Plan
from simulation.meter import Quantiles, quantiles
from simulation.timing import Timing
from simulation.world import NAMESPACE, World

START_MS = 1_780_000_000_000
STARTED_S = 1.0
"""Until the controller acts on an empty cluster, and the strategies' watches are open."""
WORKERS = 16
PATIENCE_S = 3600.0
"""Without any write: a queue that lets in 10 items a second writes nothing until the first IP's turn comes."""


class Arrivals(msgspec.Struct, frozen=True):
    """How the nodes come: within how many seconds, and from a pod's place on its node to its IP."""

    title: str
    window_s: float
    timing: Timing = Timing()


class Formed(msgspec.Struct, frozen=True):
    """What came of a formation. Writes are requests that write a CDC; delays are in milliseconds.

    `written`: carried out, of which `written_max` for one clique; `refused`: 409 and 429 of them, `throttled`: 429 of
    other requests. `row`: of all rows, both facts (see `simulation.meter`); `last_row`: of the cliques' last ones;
    `single`: of single changes afterwards, ours only.
    """

    nodes: int
    cliques: int
    rows_ready: int
    seconds: float
    written: int
    written_max: int
    refused: dict[int, int]
    throttled: int
    row: Quantiles
    last_row: Quantiles
    single: Quantiles

    @property
    def requests_per_clique(self) -> float:
        """CDC writes that were asked for, refused ones included, per clique."""
        return (self.written + sum(self.refused.values())) / self.cliques

    @property
    def written_per_clique(self) -> float:
        """CDC writes that were carried out, per clique."""
        return self.written / self.cliques


def form_virtually(plan: Plan, strategy: str, limits: Limits, pace: Pace, timing: Timing) -> Formed:
    """Form the domain with one of `controller.simulating.sides.STRATEGIES`; `pace` is ours, `timing` the pods'.

    Raises ExceptionGroup if a part fails, RuntimeError if rows are missing in the end: either is a defect.
    """
    loop = VirtualLoop()
    try:
        world = World(plan, limits, LoopClock(loop, START_MS), timing)
        formed = loop.run_until_complete(_form(world, strategy, pace))
    finally:
        loop.close()
    if formed.rows_ready < plan.nodes:
        raise RuntimeError(f"{strategy}: {formed.rows_ready} of {plan.nodes} rows are Ready")
    return formed


async def _form(world: World, strategy: str, pace: Pace) -> Formed:
    ours = strategy == "cliquelog"
    client = LimitedClient(SimulatedClient(world.api), world.capacity, world.costs, world.clock)
    load = Load(world.capacity, world.costs, readers=ours)
    world.store.subscribe(load.observe)
    side: Side = Embedded(world, client, pace) if ours else Others(strategy, world, lambda: _given(client))
    async with side, ending_together(world.cluster.run(), load.run(), side.watch()):
        await world.clock.sleep(STARTED_S)
        seconds = await form(world, side, lambda _: None, PATIENCE_S)
        answers, throttled = Counter(client.answers), client.throttled
        if ours:
            await touch(world)
    meter, afterwards = world.meter, world.afterwards
    single = [] if afterwards is None else [*afterwards.address.all, *afterwards.readiness.all]
    return Formed(
        nodes=world.plan.nodes,
        cliques=world.plan.cliques,
        rows_ready=meter.rows_ready,
        seconds=seconds,
        written=meter.writes.total(),
        written_max=max(meter.writes.values(), default=0),
        refused={status: answers[status] for status in (409, 429)},
        throttled=throttled,
        row=quantiles([*meter.address.all, *meter.readiness.all]),
        last_row=quantiles([*meter.address.last_rows(), *meter.readiness.last_rows()]),
        single=quantiles(single),
    )


async def _given(client: LimitedClient) -> LimitedClient:
    return client


class Embedded:
    """The whole controller in this event loop, with its log in memory; a `controller.simulating.sides.Side`."""

    def __init__(self, world: World, client: LimitedClient, pace: Pace) -> None:
        self.usage = Usage(0.0, 0)
        self._controller = Controller(
            _config(pace),
            log=MemoryLog(),
            snapshots=MemorySnapshots(),
            client=client,
            clock=world.clock,
            rng=random.Random(f"{world.plan.seed}/controller"),  # noqa: S311 - what makes it repeatable
            logger=structlog.wrap_logger(None, processors=[_unsaid], wrapper_class=structlog.BoundLogger),
        )

    async def __aenter__(self) -> Self:
        """Do nothing yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: it has ended with `watch`."""

    async def watch(self) -> None:
        """Control until cancelled."""
        await self._controller.run(asyncio.Event())

    def domain_created(self, uid: str) -> None:
        """Leave it to the controller."""


def _config(pace: Pace) -> RunConfig:
    """Give what `cliquelog simulate` has its controller run with, but for the pace."""
    return RunConfig(
        identity="bench",
        version="bench",
        log="",
        partitions=None,
        settings=Settings(namespace=NAMESPACE),
        deployment=DaemonDeployment(namespace=NAMESPACE, image=IMAGE, capacity=18, verbosity=2, reader=True),
        lease=None,
        listen=None,
        everywhere=False,
        workers=WORKERS,
        pace=pace,
    )


def _unsaid(_: object, __: str, ___: structlog.typing.EventDict) -> structlog.typing.EventDict:
    raise structlog.DropEvent

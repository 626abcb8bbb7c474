"""A formation on virtual time: one ComputeDomain on a simulated cluster, its rows given by one strategy.

Nothing waits and nothing depends on the machine that runs it: equal seeds give equal figures. What a request takes is
what the costs say, on a server with the capacity that is asked for.
"""

import asyncio
import itertools
import random
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from bench.limited import LimitedClient
from bench.load import Load
from kube import names
from kube.client import Resource
from kube.clock import Clock
from simulation.api import Api
from simulation.capacity import Capacity, Limits
from simulation.client import SimulatedClient
from simulation.cliques import is_ready
from simulation.cluster import Cluster
from simulation.costs import Costs
from simulation.explore.loop import LoopClock, VirtualLoop
from simulation.store import Change, Object, Store
from simulation.strategy import CliqueOf, Strategy
from simulation.timing import Range, Timing

NAMESPACE = "nvidia-dra-driver-gpu"
DOMAIN = "5b0f7a1e-0c55-4d0e-9a53-0d6c1c2a7a10"
FABRIC = "7b0a3c52-5d3e-4f0c-9c1e-3f1f6f5b2a11"
KINDS = (names.NODES, names.PODS, names.DAEMON_SETS, names.CDCS)
WITH_STATUS = (names.NODES, names.PODS, names.DAEMON_SETS)
SETTLE_S = 1.0
"""Seconds from the last row Ready to the count: the answers that are under way then."""

Deliver = Callable[[], Coroutine[Any, Any, None]]
MakeStrategy = Callable[[Clock, CliqueOf, Deliver, int], Strategy]
"""Gives a strategy on a clock, for nodes of these cliques, with what takes a delivery's time, with a seed."""


class Shape(msgspec.Struct, frozen=True):
    """Who comes when. Times are in seconds.

    `cliques` of `nodes` nodes each, one clique every `apart_s`. The nodes of a clique join within `join_s`, in random
    order and at equal distances; their pods get their IPs `address_s` later.
    """

    cliques: int
    nodes: int
    apart_s: float
    join_s: float
    address_s: Range

    @property
    def rows(self) -> int:
        """Rows that there should be in the end."""
        return self.cliques * self.nodes


class Plan(msgspec.Struct, frozen=True):
    """A formation: who comes, on what server. It is given up after `patience_s` seconds."""

    shape: Shape
    limits: Limits
    costs: Costs
    seed: int
    patience_s: float


class Outcome(msgspec.Struct, frozen=True):
    """What came of it.

    `answers`: writes of CDCs by HTTP status; `throttled`: 429 of other requests; `row_s` and `ready_s`: seconds from a
    pod's IP to its row, and from its Ready condition to a row that says so, in order; `seconds`: to the last of them.
    """

    nodes: int
    seconds: float
    answers: dict[int, int]
    throttled: int
    row_s: list[float]
    ready_s: list[float]

    @property
    def accepted(self) -> float:
        """CDC writes that were carried out, for each node."""
        return (self.answers.get(200, 0) + self.answers.get(201, 0)) / self.nodes

    def per_node(self, status: int) -> float:
        """Give the CDC writes with this answer, for each node."""
        return self.answers.get(status, 0) / self.nodes


def form(make: MakeStrategy, plan: Plan) -> Outcome:
    """Form the domain. Raises ExceptionGroup if a stand-in or the strategy fails, which is a defect."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(Formation(plan, LoopClock(loop, 0)).run(make))
    finally:
        loop.close()


class Formation:
    """The cluster, its server, and what is seen of it."""

    def __init__(self, plan: Plan, clock: Clock) -> None:
        uids = (f"{number:08x}-0000-4000-8000-000000000000" for number in itertools.count(1))
        self._plan = plan
        self._clock = clock
        self._rng = random.Random(plan.seed)  # noqa: S311 - delays that can be repeated
        self._store = Store(KINDS, WITH_STATUS, clock, lambda: next(uids))
        self._capacity = Capacity(plan.limits, clock)
        self._seen = Seen(clock, plan.shape.rows)
        self._load = Load(self._capacity, plan.costs, readers=False)

    async def run(self, make: MakeStrategy) -> Outcome:
        """Let the cluster form."""
        plan, clock = self._plan, self._clock
        timing = Timing(created=(0.0, 0.0), bound=(0.0, 0.0), address=plan.shape.address_s, ready=(1.0, 1.0))
        cluster = Cluster(self._store, clock, self._rng, timing)
        for listener in (self._seen.observe, self._load.observe):
            self._store.subscribe(listener)
        client = LimitedClient(SimulatedClient(Api(self._store)), self._capacity, plan.costs, clock)
        strategy = make(clock, cluster.clique_of, lambda: self._capacity.work(plan.costs.delivery_s), plan.seed)
        async with asyncio.TaskGroup() as group:
            parts = (cluster.run(), self._load.run(), _forever(strategy, client))
            tasks = [group.create_task(one) for one in parts]
            self._store.create(names.DAEMON_SETS, NAMESPACE, _daemon_set())
            for number in range(plan.shape.cliques):
                group.create_task(self._join(cluster, number))
            try:
                async with asyncio.timeout(plan.patience_s):
                    await self._seen.all_ready.wait()
                    await clock.sleep(SETTLE_S)
            except TimeoutError:
                pass  # The outcome says how many there are.
            for task in tasks:
                task.cancel()
        return self._seen.outcome(plan.shape.rows, client)

    async def _join(self, cluster: Cluster, number: int) -> None:
        shape = self._plan.shape
        nodes = [f"node-{number:03}-{node:02}" for node in range(shape.nodes)]
        self._rng.shuffle(nodes)
        for node in nodes:
            cluster.register(node, f"{FABRIC}.{number}")
        await self._clock.sleep(number * shape.apart_s)
        for node in nodes:
            cluster.join(node, DOMAIN)
            await self._clock.sleep(shape.join_s / len(nodes))


async def _forever(strategy: Strategy, client: LimitedClient) -> None:
    await strategy.run(client)
    raise RuntimeError("the strategy has ended by itself")


def _daemon_set() -> Object:
    """Give the domain's DaemonSet, of daemons that are not only readers."""
    labels = {names.DOMAIN_LABEL: DOMAIN}
    template = {"metadata": {"labels": labels}, "spec": {"nodeSelector": labels, "containers": [{"name": "daemon"}]}}
    return {
        "metadata": {"name": f"{names.DAEMON_PREFIX}{DOMAIN}", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


class Seen:
    """When each node's pod got its IP and became Ready, and when its row was there and said so."""

    def __init__(self, clock: Clock, rows: int) -> None:
        self._clock = clock
        self._rows = rows
        self._address_at: dict[str, float] = {}
        self._pod_ready_at: dict[str, float] = {}
        self._row_at: dict[str, float] = {}
        self._ready_at: dict[str, float] = {}
        self.all_ready = asyncio.Event()

    def observe(self, resource: Resource, change: Change) -> None:
        """Take in a change."""
        now, thing = self._clock.monotonic(), change.after
        if thing is None:
            return
        if resource == names.PODS and thing.get("status", {}).get("podIP"):
            self._address_at.setdefault(thing["spec"]["nodeName"], now)
            if is_ready(thing):
                self._pod_ready_at.setdefault(thing["spec"]["nodeName"], now)
        elif resource == names.CDCS:
            for row in thing["daemons"]:
                self._row_at.setdefault(row["nodeName"], now)
                if row["status"] == "Ready":
                    self._ready_at.setdefault(row["nodeName"], now)
            if len(self._ready_at) == self._rows:
                self.all_ready.set()

    def outcome(self, nodes: int, client: LimitedClient) -> Outcome:
        """Sum up."""
        return Outcome(
            nodes=nodes,
            seconds=max(self._ready_at.values(), default=0.0),
            answers=dict(client.answers),
            throttled=client.throttled,
            row_s=sorted(at - self._address_at[node] for node, at in self._row_at.items()),
            ready_s=sorted(at - self._pod_ready_at[node] for node, at in self._ready_at.items()),
        )

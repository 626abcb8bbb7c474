"""A simulated cluster that is measured: API server, stand-ins, meter, and the workload's machines."""

import random
import uuid
from pathlib import Path

import msgspec
from aiohttp import web

from kube import names
from kube.client import Resource
from kube.clock import Clock
from simulation.api import Api
from simulation.apiserver import application
from simulation.capacity import Capacity, Limits, middleware
from simulation.cluster import Cluster
from simulation.costs import Costs
from simulation.counting import Answers
from simulation.formation import Formation, Plan
from simulation.kinds import KINDS, WITH_STATUS
from simulation.lag import LoopLag
from simulation.meter import Meter
from simulation.schema import load
from simulation.store import Change, Store
from simulation.timing import Timing

NAMESPACE = "nvidia-dra-driver-gpu"
CRDS = Path(__file__).parents[1] / "deploy" / "crds"
"""The CRDs that are installed; a wheel brings them along."""


class State(msgspec.Struct, frozen=True):
    """How far a formation is."""

    seconds: float
    cliques: int
    rows_addressed: int
    rows_ready: int
    clique_writes: int
    conflicts_409: int
    throttled_429: int


class World:
    """The cluster of one plan, with its machines; nobody has joined yet."""

    def __init__(self, plan: Plan, limits: Limits, clock: Clock, timing: Timing) -> None:
        """`limits` are the server's, which takes the time for a request that a real one does (`simulation.costs`)."""
        self.plan = plan
        self.clock = clock
        uids = random.Random(f"{plan.seed}/uids")  # noqa: S311 - what makes it repeatable
        rng = random.Random(f"{plan.seed}/cluster")  # noqa: S311 - as above
        self.store = Store(KINDS, WITH_STATUS, self.clock, lambda: str(uuid.UUID(int=uids.getrandbits(128), version=4)))
        self.store.guard(load(CRDS).admit)
        self.cluster = Cluster(self.store, self.clock, rng, timing)
        self.formation = Formation(plan, self.store, self.cluster, self.clock)
        self.capacity = Capacity(limits, self.clock)
        self.costs = Costs()
        self.answers = Answers()
        self.meter = Meter(self.clock)
        """Of the formation."""
        self.afterwards: Meter | None = None
        """Of what came after it, once `form_no_more` was called."""
        self.lag = LoopLag(self.clock)
        self.api = Api(self.store)
        self._sizes = plan.sizes()
        self._changed_at = self.clock.monotonic()
        self.formation.register()
        self.store.subscribe(self._observe)

    def application(self) -> web.Application:
        """Give the API server."""
        return application(self.api, self.answers.middleware(), middleware(self.capacity, self.costs))

    def _observe(self, resource: Resource, change: Change) -> None:
        if resource == names.LEASES:
            return  # Renewed for ever, whatever else is quiet.
        self._changed_at = self.clock.monotonic()
        (self.afterwards or self.meter).observe(resource, change)

    def form_no_more(self) -> Meter:
        """Measure what comes from now on apart from the formation."""
        self.afterwards = Meter(self.clock)
        return self.afterwards

    def idle_s(self) -> float:
        """Give for how long nothing was written but Leases."""
        return self.clock.monotonic() - self._changed_at

    def state(self, began: float) -> State:
        """Give how far the formation is that began then."""
        meter, by_status = self.meter, self.answers.by_status
        return State(
            self.clock.monotonic() - began,
            meter.formed(self._sizes),
            len(meter.address.all),
            meter.rows_ready,
            meter.writes.total(),
            by_status[409],
            by_status[429],
        )

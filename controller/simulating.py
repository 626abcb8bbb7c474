"""The composition of `cliquelog simulate`: a cluster in this process, the strategy beside it, and what is measured.

This process holds the API server (real HTTP on loopback), the stand-ins for the rest of the cluster, and the meter. Our
own strategy is the real `cliquelog run`, in a process of its own.
"""

import asyncio
import contextlib
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path

import click
import msgspec

from controller import places
from controller.child import Controller, Usage, environment_without
from controller.exits import LOG, Failure
from controller.replaying import Replay, replay
from controller.run_command import run
from kube import names
from kube.client import Resource
from kube.clock import SystemClock
from simulation.api import Api
from simulation.apiserver import application
from simulation.cluster import Cluster
from simulation.counting import Answers
from simulation.formation import Formation, Plan
from simulation.lag import LoopLag
from simulation.meter import Meter
from simulation.serving import kubeconfig, serving
from simulation.store import Change, Store
from simulation.timing import Timing

NAMESPACE = "nvidia-dra-driver-gpu"
KINDS = (
    names.COMPUTE_DOMAINS,
    names.CDCS,
    names.NODES,
    names.PODS,
    names.EVENTS,
    names.DAEMON_SETS,
    names.CLAIM_TEMPLATES,
)
WITH_STATUS = {names.COMPUTE_DOMAINS, names.NODES, names.PODS, names.DAEMON_SETS}

STALLED_S = 60.0
"""A formation in which nothing is written for so long is given up."""
SETTLED_S = 3.5
"""Nothing written for so long, and all is written: longer than the time between two writes of a domain's status."""
POLL_S = 0.05


class Job(msgspec.Struct, frozen=True):
    """What is to be simulated. `log` is a place (`sqlite:PATH`); `folder` is for kubeconfig and controller output."""

    plan: Plan
    log: str
    folder: Path

    @property
    def kubeconfig(self) -> Path:
        """What leads to the simulated API server."""
        return self.folder / "kubeconfig"

    @property
    def controller_log(self) -> Path:
        """What the controller says."""
        return self.folder / "controller.log"


class State(msgspec.Struct, frozen=True):
    """How far a formation is."""

    seconds: float
    cliques: int
    rows_addressed: int
    rows_ready: int
    clique_writes: int
    conflicts_409: int
    throttled_429: int


class Outcome(msgspec.Struct, frozen=True):
    """What came of a job. `seconds`: from the domain's creation to the last row Ready."""

    job: Job
    meter: Meter
    answers: Answers
    lag: LoopLag
    seconds: float
    controller: Usage
    own_cpu_seconds: float
    replay: Replay
    log_bytes: int


Show = Callable[[State], None]
"""Shows how far a formation is; called several times a second."""


class World:
    """The cluster of one job, with its machines; nobody has joined yet."""

    def __init__(self, job: Job) -> None:
        clock, seed = SystemClock(), job.plan.seed
        uids = random.Random(f"{seed}/uids")  # noqa: S311 - what makes it repeatable
        self.plan = job.plan
        self.store = Store(KINDS, WITH_STATUS, clock, lambda: str(uuid.UUID(int=uids.getrandbits(128), version=4)))
        self.api = Api(self.store)
        self.cluster = Cluster(self.store, clock, random.Random(f"{seed}/cluster"), Timing())  # noqa: S311 - as above
        self.formation = Formation(job.plan, self.store, self.cluster, clock)
        self.answers = Answers()
        self.meter = Meter(clock)
        self.lag = LoopLag(clock)
        self.changed_at = clock.monotonic()
        self.clock = clock
        self._sizes = job.plan.sizes()
        self.formation.register()
        self.store.subscribe(self._observe)

    def _observe(self, resource: Resource, change: Change) -> None:
        self.changed_at = self.clock.monotonic()
        self.meter.observe(resource, change)

    def idle_s(self) -> float:
        """Give for how long nothing was written."""
        return self.clock.monotonic() - self.changed_at

    def state(self, began: float) -> State:
        """Give how far the formation is."""
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


async def simulate(job: Job, show: Show) -> Outcome:
    """Carry the job out. Raises Failure, LogError."""
    await _refuse_used_log(job.log)
    world = World(job)
    own = time.process_time()
    async with serving(application(world.api, world.answers.middleware())) as server:
        job.kubeconfig.write_bytes(kubeconfig(server))
        options = _options(job.log, job.kubeconfig)
        controller = Controller(options, environment_without(_variables()), job.controller_log)
        async with controller, _ending_together(world.cluster.run(), world.lag.run(), controller.watch()):
            seconds = await _form(world, show)
    own = time.process_time() - own
    log, snapshots = await places.open_readonly(job.log)
    try:
        replayed = await replay(log, snapshots)
    finally:
        await log.close()
    return Outcome(
        job,
        world.meter,
        world.answers,
        world.lag,
        seconds,
        controller.usage,
        own,
        replayed,
        places.size_bytes(job.log),
    )


async def _refuse_used_log(place: str) -> None:
    """Take an empty log only; make it, so that a place where none can be is refused before anything runs."""
    if places.size_bytes(place):
        log, _ = await places.open_readonly(place)  # whoever it is of, it must stay as it is
        try:
            records = sum([await log.end_offset(partition) for partition in range(log.partitions)])
        finally:
            await log.close()
        if records:
            raise Failure(f"{place} holds the {records} records of another run; give the path of a new file", LOG)
    log, _ = await places.open_for_writing(place, None)
    await log.close()


def _options(log: str, kubeconfig: Path) -> list[str]:
    """Give the options of `cliquelog run`. The daemons are ours, so rows come before the pods (rule 6)."""
    options = {
        "--log": log,
        "--kubeconfig": str(kubeconfig),
        "--namespace": NAMESPACE,
        "--image-name": "registry.invalid/compute-domain-daemon:simulated",
        "--daemons": "cliquelog",
        "--http-endpoint": "127.0.0.1:0",
    }
    return [word for option in options.items() for word in option]


def _variables() -> set[str]:
    """Give the variables that `cliquelog run` would take options from: those of whoever simulates are not meant."""
    options = (parameter for parameter in run.params if isinstance(parameter, click.Option))
    return {str(option.envvar) for option in options if option.envvar}


@contextlib.asynccontextmanager
async def _ending_together(*parts: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run the parts meanwhile; if one fails, the inside is cancelled, and what failed is raised."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part) for part in parts]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


async def _form(world: World, show: Show) -> float:
    """Form the domain; give how many seconds it took from its creation to the last row Ready."""
    domain, began = world.formation.create_domain(), world.clock.monotonic()
    async with asyncio.TaskGroup() as group:
        joining = group.create_task(world.formation.join(domain))
        while world.meter.rows_ready < world.plan.nodes and not (joining.done() and world.idle_s() > STALLED_S):
            show(world.state(began))
            await world.clock.sleep(POLL_S)
    show(world.state(began))
    while (left := SETTLED_S - world.idle_s()) > 0:
        await world.clock.sleep(left)
    return world.meter.finished_at - began

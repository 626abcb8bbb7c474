"""The composition of `cliquelog simulate`: a cluster in this process, a strategy beside it, and what is measured.

This process holds the API server (real HTTP on loopback), the stand-ins for the rest of the cluster, and the meter. Our
own strategy is the real `cliquelog run`, in a process of its own.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from pathlib import Path

import msgspec

from controller import places
from controller.exits import LOG, Failure
from controller.history.replaying import Replay, replay
from controller.simulating.child import Usage
from controller.simulating.sides import Others, Ours, Side
from kube.clock import SystemClock
from kube.transport import connect
from simulation.capacity import Limits
from simulation.formation import Plan
from simulation.serving import kubeconfig, serving
from simulation.timing import Timing
from simulation.world import State, World

STALLED_S = 60.0
"""A formation in which nothing is written for so long is given up."""
SETTLED_S = 3.5
"""Nothing written for so long, and all is written: longer than the time between two writes of a domain's status."""
POLL_S = 0.05
TOUCHED = 10
"""Cliques in which, once all is quiet, one daemon is restarted."""
TOUCH_EVERY_S = 0.2


class Job(msgspec.Struct, frozen=True):
    """What is to be simulated. `log` is a place (`sqlite:PATH`), None for a strategy that has none.

    `folder` is for kubeconfig and controller output, `environment` is the controller's.
    """

    plan: Plan
    strategy: str
    log: str | None
    folder: Path
    environment: Mapping[str, str]

    @property
    def kubeconfig(self) -> Path:
        """What leads to the simulated API server."""
        return self.folder / "kubeconfig"

    @property
    def controller_log(self) -> Path:
        """What the controller says."""
        return self.folder / "controller.log"


class Outcome(msgspec.Struct, frozen=True):
    """What came of a job. `seconds`: from the domain's creation to the last row Ready; `replay`: None if no log."""

    job: Job
    world: World
    seconds: float
    controller: Usage
    own_cpu_seconds: float
    replay: Replay | None
    log_bytes: int


Show = Callable[[State], None]
"""Shows how far a formation is; called several times a second."""


async def simulate(job: Job, show: Show) -> Outcome:
    """Carry the job out. Raises Failure, LogError."""
    if job.log is not None:
        await _refuse_used_log(job.log)
    world = World(job.plan, Limits(), SystemClock(), Timing())
    own = time.process_time()
    async with serving(world.application()) as server:
        job.kubeconfig.write_bytes(kubeconfig(server))
        side = _side(job, world)
        async with side, ending_together(world.cluster.run(), world.lag.run(), side.watch()):
            seconds = await form(world, side, show, STALLED_S)
            if job.log is not None:
                await touch(world)
    own = time.process_time() - own
    replayed = None if job.log is None else await _replay(job.log)
    log_bytes = 0 if job.log is None else places.size_bytes(job.log)
    return Outcome(job, world, seconds, side.usage, own, replayed, log_bytes)


def _side(job: Job, world: World) -> Side:
    if job.log is None:
        return Others(job.strategy, world, lambda: connect(str(job.kubeconfig), None))
    return Ours(job.log, str(job.kubeconfig), job.controller_log, job.environment)


async def _replay(place: str) -> Replay:
    log, snapshots = await places.open_readonly(place)
    try:
        return await replay(log, snapshots)
    finally:
        await log.close()


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


@contextlib.asynccontextmanager
async def ending_together(*parts: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run the parts meanwhile; if one fails, the inside is cancelled, and what failed is raised."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part) for part in parts]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


async def form(world: World, side: Side, show: Show, patience_s: float) -> float:
    """Form the domain; give how many seconds it took from its creation to the last row Ready.

    It is given up when nothing was written for `patience_s`.
    """
    domain, began = world.formation.create_domain(), world.clock.monotonic()
    side.domain_created(domain)
    async with asyncio.TaskGroup() as group:
        joining = group.create_task(world.formation.join(domain))
        while world.meter.rows_ready < world.plan.nodes and not (joining.done() and world.idle_s() > patience_s):
            show(world.state(began))
            await world.clock.sleep(POLL_S)
    show(world.state(began))
    await _settle(world)
    return world.meter.finished_at - began


async def touch(world: World) -> None:
    """Restart single daemons of quiet cliques: each changes its address and later its readiness."""
    meter, machines = world.form_no_more(), world.plan.machines()
    one_of_each = list({clique: node for node, clique in machines.items()}.values())
    touched = one_of_each[:: max(1, len(one_of_each) // TOUCHED)][:TOUCHED]
    for node in touched:
        world.cluster.restart_daemon(node)
        await world.clock.sleep(TOUCH_EVERY_S)
    while len(meter.readiness.all) < len(touched) and world.idle_s() < SETTLED_S:
        await world.clock.sleep(POLL_S)
    await _settle(world)


async def _settle(world: World) -> None:
    while world.idle_s() < SETTLED_S:
        await world.clock.sleep(POLL_S)

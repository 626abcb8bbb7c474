"""What it takes when a worker of a group is killed, and what more workers give: broker and workers are real processes.

Recovery: a domain has formed; a worker is killed, and at that moment one daemon in each clique gets a new sandbox. The
rows of the dead worker's partitions show that only once another one has them, restored, and acts. What is told is how
long after the kill the last of these rows shows its daemon's new address, less the session's time, in which nobody can
know of the death. (The pods have their addresses at once.) Who observes holds the Lease besides.

Fold: nobody leads, so nobody acts. Of a backlog: the workers are frozen, records are appended, and all are thawed at
once; what is far behind is read from the log itself. As they come: records are appended as fast as they are taken,
which costs the appender's share of the cores.

Broker, workers, and in this process the simulated API server share the machine's cores.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import islice
from pathlib import Path

import aiohttp
import msgspec

from bench.kafka import FILL_BATCH, PARTITIONS
from bench.real_parts import PATIENCE_S, broker_of, cpu_seconds, new_engine, settled
from bench.tables import Cell, Table
from bench.workload import Shape, entries
from controller import places
from controller.lease import LeaseConfig
from eventlog.kafka import KafkaSettings
from kube.names import LEASES
from simulation.formation import Plan
from tests.integration.controllers import Controller
from tests.integration.engines import Engine
from tests.integration.simulated import Simulated, simulated
from tests.integration.waiting import eventually

WORKERS = 3
KILLS = (False, True, False, True, False)
"""Whether the one that observes is killed."""
COUNTS = (1, 2, 4)
WARM_UP = 500
POLL_S = 0.1
SESSION_S = KafkaSettings().session_ms / 1000
LEASE = LeaseConfig("", "cliquelog-controller", "bench")


async def measure(folder: Path, nodes: int, records: int) -> list[Table]:
    """Measure with a formation of so many nodes, and so many records for the workers to fold."""
    async with broker_of(folder) as servers:
        return [await _recovery(servers, folder, nodes), await _fold(servers, folder, records)]


@asynccontextmanager
async def _workers(engine: Engine, cluster: Simulated, folder: Path, count: int) -> AsyncIterator[list[Controller]]:
    """Run so many workers, and wait until they share the partitions evenly."""
    async with AsyncExitStack() as stack:
        made = [engine.controller(cluster, folder / f"worker-{number}") for number in range(count)]
        for worker in made:
            await stack.enter_async_context(worker)
        for worker in made:
            await _figure_is(worker, "cliquelog_partitions_assigned", PARTITIONS / count)
        yield made
        await asyncio.gather(*(worker.stop() for worker in made))


async def _figures(worker: Controller) -> Mapping[str, float]:
    """Give a worker's metrics, each the sum over its labels; none of one that is not up."""
    found: dict[str, float] = {}
    try:
        text = await worker.metrics()
    except aiohttp.ClientError:
        return found
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.partition(" ") if "{" not in line else (line.partition("{")[0], "", line.split()[-1])
            found[name] = found.get(name, 0.0) + float(value)
    return found


async def _figure_is(worker: Controller, name: str, wanted: float) -> None:
    async def look() -> float | None:
        return (await _figures(worker)).get(name)

    await eventually(look, lambda figure: figure == wanted, f"{name} is {wanted:g}", PATIENCE_S)


# --- recovery ---


async def _recovery(servers: str, folder: Path, nodes: int) -> Table:
    plan = Plan(nodes, 18, 1, 5.0, nodes)
    engine = await new_engine(servers)
    rows: list[tuple[Cell, ...]] = []
    async with simulated(plan, folder) as cluster, _workers(engine, cluster, folder, WORKERS) as workers:
        for worker in workers:
            await worker.ready()
        await _form(cluster)
        for observer in KILLS:
            rows.append(await _killed(cluster, workers, observer=observer))
            for worker in workers:
                await worker.ready()
    return Table(
        f"A killed worker's partitions: {WORKERS} workers, {PARTITIONS} partitions, {plan.cliques} cliques, "
        f"session {SESSION_S:.0f} s, Lease {LEASE.duration_s} s",
        ("killed", "first row s", "last row s", "after session s", "after Lease s"),
        tuple(rows),
        ("aim: 10 s after the session; rows of the living workers' partitions count as well",),
    )


async def _form(cluster: Simulated) -> None:
    world = cluster.world
    await world.formation.join(world.formation.create_domain())
    await settled(cluster)


async def _killed(cluster: Simulated, workers: Sequence[Controller], *, observer: bool) -> tuple[Cell, ...]:
    """Kill a worker, give each clique something to be shown, and take the times until it is."""
    leads = [(await _figures(worker)).get("cliquelog_leader") == 1 for worker in workers]
    victim = workers[leads.index(observer)]
    touched = {clique: node for node, clique in cluster.world.plan.machines().items()}
    before = cluster.addresses()
    shown: dict[str, float] = {}
    began = time.monotonic()
    await victim.kill()
    for node in touched.values():
        cluster.world.cluster.restart_daemon(node)
    while len(shown) < len(touched):
        await asyncio.sleep(POLL_S / 5)
        for clique, rows in cluster.rows().items():
            address = next(str(row["ipAddress"]) for row in rows if row["nodeName"] == touched[clique])
            if address and address != before[touched[clique]]:
                shown.setdefault(clique, time.monotonic() - began)
        if time.monotonic() - began > PATIENCE_S:
            raise TimeoutError(f"{len(touched) - len(shown)} cliques were not served within {PATIENCE_S:.0f} s")
    await victim.start()
    await settled(cluster)
    last = max(shown.values())
    name = "the observer" if observer else "another worker"
    return name, min(shown.values()), last, last - SESSION_S, last - LEASE.duration_s if observer else "-"


# --- fold ---


async def _fold(servers: str, folder: Path, records: int) -> Table:
    rows = [
        await _folded(servers, folder, count, records, backlog=backlog) for backlog in (True, False) for count in COUNTS
    ]
    return Table(
        f"Fold of {records:,} records by one group, {PARTITIONS} partitions, {os.cpu_count()} cores",
        ("", "workers", "s", "records/s", "records/s each", "CPU s", "CPU us/record"),
        tuple(rows),
    )


async def _folded(servers: str, folder: Path, count: int, records: int, *, backlog: bool) -> tuple[Cell, ...]:
    engine = _patient(await new_engine(servers), folder)
    supply = entries(Shape(280, 18), records + WARM_UP)
    log, _ = await places.open_for_writing(engine.place, None)
    try:
        async with simulated(Plan(1, 1, 1, 0.0, 1), folder) as cluster:
            _let_nobody_lead(cluster)
            async with _workers(engine, cluster, folder, count) as workers:
                # The first record of a stranger makes each worker look who that is.
                await log.append(list(islice(supply, WARM_UP)))
                base = await _quiet(workers)
                busy, began = cpu_seconds(workers), time.monotonic()
                if backlog:
                    for worker in workers:
                        worker.freeze()
                while batch := list(islice(supply, FILL_BATCH)):
                    await log.append(batch)
                if backlog:
                    began = time.monotonic()
                    for worker in workers:
                        worker.thaw()
                await eventually(
                    lambda: _folds(workers), lambda folds: folds >= base + records, "all is folded", PATIENCE_S
                )
                took = time.monotonic() - began
                busy = cpu_seconds(workers) - busy
    finally:
        await log.close()
    pace = records / took
    how = "a backlog" if backlog else "as they come"
    return how, count, took, round(pace), round(pace / count), busy, busy / records * 1e6


def _patient(engine: Engine, folder: Path) -> Engine:
    """Give workers whose sessions outlast the time that they are frozen."""
    config = folder / "client.properties"
    config.write_text("session.timeout.ms=120000\n")
    return msgspec.structs.replace(engine, options=(*engine.options, "--kafka-config", str(config)))


def _let_nobody_lead(cluster: Simulated) -> None:
    """Give the Lease to nobody, for longer than this takes."""
    spec = {"holderIdentity": LEASE.identity, "leaseDurationSeconds": 24 * 3600}
    cluster.world.store.create(LEASES, cluster.driver_namespace, {"metadata": {"name": LEASE.name}, "spec": spec})


async def _folds(workers: Sequence[Controller]) -> float:
    return sum([(await _figures(worker)).get("cliquelog_records_folded_total", 0.0) for worker in workers])


async def _quiet(workers: Sequence[Controller]) -> float:
    """Wait until nothing is folded any more, and give how much was."""
    before = -1.0
    while (now := await _folds(workers)) != before:
        before = now
        await asyncio.sleep(20 * POLL_S)
    return now

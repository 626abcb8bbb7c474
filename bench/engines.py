"""The engines side by side: the same formation under each, and how long a row takes to be seen.

The cluster is simulated in this process; controllers and broker are processes of their own, and all share the machine's
cores. A delay runs from a pod's address or readiness to the CDC that shows it (`simulation.meter`).
"""

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from bench.real_parts import broker_of, cpu_seconds, new_engine, settled
from bench.tables import Cell, Table
from simulation.formation import Plan
from simulation.meter import quantiles
from tests.integration.engines import PARTITIONS, Engine
from tests.integration.simulated import simulated

WINDOW_S = 11.0


class Side(msgspec.Struct, frozen=True):
    """An engine under a name, and how many processes of it run."""

    name: str
    engine: Engine
    workers: int


async def measure(folder: Path, nodes: int) -> list[Table]:
    """Form a domain of so many nodes under each engine, one after the other."""
    plan = Plan(nodes, 18, 1, WINDOW_S, nodes)
    async with broker_of(folder) as servers:
        rows = [await _formed(plan, folder, side) for side in await _sides(folder, servers)]
    return [
        Table(
            f"Engines: {nodes:,} nodes join within {WINDOW_S:.0f} s, {plan.cliques} cliques, {PARTITIONS} partitions, "
            f"{os.cpu_count()} cores for everything",
            ("engine", "ready p50 ms", "ready p99 ms", "last of a clique p99 ms", "any row p99 ms", "writes", "CPU s"),
            tuple(rows),
            ("ready: from a pod's readiness to its row; any row: from its address too; writes: a clique's, mean",),
        )
    ]


async def _sides(folder: Path, servers: str) -> Sequence[Side]:
    alone = await new_engine(servers)
    on_kafka = msgspec.structs.replace(alone, name="embedded", options=())
    return (
        Side("embedded on SQLite", Engine("embedded", f"sqlite:{folder / 'engines.sqlite'}", ()), 1),
        Side("embedded on Kafka", on_kafka, 1),
        Side("Faust, 1 worker", await new_engine(servers), 1),
        Side("Faust, 3 workers", await new_engine(servers), 3),
    )


async def _formed(plan: Plan, folder: Path, side: Side) -> tuple[Cell, ...]:
    async with simulated(plan, folder) as cluster, AsyncExitStack() as stack:
        workers = [
            await stack.enter_async_context(side.engine.controller(cluster, folder / f"{side.name} {number}"))
            for number in range(side.workers)
        ]
        for worker in workers:
            await worker.ready()
        busy = cpu_seconds(workers)
        await cluster.world.formation.join(cluster.world.formation.create_domain())
        await settled(cluster)
        busy = cpu_seconds(workers) - busy
        meter = cluster.world.meter
        ready, last = quantiles(meter.readiness.all), quantiles(meter.readiness.last_rows())
        every = quantiles([*meter.readiness.all, *meter.address.all])
        writes = sum(meter.writes.values()) / plan.cliques
    return side.name, ready.p50, ready.p99, last.p99, every.p99, round(writes, 2), round(busy, 1)

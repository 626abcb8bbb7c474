"""An idle hour, made short: workers that have nothing to do, with all that is done at intervals done often.

What leaks when idle (failure case C20) leaks by the poll, not by the hour. So the intervals are cut to a tenth or less:
the sessions' heartbeats, the age of the brokers' metadata, the look at taken names. Memory and file descriptors of each
worker are read from the system at even distances; what they grow by is the slope of a line through the later half.
"""

import asyncio
import statistics
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from bench.real_parts import broker_of, new_engine, settled
from bench.tables import Cell, Table
from simulation.formation import Plan
from tests.integration.controllers import Controller
from tests.integration.engines import Engine
from tests.integration.simulated import simulated

NODES = 90
WORKERS = 2
SAMPLES = 30
OFTEN = "session.timeout.ms=6000\nmetadata.max.age.ms=1000\nrequest.timeout.ms=2000\n"
RECHECK_S = "0.1"


class Sample(msgspec.Struct, frozen=True):
    """What a process holds: resident memory in bytes, and open file descriptors."""

    memory: int
    files: int


async def measure(folder: Path, seconds: float) -> list[Table]:
    """Let workers idle for so long, once a domain of 90 nodes has formed."""
    config = folder / "client.properties"
    config.write_text(OFTEN)
    async with broker_of(folder) as servers, AsyncExitStack() as stack:
        engine = _often(await new_engine(servers), config)
        cluster = await stack.enter_async_context(simulated(Plan(NODES, 18, 1, 1.0, NODES), folder))
        workers = [
            await stack.enter_async_context(engine.controller(cluster, folder / f"idle {number}"))
            for number in range(WORKERS)
        ]
        for worker in workers:
            await worker.ready()
        await cluster.world.formation.join(cluster.world.formation.create_domain())
        await settled(cluster)
        samples: list[list[Sample]] = [[] for _ in workers]
        for _ in range(SAMPLES):
            await asyncio.sleep(seconds / SAMPLES)
            for taken, worker in zip(samples, workers, strict=True):
                taken.append(_sample(worker))
    return [_table(samples, seconds)]


def _often(engine: Engine, config: Path) -> Engine:
    options = (*engine.options, "--kafka-config", str(config), "--recheck-seconds", RECHECK_S)
    return msgspec.structs.replace(engine, options=options)


def _sample(worker: Controller) -> Sample:
    place = Path(f"/proc/{worker.pid}")
    resident = next(line for line in (place / "status").read_text().splitlines() if line.startswith("VmRSS:"))
    return Sample(int(resident.split()[1]) * 1024, len(list((place / "fd").iterdir())))


def _table(samples: Sequence[Sequence[Sample]], seconds: float) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for number, taken in enumerate(samples):
        later = taken[len(taken) // 2 :]
        minutes = [at * seconds / SAMPLES / 60 for at in range(len(later))]
        growth = statistics.linear_regression(minutes, [one.memory / 1e3 for one in later]).slope
        files = [one.files for one in taken]
        memory = [one.memory / 1e6 for one in taken]
        rows.append((f"worker {number}", memory[0], max(memory), memory[-1], growth, files[0], max(files), files[-1]))
    return Table(
        f"Idle for {seconds:.0f} s: {WORKERS} Faust workers after a formation of {NODES} nodes, intervals cut short",
        ("", "first MB", "most MB", "last MB", "growth kB/min", "first files", "most files", "last files"),
        tuple(rows),
        ("growth: the slope over the later half",),
    )

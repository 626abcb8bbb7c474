"""What benches on real parts share: the broker, a group's workers, and when a formation has come to rest."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from eventlog.kafka import KafkaPlace
from tests.integration.broker.broker import running
from tests.integration.controllers import Controller
from tests.integration.engines import Engine, faust_on
from tests.integration.simulated import Simulated
from tests.integration.waiting import eventually

BROKER_OPTIONS = ("-Xmx1g",)
PATIENCE_S = 300.0


@asynccontextmanager
async def broker_of(folder: Path) -> AsyncIterator[str]:
    """Give the address of the broker that `CLIQUELOG_KAFKA` names, else of one that lives for the time of the block."""
    servers = os.environ.get("CLIQUELOG_KAFKA")
    if servers is not None:
        yield servers
        return
    broker = running((folder / "broker").absolute(), BROKER_OPTIONS)
    started = await asyncio.to_thread(broker.__enter__)
    try:
        yield started.server
    finally:
        await asyncio.to_thread(broker.__exit__, None, None, None)


async def new_engine(servers: str) -> Engine:
    """Make a fresh log, and a group of its own for it."""
    name = f"cliquelog-bench-{uuid4().hex[:12]}"
    return await faust_on(KafkaPlace(tuple(servers.split(",")), name, f"{name}.snapshots"))


async def settled(cluster: Simulated) -> None:
    """Wait until each row is Ready with its daemon's address."""

    async def look() -> int:
        addresses = cluster.addresses()
        return sum(
            row["status"] == "Ready" and row["ipAddress"] == addresses.get(str(row["nodeName"]))
            for rows in cluster.rows().values()
            for row in rows
        )

    await eventually(look, lambda rows: rows == cluster.world.plan.nodes, "all rows are Ready", PATIENCE_S)


def cpu_seconds(workers: Sequence[Controller]) -> float:
    """Give the CPU time that the processes have taken, user and system."""
    ticks = 0
    for worker in workers:
        fields = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")

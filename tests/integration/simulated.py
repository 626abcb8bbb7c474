"""A simulated cluster around real controllers: this process is its API server, over HTTP on loopback, and its machines.

For formations that are too large for a real control plane on a small machine. All that the CDCs ever showed is kept.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kube.client import Resource, Selector
from kube.clock import SystemClock
from kube.names import CDCS, PODS
from simulation.capacity import Limits
from simulation.formation import Plan
from simulation.serving import kubeconfig, serving
from simulation.store import Change
from simulation.timing import Timing
from simulation.world import NAMESPACE, World
from tests.integration.clique_watch import Version, version_of
from tests.integration.domains import Rows


class Simulated:
    """The cluster of one plan, as controllers and tests see it; made by `simulated`."""

    driver_namespace = NAMESPACE

    def __init__(self, world: World, config: Path) -> None:
        self.world = world
        self.versions: list[Version] = []
        self._config = config
        world.store.subscribe(self._observe)

    def controller_kubeconfig(self) -> Path:
        """Give what leads to the API server."""
        return self._config

    def _observe(self, resource: Resource, change: Change) -> None:
        if resource == CDCS:
            found = change.after or change.before
            assert found is not None
            self.versions.append(version_of(found, deleted=change.after is None))

    def rows(self) -> Rows:
        """Give the rows that the CDCs show now, by clique ID."""
        return {
            cdc["metadata"]["name"].partition(".")[2]: cdc.get("daemons", [])
            for cdc in self.world.store.snapshot(Selector(CDCS))
        }

    def addresses(self) -> dict[str, str]:
        """Give the address of each node's daemon pod that has one."""
        pods = self.world.store.snapshot(Selector(PODS))
        return {pod["spec"]["nodeName"]: pod["status"]["podIP"] for pod in pods if pod.get("status", {}).get("podIP")}


@asynccontextmanager
async def simulated(plan: Plan, folder: Path) -> AsyncIterator[Simulated]:
    """Let the cluster live for the time of the block; nobody has joined yet."""
    world = World(plan, Limits(), SystemClock(), Timing())
    config = folder / "kubeconfig"
    async with serving(world.application()) as server, asyncio.TaskGroup() as group:
        config.write_bytes(kubeconfig(server))
        life = group.create_task(world.cluster.run())
        try:
            yield Simulated(world, config)
        finally:
            life.cancel()

"""Who gives the daemons of a simulated cluster their rows: our controller, or a strategy to compare with it."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from controller.simulating.child import Controller, Usage
from controller.writing.manifests import DaemonDeployment, daemon_set
from kube.client import KubeClient
from kube.names import DAEMON_SETS
from simulation.central_queue import CentralQueue, CentralSettings
from simulation.negotiating_daemon import DaemonSettings
from simulation.negotiation import Negotiation
from simulation.strategy import Strategy
from simulation.world import NAMESPACE, World

STRATEGIES = ("cliquelog", "negotiate", "central-queue")
IMAGE = "registry.invalid/compute-domain-daemon:simulated"


class Side(Protocol):
    """One of them; use with `async with`. `usage` is what a process of its own took, once it has ended."""

    usage: Usage

    async def __aenter__(self) -> Self:
        """Begin."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End."""

    async def watch(self) -> None:
        """Work until cancelled; what is raised ends the simulation."""

    def domain_created(self, uid: str) -> None:
        """Do what has to be done before daemons can come."""


class Ours:
    """The real `cliquelog run`. The daemons are ours, so rows come before the pods (rule 6)."""

    def __init__(self, log: str, kubeconfig: str, output: Path, environment: Mapping[str, str]) -> None:
        """`output` takes what it says; `environment` is its process's."""
        options = {
            "--log": log,
            "--kubeconfig": kubeconfig,
            "--namespace": NAMESPACE,
            "--image-name": IMAGE,
            "--daemons": "cliquelog",
            "--http-endpoint": "127.0.0.1:0",
        }
        words = [word for option in options.items() for word in option]
        self._controller = Controller(words, environment, output)
        self.usage = self._controller.usage

    async def __aenter__(self) -> Self:
        """Start it, and wait until it acts. Raises Failure."""
        await self._controller.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        await self._controller.__aexit__(kind, error, trace)
        self.usage = self._controller.usage

    async def watch(self) -> None:
        """Return never, unless it ends by itself. Raises Failure then."""
        await self._controller.watch()

    def domain_created(self, uid: str) -> None:
        """Leave it to the controller."""


class Others:
    """A simulated strategy, in this process. Who is simulated there makes no DaemonSet."""

    def __init__(self, name: str, world: World, connect: Callable[[], Awaitable[KubeClient]]) -> None:
        """`name` is one of STRATEGIES, but for ours; `connect` gives its client."""
        self.usage = Usage(0.0, 0)
        self._strategy = _strategy(name, world)
        self._world = world
        self._connect = connect

    async def __aenter__(self) -> Self:
        """Do nothing yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: what it had is closed when its work ends."""

    async def watch(self) -> None:
        """Give rows until cancelled."""
        client = await self._connect()
        try:
            await self._strategy.run(client)
        finally:
            await client.close()

    def domain_created(self, uid: str) -> None:
        """Make the domain's DaemonSet, of daemons that write their rows themselves or have them written."""
        deployment = DaemonDeployment(namespace=NAMESPACE, image=IMAGE, capacity=18, verbosity=2)
        self._world.store.create(DAEMON_SETS, NAMESPACE, dict(daemon_set(deployment, uid)))


def _strategy(name: str, world: World) -> Strategy:
    seed, clock = world.plan.seed, world.clock
    if name == "central-queue":
        return CentralQueue(NAMESPACE, clock=clock, seed=seed, settings=CentralSettings())
    return Negotiation(
        NAMESPACE,
        world.cluster.clique_of,
        deliver=lambda: world.capacity.work(world.costs.delivery_s),
        clock=clock,
        seed=seed,
        settings=DaemonSettings(),
    )

"""A simulated API server on virtual time with daemon pods that a test places, for strategies that give them rows."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from kube import names
from kube.client import KubeClient, Resource
from kube.clock import Clock
from simulation.api import Api
from simulation.client import SimulatedClient
from simulation.store import Change, Store
from simulation.strategy import Strategy
from tests.simulation.virtual import on_virtual_time

Object = dict[str, Any]
DRIVER = "driver"
DOMAIN = "5b0f7a1e-0c55-4d0e-9a53-0d6c1c2a7a10"
CLIQUE = "7b0a3c52-5d3e-4f0c-9c1e-3f1f6f5b2a11.1"
CDC = (DRIVER, f"{DOMAIN}.{CLIQUE}")
KINDS = (names.NODES, names.PODS, names.CDCS)


class DaemonWorld:
    """The store, its client, and the test's hands on pods. `writes`: each commit of the CDC, as its rows were then."""

    def __init__(self, clock: Clock) -> None:
        numbers = itertools.count(1)
        self.clock = clock
        self.store = Store(KINDS, (names.NODES, names.PODS), clock, lambda: f"uid-{next(numbers)}")
        self.client: KubeClient = SimulatedClient(Api(self.store))
        self.writes: list[list[Object]] = []
        self.store.subscribe(self._note)

    def _note(self, resource: Resource, change: Change) -> None:
        if resource == names.CDCS and change.after is not None:
            self.writes.append(change.after["daemons"])

    def node(self, node: str, clique: str = CLIQUE) -> None:
        """Let there be a Node with the label of its clique."""
        self.store.create(names.NODES, "", {"metadata": {"name": node, "labels": {names.NODE_CLIQUE_LABEL: clique}}})

    def pod(self, node: str, address: str, **metadata: object) -> None:
        """Let a daemon's pod run on the node, with this IP."""
        labels = {names.DOMAIN_LABEL: DOMAIN}
        body = {"metadata": {"name": f"pod-{node}", "labels": labels, **metadata}, "spec": {"nodeName": node}}
        self.store.create(names.PODS, DRIVER, body)
        self.set_status(node, address, ready=False)

    def set_status(self, node: str, address: str, *, ready: bool) -> None:
        """Set the pod's IP and readiness."""
        conditions = [{"type": "Ready", "status": str(ready)}]
        status = {"phase": "Running", "podIP": address, "conditions": conditions}
        self.store.update(names.PODS, self._key(node), "status", lambda pod: {**pod, "status": status})

    def delete_pod(self, node: str) -> None:
        """Delete the pod: at once, or by a mark if it has finalizers."""
        self.store.delete(names.PODS, self._key(node), None)

    def labels(self, node: str) -> dict[str, str]:
        """Give the pod's labels."""
        found: dict[str, str] = self.store.get(names.PODS, self._key(node))["metadata"]["labels"]
        return found

    def place_rows(self, *rows: Object) -> None:
        """Let the CDC have these rows, whoever wrote them."""
        metadata = {"name": CDC[1], "labels": {names.DOMAIN_LABEL: DOMAIN, names.CLIQUE_LABEL: CLIQUE}}
        self.store.create(names.CDCS, DRIVER, {"metadata": metadata, "daemons": list(rows)})

    def set_rows(self, *rows: Object) -> None:
        """Let the CDC have other rows."""
        self.store.update(names.CDCS, CDC, "", lambda cdc: {**cdc, "daemons": list(rows)})

    @property
    def cdc(self) -> Object:
        """The CDC as it is."""
        return self.store.get(names.CDCS, CDC)

    @property
    def rows(self) -> dict[str, tuple[int, str, str]]:
        """The CDC's rows: index, address, status by node."""
        return {row["nodeName"]: (row["index"], row["ipAddress"], row["status"]) for row in self.cdc["daemons"]}

    def _key(self, node: str) -> tuple[str, str]:
        return DRIVER, f"pod-{node}"


def row(node: str, index: int, address: str, status: str = "NotReady") -> Object:
    return {"nodeName": node, "index": index, "ipAddress": address, "cliqueID": CLIQUE, "status": status}


Steps = Callable[[DaemonWorld], Awaitable[None]]
MakeStrategy = Callable[[Clock], Strategy]
Around = Callable[[KubeClient], KubeClient]


def play(make: MakeStrategy, steps: Steps, around: Around = lambda client: client) -> None:
    """Run the steps with the strategy beside them, which speaks to the server through `around(client)`."""

    async def main(clock: Clock) -> None:
        world = DaemonWorld(clock)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(make(clock).run(around(world.client)))
            await steps(world)
            running.cancel()

    on_virtual_time(main)


class Interfering:
    """A client that does something before some requests: raise, or change what the request was computed from."""

    def __init__(self, client: KubeClient, before: Callable[[str, Resource], None]) -> None:
        self._client = client
        self._before = before
        self.list, self.watch, self.delete, self.close = client.list, client.watch, client.delete, client.close

    async def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        self._before("get", resource)
        return await self._client.get(resource, namespace, name)

    async def create(self, resource: Resource, namespace: str, body: bytes) -> bytes:
        self._before("create", resource)
        return await self._client.create(resource, namespace, body)

    async def patch(
        self, resource: Resource, namespace: str, name: str, body: bytes, *, kind: str, subresource: str = ""
    ) -> bytes:
        self._before("patch", resource)
        return await self._client.patch(resource, namespace, name, body, kind=kind, subresource=subresource)

    async def replace(self, resource: Resource, namespace: str, name: str, body: bytes) -> bytes:
        self._before("replace", resource)
        return await self._client.replace(resource, namespace, name, body)

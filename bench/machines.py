"""The nodes of a demonstration: stands in for the kubelet plugin, the DaemonSet controller and the kubelets.

Each node is labelled for the domain; once the domain's DaemonSet is there its pod is made from the template, gets an
address, the label of its clique, and becomes Ready, with delays from a seed. It speaks to the API server over HTTP like
everybody else. It does not bring pods back, end them, or do anything else that a demonstration does not show.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import msgspec

from kube.client import KubeClient, Resource, Selector
from kube.names import CLIQUE_LABEL, DAEMON_SETS, DOMAIN_LABEL, NODE_CLIQUE_LABEL, NODES, PODS

POLL_S = 0.05
Object = dict[str, Any]


class Machines:
    """Nodes by name with their clique IDs, on an API server."""

    def __init__(self, client: KubeClient, cliques: Mapping[str, str], seed: int, arrival_s: float) -> None:
        """`arrival_s`: the nodes join within so many seconds."""
        self._client = client
        self._cliques = cliques
        self._seed = seed
        self._arrival_s = arrival_s

    async def register(self) -> None:
        """Create the Nodes."""
        for name, clique in self._cliques.items():
            node = {"metadata": {"name": name, "labels": {NODE_CLIQUE_LABEL: clique}}}
            await self._client.create(NODES, "", msgspec.json.encode(node))

    async def join(self, domain: str) -> None:
        """Let every node join the domain (its UID), and return when each has a Ready daemon pod."""
        async with asyncio.TaskGroup() as group:
            made = group.create_task(self._daemon_set(domain))
            for number, name in enumerate(self._cliques):
                group.create_task(self._one(name, number, domain, made))

    async def _daemon_set(self, domain: str) -> Object:
        """Wait for the domain's DaemonSet."""
        selector = Selector(DAEMON_SETS, "", f"{DOMAIN_LABEL}={domain}")
        while True:
            items = msgspec.json.decode(await self._client.list(selector))["items"]
            if items:
                found: Object = items[0]
                return found
            await asyncio.sleep(POLL_S)

    async def _one(self, node: str, number: int, domain: str, made: "asyncio.Task[Object]") -> None:
        draw = random.Random(f"{self._seed}/{node}")  # noqa: S311 - delays of a demonstration
        await asyncio.sleep(draw.uniform(0, self._arrival_s))
        await self._patch(NODES, "", node, {"metadata": {"labels": {DOMAIN_LABEL: domain}}})
        daemon_set = await made
        namespace, template = daemon_set["metadata"]["namespace"], daemon_set["spec"]["template"]
        name = f"{daemon_set['metadata']['name']}-{number:05}"
        labels = template["metadata"]["labels"]
        pod = {"metadata": {"name": name, "labels": labels}, "spec": {**template["spec"], "nodeName": node}}
        await self._client.create(PODS, namespace, msgspec.json.encode(pod))
        await asyncio.sleep(draw.uniform(0.05, 0.3))
        address = f"10.128.{number // 250}.{number % 250 + 1}"
        await self._status(namespace, name, address, ready=False)
        await self._patch(PODS, namespace, name, {"metadata": {"labels": {CLIQUE_LABEL: self._cliques[node]}}})
        await asyncio.sleep(draw.uniform(0.05, 0.5))
        await self._status(namespace, name, address, ready=True)

    async def _status(self, namespace: str, name: str, address: str, *, ready: bool) -> None:
        condition = {"type": "Ready", "status": str(ready)}
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [condition]}
        await self._patch(PODS, namespace, name, {"status": status}, subresource="status")

    async def _patch(
        self, resource: Resource, namespace: str, name: str, body: Object, *, subresource: str = ""
    ) -> None:
        encoded = msgspec.json.encode(body)
        await self._client.patch(resource, namespace, name, encoded, kind="merge", subresource=subresource)

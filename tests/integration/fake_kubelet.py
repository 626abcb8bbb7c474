"""The kubelets (and their DRA plugin) of many nodes, as the API server sees them.

The DaemonSet controller makes the pods and the scheduler places them, both real; what is missing on a machine without
nodes is who reports a pod's address and readiness. This does, with delays from a seed, and holds any step of any node
for as long as a test wants: a pod without an IP, without its clique label, not Ready, or slow to go.
"""

import asyncio
import contextlib
import enum
import ipaddress
import random
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Self

from kube.names import CLIQUE_LABEL, DOMAIN_LABEL
from tests.integration import node_objects
from tests.integration.api import STRATEGIC, Api, Object, Refused
from tests.integration.node_objects import NodeSpec

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
BOUND_PODS = "/api/v1/pods?fieldSelector=spec.nodeName!="
HEARTBEAT_S = 10.0


class Step(enum.Enum):
    """What happens to a pod on a node, in this order; a test can hold each."""

    ADDRESS = "gets an IP and runs"
    LABEL = "its daemon labels it with the clique ID"
    READY = "becomes Ready"
    GONE = "has ended after its deletion"


Timing = Mapping[Step, tuple[float, float]]
"""Shortest and longest delay before each step, in seconds; which one it is comes from the seed."""

QUICK: Timing = MappingProxyType(
    {Step.ADDRESS: (0.0, 0.05), Step.LABEL: (0.0, 0.02), Step.READY: (0.0, 0.1), Step.GONE: (0.0, 0.05)}
)


class FakeKubelet:
    """Use with `async with`, in the test itself: a failure in the background ends the test with its reason."""

    def __init__(self, api: Api, nodes: Iterable[NodeSpec], *, timing: Timing = QUICK, seed: int = 0) -> None:
        self._api = api
        self._first = list(nodes)
        self._timing = timing
        self._seed = seed
        self._nodes: dict[str, NodeSpec] = {}
        self._gates: dict[tuple[str, Step], asyncio.Event] = {}
        self._pods: dict[str, Object] = {}
        self._promised: dict[str, str] = {}
        self._work: dict[str, asyncio.Task[None]] = {}
        self._ending: set[str] = set()
        self._pods_so_far: Counter[str] = Counter()
        self._next_address = ipaddress.IPv4Address("10.128.0.1")
        self._tasks = asyncio.TaskGroup()
        self._loops: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self.add(self._first)
        await self._tasks.__aenter__()
        self._loops = [self._tasks.create_task(loop) for loop in (self._follow_pods(), self._keep_leases())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in [*self._loops, *self._work.values()]:
            task.cancel()
        try:
            await self._tasks.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if group.exceptions != (error,):
                raise  # otherwise the test's own failure goes on by itself, without a group around it

    # What a test tells

    async def add(self, nodes: Sequence[NodeSpec]) -> None:
        """Register nodes: Node, status, heartbeat and devices."""
        for spec in nodes:
            self._nodes[spec.name] = spec
            for step in Step:
                self._gates.setdefault((spec.name, step), _open_gate())
        await _together(self._register(spec) for spec in nodes)

    async def remove(self, name: str) -> None:
        """Let a machine vanish: no kubelet acts for it any more, and its Node is deleted."""
        del self._nodes[name]
        for uid, pod in list(self._pods.items()):
            if pod["spec"]["nodeName"] == name:
                self._forget(uid)
        await self._api.delete(f"/api/v1/nodes/{name}")

    def hold(self, step: Step, *names: str) -> None:
        """Keep the pods of these nodes from this step until it is released."""
        for name in names:
            self._gates[name, step].clear()

    def promise(self, name: str, address: str) -> None:
        """Let the next pod of this node get this address: its daemon knows it before the kubelet publishes it."""
        self._promised[name] = address

    def release(self, step: Step, *names: str) -> None:
        """Let the pods of these nodes go on."""
        for name in names:
            self._gates[name, step].set()

    async def join(self, domain_uid: str, *names: str) -> None:
        """Label nodes for a ComputeDomain, as the plugin does when a workload's claim arrives."""
        await self._label(domain_uid, names)

    async def leave(self, *names: str) -> None:
        """Take the label away again, as the plugin does after the last workload."""
        await self._label(None, names)

    async def set_ready(self, name: str, *, ready: bool) -> None:
        """Flip the readiness of the pods that run on a node now."""
        pods = [pod for uid, pod in self._pods.items() if self._on(pod, name) and uid not in self._ending]
        await _together(self._patch_status(pod, node_objects.readiness(pod, ready=ready)) for pod in pods)

    async def restart(self, name: str) -> None:
        """Delete the pods of a node, as an eviction does; the DaemonSet makes new ones with new addresses."""
        await _together(self._api.delete(_path(pod), uid=uid) for uid, pod in self._pods.items() if self._on(pod, name))

    # Nodes

    async def _register(self, spec: NodeSpec) -> None:
        await self._ensure("/api/v1/nodes", node_objects.node(spec))
        path = f"/api/v1/nodes/{spec.name}/status"
        uid = (await self._api.patch(path, node_objects.node_status(spec), STRATEGIC))["metadata"]["uid"]
        await self._ensure(LEASES, node_objects.lease(spec, uid))
        await self._ensure(SLICES, node_objects.resource_slice(spec, uid))

    async def _ensure(self, path: str, body: Object) -> None:
        try:
            await self._api.create(path, body)
        except Refused as error:
            if error.status != 409:  # it exists: an earlier attempt whose answer was lost
                raise

    async def _keep_leases(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await _together(self._renew(spec) for spec in list(self._nodes.values()))

    async def _renew(self, spec: NodeSpec) -> None:
        with contextlib.suppress(_Gone):
            await _unless_gone(self._api.patch(f"{LEASES}/{spec.name}", {"spec": {"renewTime": node_objects.now()}}))

    async def _label(self, domain_uid: str | None, names: Iterable[str]) -> None:
        body = {"metadata": {"labels": {DOMAIN_LABEL: domain_uid}}}
        await _together(self._api.patch(f"/api/v1/nodes/{name}", body) for name in names)

    # Pods

    async def _follow_pods(self) -> None:
        while True:
            listed = await self._api.get(BOUND_PODS)
            present = {pod["metadata"]["uid"] for pod in listed["items"]}
            for uid in self._pods.keys() - present:
                self._forget(uid)
            for pod in listed["items"]:
                self._see(pod)
            async with contextlib.aclosing(
                self._api.watch(BOUND_PODS, listed["metadata"]["resourceVersion"])
            ) as events:
                async for event in events:
                    if event["type"] == "ERROR":
                        break
                    if event["type"] == "DELETED":
                        self._forget(event["object"]["metadata"]["uid"])
                    elif event["type"] != "BOOKMARK":
                        self._see(event["object"])

    def _see(self, pod: Object) -> None:
        uid, name = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        if name not in self._nodes:
            return
        ending = "deletionTimestamp" in pod["metadata"]
        new = uid not in self._pods
        self._pods[uid] = pod
        if ending and uid not in self._ending:
            self._ending.add(uid)
            self._start(uid, self._end(pod))
        elif new:
            self._pods_so_far[name] += 1
            self._start(uid, self._run(pod))

    def _start(self, uid: str, work: Coroutine[Any, Any, None]) -> None:
        if uid in self._work:
            self._work[uid].cancel()
        self._work[uid] = self._tasks.create_task(work)

    def _forget(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._ending.discard(uid)
        if uid in self._work:
            self._work.pop(uid).cancel()

    async def _run(self, pod: Object) -> None:
        name, labels = pod["spec"]["nodeName"], pod["metadata"].get("labels", {})
        with contextlib.suppress(_Gone):
            if not pod["status"].get("podIP"):
                await self._reach(name, Step.ADDRESS)
                await self._patch_status(
                    pod, node_objects.running(pod, self._promised.pop(name, None) or self._address())
                )
            if DOMAIN_LABEL in labels and CLIQUE_LABEL not in labels:
                await self._reach(name, Step.LABEL)
                body = {"metadata": {"uid": pod["metadata"]["uid"], "labels": {CLIQUE_LABEL: self._nodes[name].clique}}}
                await _unless_gone(self._api.patch(_path(pod), body))
            if not node_objects.is_ready(pod):
                await self._reach(name, Step.READY)
                await self._patch_status(pod, node_objects.readiness(pod, ready=True))

    async def _end(self, pod: Object) -> None:
        await self._reach(pod["spec"]["nodeName"], Step.GONE)
        await self._api.delete(_path(pod), uid=pod["metadata"]["uid"], grace_s=0)

    async def _reach(self, name: str, step: Step) -> None:
        await self._gates[name, step].wait()
        draw = random.Random(f"{self._seed}/{name}/{self._pods_so_far[name]}/{step.name}")
        await asyncio.sleep(draw.uniform(*self._timing[step]))

    async def _patch_status(self, pod: Object, body: Object) -> None:
        await _unless_gone(self._api.patch(f"{_path(pod)}/status", body, STRATEGIC))

    def _address(self) -> str:
        self._next_address += 1
        return str(self._next_address)

    def _on(self, pod: Object, name: str) -> bool:
        return bool(pod["spec"]["nodeName"] == name)


class _Gone(Exception):
    """The object was deleted, or deleted and made anew, in the meantime."""


async def _unless_gone(request: Coroutine[Any, Any, Object]) -> Object:
    try:
        return await request
    except Refused as error:
        if error.status in (404, 409):
            raise _Gone from error
        raise


async def _together(requests: Iterable[Coroutine[Any, Any, Any]]) -> None:
    """Do all; the client bounds how many are under way at once. The first failure ends the rest."""
    async with asyncio.TaskGroup() as group:
        for request in requests:
            group.create_task(request)


def _open_gate() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate


def _path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"

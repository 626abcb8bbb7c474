"""One node daemon of the upstream driver, as the API server sees it: it negotiates its own row.

It labels its pod with its clique, creates the CDC if there is none, inserts its row with the lowest free index by a PUT
that carries the resourceVersion of what it read, corrects its address, and reports its readiness by further PUTs. Each
refused PUT comes back by the law of `simulation.work_queue`. What it reads is the newest of what its watch has
delivered and what it wrote itself, so between another's write and its delivery it computes from a stale object: that,
and the time its own PUT takes to get there, is the window in which daemons collide.

Source: interop facts 4.2 and 4.3 (the driver, main of August 2026); times from measurements of the peer's code and of a
real API server, see docs/strategies.md. Left out: the IMEX process and the hosts file, which cost no request. A failed
label patch ends the real daemon, and the kubelet starts it again after its first back-off of 10 s; that is kept.
"""

import asyncio
import contextlib
import math
import random
from collections.abc import Awaitable

import msgspec

from kube.client import KubeClient, NotFound, Resource
from kube.clock import Clock
from kube.names import CDCS, CLIQUE_LABEL, DOMAIN_LABEL, PODS
from simulation.client_go import ClientGo, RateLimit
from simulation.cliques import (
    Told,
    is_ready,
    lowest_free,
    new_clique,
    newest,
    row_of,
    rows_of,
    with_rows,
)
from simulation.informer import version_of
from simulation.store import Object
from simulation.work_queue import RETRIED, NotYet, WorkQueue, exponential, jittered


class DaemonSettings(msgspec.Struct, frozen=True):
    """The daemon's constants. Ranges are drawn from once for each daemon; times are in seconds.

    `start_s`: from the pod's IP to the daemon's first request. `sync_poll_s`: how often client-go looks whether a cache
    is filled; a daemon waits for two caches, one after the other, and neither is filled when it first looks.
    `reflector_s`: shortest and longest back-off of an informer's list.
    `first_retry_s`, `longest_retry_s`, `jitter`: the law of the work queue. `rate_per_s`, `burst`: client-go's limit.
    `restart_s`: the kubelet's first back-off.
    """

    capacity: int = 18
    start_s: tuple[float, float] = (0.0, 0.3)
    sync_poll_s: float = 0.1
    reflector_s: tuple[float, float] = (0.8, 30.0)
    first_retry_s: float = 0.005
    longest_retry_s: float = 6.0
    jitter: float = 0.5
    rate_per_s: float = 5.0
    burst: int = 10
    restart_s: float = 10.0


class NegotiatingDaemon:
    """The daemon in one pod, from the moment the pod has its IP until it is cancelled or told to say farewell."""

    def __init__(
        self,
        pod: Object,
        clique: str,
        client: KubeClient,
        *,
        clock: Clock,
        rng: random.Random,
        settings: DaemonSettings,
    ) -> None:
        """Do nothing yet. `clique` is the node's clique ID."""
        self._pod = pod
        self._clique = clique
        self._client = client
        self._clock = clock
        self._rng = rng
        self._settings = settings
        self._namespace: str = pod["metadata"]["namespace"]
        self._domain: str = pod["metadata"]["labels"][DOMAIN_LABEL]
        self._node: str = pod["spec"]["nodeName"]
        self._address: str = pod["status"]["podIP"]
        # client-go has a bucket for each group of the API.
        self._core, self._driver = (
            ClientGo(clock, RateLimit(clock, settings.rate_per_s, settings.burst)) for _ in range(2)
        )
        self._seen = Told(0, None)
        self._written: Object | None = None
        self._queue: WorkQueue | None = None
        self._watches_clique = False
        self._watches_pod = False

    async def run(self) -> None:
        """Live. It returns at once for a pod without a clique, whose daemon writes nothing."""
        settings = self._settings
        await self._clock.sleep(self._rng.uniform(*settings.start_s))
        await self._label()
        if not self._clique:
            return
        law = exponential(settings.first_retry_s, settings.longest_retry_s)
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._work(WorkQueue(self._clock, jittered(law, settings.jitter, self._rng.random), tasks))
        finally:
            self._queue = None  # What is delivered after the end is heard by nobody.

    async def _work(self, queue: WorkQueue) -> None:
        queue.add("clique", self._ensure_exists)
        self._queue = queue
        await self._fill_cache(self._open_clique())
        await self._fill_cache(self._open_pod())
        await queue.run()

    @property
    def cdc(self) -> str:
        """The name of the CDC that the daemon looks at."""
        return f"{self._domain}.{self._clique}"

    def clique_told(self, told: Told) -> None:
        """Hear what the watch tells of the CDC.

        A version that has the daemon's row as it should be queues nothing: the item would find nothing to do.
        """
        if self._queue is None or not self._watches_clique or told.version <= self._seen.version:
            return
        self._seen = told
        own = row_of(told.clique, self._node) if told.clique is not None else None
        if told.clique is not None and (own is None or own["ipAddress"] != self._address):
            self._queue.add("clique", self._sync)

    def pod_told(self, pod: Object) -> None:
        """Hear what the watch tells of the daemon's own pod."""
        if self._queue is not None and self._watches_pod and version_of(pod) >= version_of(self._pod):
            self._pod = pod
            self._queue.add("pod", self._report)

    async def say_farewell(self) -> None:
        """Try once to take the row out, as a daemon does that is asked to stop; what is refused is left to others."""
        clique = self._view()
        if clique is not None:
            rows = [row for row in rows_of(clique) if row["ipAddress"] != self._address]
            with contextlib.suppress(*RETRIED):
                await self._replace(with_rows(clique, rows, None))

    async def _label(self) -> None:
        name = self._pod["metadata"]["name"]
        body = msgspec.json.encode({"metadata": {"labels": {CLIQUE_LABEL: self._clique}}})
        while True:
            try:
                await self._core.send(lambda: self._client.patch(PODS, self._namespace, name, body, kind="merge"))
            except RETRIED:
                await self._clock.sleep(self._settings.restart_s)
            else:
                return

    async def _open_clique(self) -> None:
        clique = await self._opened(CDCS, self.cdc)
        self._watches_clique = True
        if clique is not None:
            self.clique_told(Told(version_of(clique), clique))

    async def _open_pod(self) -> None:
        pod = await self._opened(PODS, self._pod["metadata"]["name"])
        self._watches_pod = True
        if pod is not None:
            self.pod_told(pod)

    async def _fill_cache(self, informer: Awaitable[None]) -> None:
        """Open an informer, and return when client-go has noticed that it is filled."""
        began_s, poll_s = self._clock.monotonic(), self._settings.sync_poll_s
        await informer
        took_s = self._clock.monotonic() - began_s
        await self._clock.sleep(max(1, math.ceil(took_s / poll_s)) * poll_s - took_s)

    async def _opened(self, resource: Resource, name: str) -> Object | None:
        """Ask for one object: this stands for the list by which the watch of that object begins."""
        pause = exponential(*self._settings.reflector_s)
        failures = 0
        while True:
            try:
                answer = await self._core.send_unlimited(lambda: self._client.get(resource, self._namespace, name))
            except NotFound:
                return None
            except RETRIED:
                await self._clock.sleep(pause(failures))
                failures += 1
            else:
                found: Object = msgspec.json.decode(answer)
                return found

    def _view(self) -> Object | None:
        return newest(self._seen, self._written)

    async def _ensure_exists(self) -> None:
        if self._view() is None:
            body = msgspec.json.encode(new_clique(self._domain, self._clique, self._pod, []))
            self._written = await self._driver.send(lambda: self._client.create(CDCS, self._namespace, body))

    async def _sync(self) -> None:
        """Insert the daemon's row, or correct its address."""
        clique = self._view()
        if clique is None:
            return
        rows, own = rows_of(clique), row_of(clique, self._node)
        if own is None:
            row = {
                "nodeName": self._node,
                "cliqueID": self._clique,
                "index": lowest_free(rows, self._settings.capacity),
                "status": "NotReady",
                "ipAddress": self._address,
            }
            await self._replace(with_rows(clique, [*rows, row], self._pod))
        elif own["ipAddress"] != self._address:
            await self._replace(self._changed(clique, own, {"ipAddress": self._address}))

    async def _report(self) -> None:
        """Write the pod's readiness into the row."""
        clique = self._view()
        own = row_of(clique, self._node) if clique is not None else None
        if clique is None or own is None:
            raise NotYet("the row is not there yet")
        status = "Ready" if is_ready(self._pod) else "NotReady"
        if own["status"] != status:
            await self._replace(self._changed(clique, own, {"status": status}))

    def _changed(self, clique: Object, own: Object, change: Object) -> Object:
        rows = [own | change if row is own else row for row in rows_of(clique)]
        return with_rows(clique, rows, self._pod)

    async def _replace(self, clique: Object) -> None:
        name, body = clique["metadata"]["name"], msgspec.json.encode(clique)
        self._written = await self._driver.send(lambda: self._client.replace(CDCS, self._namespace, name, body))

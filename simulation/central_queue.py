"""The strategy `central-queue`: one controller with one queue and one worker, and one write for each event.

It is the variant that upstream tried early (#810, closed unmerged; #816 says what became of it: 256 pods took 8
minutes), with one difference, to its advantage: it writes each row into the CDC of the row's clique, where #810 wrote
all rows of a domain into the one ComputeDomain.

What is modelled, from that pull request's code and interop facts 3.4 and 9: every event of a daemon pod is an item of
its own, with the pod as it was then, in one queue; nothing merges two items of one clique, or of one pod. An item of a
pod that runs and has an IP reads the pod's node from the API server, for its clique label, and then writes the row if
its address or status is not the pod's. The queue lets an item in no sooner than a token bucket of 10 a second allows
(bursts of 100), and client-go adds its own 5 requests a second (bursts of 10) for each group of the API. Reads are from
a cache that knows its own writes, so a single writer meets no conflict with itself.

Left out: all that the controller does beside this (DaemonSets, claim templates, the domain's own status), which would
share the queue and the clients and make it slower.
"""

import asyncio
import random
from collections import defaultdict

import msgspec

from kube.client import KubeClient, Selector
from kube.clock import Clock
from kube.names import CDCS, DOMAIN_LABEL, NODE_CLIQUE_LABEL, NODES, PODS
from kube.retry import Backoff, BackoffPolicy
from simulation.client_go import ClientGo, RateLimit
from simulation.cliques import Told, is_ready, lowest_free, new_clique, newest, row_of, rows_of, with_rows
from simulation.informer import Informer, Listener, version_of
from simulation.store import Object
from simulation.work_queue import Delay, WorkQueue, exponential


class CentralSettings(msgspec.Struct, frozen=True):
    """The controller's limits: of its client for each group of the API, and of its queue; times are in seconds."""

    capacity: int = 18
    rate_per_s: float = 5.0
    burst: int = 10
    queue_rate_per_s: float = 10.0
    queue_burst: int = 100
    first_retry_s: float = 0.005
    longest_retry_s: float = 1000.0


class CentralQueue:
    """The controller; see `simulation.strategy.Strategy`. Use an object for one `run`."""

    def __init__(self, namespace: str, *, clock: Clock, seed: int, settings: CentralSettings) -> None:
        """Do nothing yet. `seed` is of the pauses after a watch that failed; nothing else is random."""
        self._namespace = namespace
        self._clock = clock
        self._seed = seed
        self._settings = settings
        self._core, self._driver = (
            ClientGo(clock, RateLimit(clock, settings.rate_per_s, settings.burst)) for _ in range(2)
        )
        self._told: defaultdict[str, Told] = defaultdict(lambda: Told(0, None))
        self._written: dict[str, Object] = {}

    async def run(self, client: KubeClient) -> None:
        """Work off the events of all daemon pods, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            queue = WorkQueue(self._clock, self._law(), tasks)

            def see_pod(pod: Object, gone: bool) -> None:
                queue.add("", lambda: self._remove(pod, client) if gone else self._ensure(pod, client))

            tasks.create_task(
                self._informer(client, Selector(CDCS, self._namespace, DOMAIN_LABEL), self._see_cdc).run()
            )
            tasks.create_task(self._informer(client, Selector(PODS, self._namespace, DOMAIN_LABEL), see_pod).run())
            await queue.run()

    def _law(self) -> Delay:
        """Give client-go's default for controllers: the longer of an item's own back-off and the queue's bucket."""
        settings = self._settings
        own = exponential(settings.first_retry_s, settings.longest_retry_s)
        bucket = RateLimit(self._clock, settings.queue_rate_per_s, settings.queue_burst)
        return lambda failures: max(own(failures), bucket.reserve())

    def _informer(self, client: KubeClient, selector: Selector, listener: Listener) -> Informer:
        rng = random.Random(f"{self._seed}/{selector.resource.plural}")  # noqa: S311 - jitter that can be repeated
        return Informer(client, selector, listener, clock=self._clock, backoff=Backoff(BackoffPolicy(), rng.random))

    def _see_cdc(self, cdc: Object, gone: bool) -> None:
        self._told[cdc["metadata"]["name"]] = Told(version_of(cdc), None if gone else cdc)

    async def _ensure(self, pod: Object, client: KubeClient) -> None:
        """Let the pod's row be as the pod was at this event."""
        status = pod.get("status", {})
        if not status.get("podIP") or status.get("phase") != "Running":
            return
        node, domain = pod["spec"]["nodeName"], pod["metadata"]["labels"][DOMAIN_LABEL]
        found = await self._core.send(lambda: client.get(NODES, "", node))
        clique_id = found["metadata"].get("labels", {}).get(NODE_CLIQUE_LABEL, "")
        if not clique_id:
            return
        clique = self._view(f"{domain}.{clique_id}")
        rows = rows_of(clique) if clique is not None else []
        own = row_of(clique, node) if clique is not None else None
        index = own["index"] if own is not None else lowest_free(rows, self._settings.capacity)
        row = {
            "nodeName": node,
            "cliqueID": clique_id,
            "index": index,
            "status": "Ready" if is_ready(pod) else "NotReady",
            "ipAddress": status["podIP"],
        }
        if clique is None:
            body = msgspec.json.encode(new_clique(domain, clique_id, pod, [row]))
            self._keep(await self._driver.send(lambda: client.create(CDCS, self._namespace, body)))
        elif own != row:
            await self._replace(with_rows(clique, [one for one in rows if one is not own] + [row], pod), client)

    async def _remove(self, pod: Object, client: KubeClient) -> None:
        """Take the row out that has this pod's address."""
        address, domain = pod.get("status", {}).get("podIP"), pod["metadata"]["labels"][DOMAIN_LABEL]
        for name in [name for name in self._told | self._written if name.startswith(f"{domain}.")]:
            clique = self._view(name)
            rows = rows_of(clique) if clique is not None else []
            kept = [row for row in rows if row["ipAddress"] != address]
            if clique is not None and len(kept) < len(rows):
                await self._replace(with_rows(clique, kept, None), client)

    def _view(self, name: str) -> Object | None:
        return newest(self._told[name], self._written.get(name))

    async def _replace(self, clique: Object, client: KubeClient) -> None:
        name, body = clique["metadata"]["name"], msgspec.json.encode(clique)
        self._keep(await self._driver.send(lambda: client.replace(CDCS, self._namespace, name, body)))

    def _keep(self, clique: Object) -> None:
        self._written[clique["metadata"]["name"]] = clique

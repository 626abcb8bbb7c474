"""The strategy `negotiate`: no central writer; the daemons of a clique agree on their indices by optimistic locking.

Problem: what this costs depends on how the writers of one object interleave, so each daemon is simulated with its own
queue, clients and delays (`simulation.negotiating_daemon`). Simplification: all daemons hear through two watches, of
the CDCs and of the daemon pods of a namespace, instead of two for each daemon; ten thousand connections do not fit one
process. It is fair, and in the peer's favour: each daemon still sees a change only after a delay of its own, drawn once
as if it had its own connection; what is spared is what the watches cost the server, and that they can be refused or
fall behind when it is short of CPU. A simulated server that is starved therefore shows the feedback between slow PUTs
and conflicts, and not that of late watches on top of it.

Left out too: what upstream's controller does meanwhile (it removes rows of pods that are gone, and mirrors all rows
into the ComputeDomain's status every 2 s).
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from kube.client import KubeClient, Selector
from kube.clock import Clock
from kube.names import CDCS, DOMAIN_LABEL, PODS
from kube.retry import Backoff, BackoffPolicy
from simulation.cliques import Told
from simulation.informer import Informer, version_of
from simulation.negotiating_daemon import DaemonSettings, NegotiatingDaemon
from simulation.store import Object
from simulation.strategy import CliqueOf

Deliver = Callable[[], Awaitable[None]]
"""Waits as long as a change takes from its arrival at the shared watch to one of the daemons."""


class Member(msgspec.Struct, frozen=True):
    """A daemon that lives: its address, itself, its task."""

    address: str
    daemon: NegotiatingDaemon
    task: asyncio.Task[None]


class Negotiation:
    """All negotiating daemons of a namespace; see `simulation.strategy.Strategy`."""

    def __init__(
        self,
        namespace: str,
        clique_of: CliqueOf,
        *,
        deliver: Deliver,
        clock: Clock,
        seed: int,
        settings: DaemonSettings,
    ) -> None:
        """Do nothing yet. Equal seeds give each node's daemons equal delays."""
        self._namespace = namespace
        self._clique_of = clique_of
        self._deliver = deliver
        self._clock = clock
        self._seed = seed
        self._settings = settings
        self._members: dict[str, Member] = {}
        self._of_cdc: defaultdict[str, dict[str, NegotiatingDaemon]] = defaultdict(dict)
        self._lives: defaultdict[str, int] = defaultdict(int)

    async def run(self, client: KubeClient) -> None:
        """Let a daemon live in each pod that has an IP, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for resource, listener in (
                (CDCS, partial(self._see_cdc, tasks)),
                (PODS, partial(self._see_pod, client, tasks)),
            ):
                rng = random.Random(f"{self._seed}/{resource.plural}")  # noqa: S311 - jitter that can be repeated
                backoff = Backoff(BackoffPolicy(), rng.random)
                selector = Selector(resource, self._namespace, DOMAIN_LABEL)
                tasks.create_task(Informer(client, selector, listener, clock=self._clock, backoff=backoff).run())

    def _see_cdc(self, tasks: asyncio.TaskGroup, cdc: Object, gone: bool) -> None:
        told = Told(version_of(cdc), None if gone else cdc)
        for daemon in self._of_cdc[cdc["metadata"]["name"]].values():
            tasks.create_task(self._later(partial(daemon.clique_told, told)))

    async def _later(self, tell: Callable[[], None]) -> None:
        await self._deliver()
        tell()

    def _see_pod(self, client: KubeClient, tasks: asyncio.TaskGroup, pod: Object, gone: bool) -> None:
        uid, address = pod["metadata"]["uid"], pod.get("status", {}).get("podIP", "")
        member = self._members.get(uid)
        ends = gone or "deletionTimestamp" in pod["metadata"]
        if member is not None and (ends or address != member.address):
            # Asked to stop it says farewell; a pod that is gone, or has another address, was not asked.
            self._end(uid, member)
            if ends and not gone:
                tasks.create_task(member.daemon.say_farewell())
        elif member is not None:
            tasks.create_task(self._later(partial(member.daemon.pod_told, pod)))
            return
        if address and not ends and pod["status"].get("phase") == "Running":
            self._members[uid] = self._born(pod, client, tasks)

    def _born(self, pod: Object, client: KubeClient, tasks: asyncio.TaskGroup) -> Member:
        node, uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
        self._lives[node] += 1
        daemon = NegotiatingDaemon(
            pod,
            self._clique_of(node),
            client,
            clock=self._clock,
            rng=random.Random(f"{self._seed}/{node}/{self._lives[node]}"),  # noqa: S311 - delays that can be repeated
            settings=self._settings,
        )
        self._of_cdc[daemon.cdc][uid] = daemon
        return Member(pod["status"]["podIP"], daemon, tasks.create_task(daemon.run()))

    def _end(self, uid: str, member: Member) -> None:
        member.task.cancel()
        del self._members[uid], self._of_cdc[member.daemon.cdc][uid]

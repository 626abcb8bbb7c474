"""The node daemons of the upstream driver, as the API server sees them: each negotiates its own row.

What each does is interop fact 4.3: create the CDC if there is none, insert its row with the lowest free index by a PUT
that carries the resourceVersion it was computed from, correct its address, write its readiness, try once to take the
row out at the end. A 409 is retried with back-off from a newer version, so a write never loses another's row.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Self

from kube.names import CLIQUE_LABEL, DOMAIN_LABEL
from tests.integration import driver_objects, node_objects
from tests.integration.api import Api, Object, Refused
from tests.integration.domain_views import Domain
from tests.integration.sandbox import Sandbox

FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 6.0
CAPACITY = 18


class UpstreamDaemons:
    """The daemons of one ComputeDomain on given nodes. Use with `async with`; its end is theirs, without a farewell.

    `cliques` is each node's clique ID, which a daemon learns from its plugin before its pod says it. `prefer` gives
    nodes an index other than the lowest free, such as one that is left over from daemons which have gone since.
    """

    def __init__(
        self,
        api: Api,
        sandbox: Sandbox,
        domain: Domain,
        cliques: Mapping[str, str],
        *,
        prefer: Mapping[str, int] | None = None,
        seed: int = 0,
    ) -> None:
        self._api = api
        self._sandbox = sandbox
        self._domain = domain
        self._cliques = cliques
        self._prefer = prefer or {}
        self._rng = random.Random(seed)
        self._pods: dict[str, Object] = {}
        self._cdcs: dict[str, Object] = {}
        self._news: dict[str, asyncio.Event] = {}
        self._daemons: dict[str, asyncio.Task[None]] = {}
        self._crashed: set[str] = set()
        self._tasks = asyncio.TaskGroup()
        self._loops: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        pods, cdcs = self._sandbox.daemon_pods(self._domain.uid), self._sandbox.cliques()
        self._loops = [self._tasks.create_task(one) for one in (self._follow_pods(pods), self._follow_cdcs(cdcs))]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in [*self._loops, *self._daemons.values()]:
            task.cancel()
        try:
            await self._tasks.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if group.exceptions != (error,):
                raise

    def crash(self, *nodes: str) -> None:
        """Let the daemons on these nodes die without taking their rows out."""
        self._crashed.update(nodes)

    # What the informers see

    async def _follow_pods(self, path: str) -> None:
        async for gone, pod in self._follow(path):
            uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
            if gone:
                self._pods.pop(uid, None)
            elif node in self._cliques:
                self._pods[uid] = pod
                if uid not in self._daemons and pod["status"].get("podIP"):
                    self._daemons[uid] = self._tasks.create_task(self._live(uid))
            self._tell(uid)

    async def _follow_cdcs(self, path: str) -> None:
        async for gone, cdc in self._follow(path):
            name = cdc["metadata"]["name"]
            if gone:
                self._cdcs.pop(name, None)
            elif name not in self._cdcs or _version(self._cdcs[name]) <= _version(cdc):
                self._cdcs[name] = cdc
            for uid in self._news:
                self._tell(uid)

    async def _follow(self, path: str) -> AsyncIterator[tuple[bool, Object]]:
        """Give (gone, object) for ever. What goes between two watches is not told; no test lasts that long."""
        while True:
            listed = await self._api.get(path)
            for item in listed["items"]:
                yield False, item
            async with contextlib.aclosing(self._api.watch(path, listed["metadata"]["resourceVersion"])) as events:
                async for event in events:
                    if event["type"] == "ERROR":
                        break
                    if event["type"] != "BOOKMARK":
                        yield event["type"] == "DELETED", event["object"]

    def _tell(self, uid: str) -> None:
        self._news.setdefault(uid, asyncio.Event()).set()

    # One daemon

    async def _live(self, uid: str) -> None:
        """Sync at each news, and again after a pause that grows while the API server refuses."""
        pause, node = FIRST_PAUSE_S, self._pods[uid]["spec"]["nodeName"]
        news = self._news.setdefault(uid, asyncio.Event())
        address = self._pods[uid]["status"]["podIP"]
        while True:
            pod = self._pods.get(uid)
            if pod is None or node in self._crashed:
                return
            news.clear()
            try:
                if "deletionTimestamp" in pod["metadata"]:
                    with contextlib.suppress(Refused):
                        await self._say_farewell(pod, address)
                    return
                await self._sync(pod, address)
            except Refused as error:
                if error.status not in (404, 409):
                    raise
                timeout_s = pause * self._rng.uniform(0.75, 1.25)
                pause = min(pause * 2, LONGEST_PAUSE_S)
            else:
                timeout_s, pause = None, FIRST_PAUSE_S
            # Not wait_for: before Python 3.12 it swallows a cancellation that comes together with the news.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await news.wait()

    async def _sync(self, pod: Object, address: str) -> None:
        node = pod["spec"]["nodeName"]
        name = f"{self._domain.uid}.{self._cliques[node]}"
        cdc = self._cdcs.get(name)
        if cdc is None:
            await self._api.create(self._sandbox.cliques(), self._new_cdc(name, pod))
            return
        rows = cdc.get("daemons", [])
        wanted = self._row(pod, address, rows)
        others = [row for row in rows if row["nodeName"] != node]
        if wanted not in rows:
            self._keep(await self._put(cdc, [*others, wanted], pod))

    async def _say_farewell(self, pod: Object, address: str) -> None:
        cdc = self._cdcs.get(f"{self._domain.uid}.{self._cliques[pod['spec']['nodeName']]}")
        if cdc is not None:
            rows = [row for row in cdc.get("daemons", []) if row["ipAddress"] != address]
            self._keep(await self._put(cdc, rows, None))

    def _row(self, pod: Object, address: str, rows: list[Object]) -> Object:
        node = pod["spec"]["nodeName"]
        status = "Ready" if node_objects.is_ready(pod) else "NotReady"
        own = next((row for row in rows if row["nodeName"] == node), None)
        if own is not None:
            return {**own, "ipAddress": address, "status": status}
        taken = {row.get("index") for row in rows}
        preferred = self._prefer.get(node)
        choices = [preferred] if preferred is not None and preferred not in taken else range(CAPACITY)
        index = next((index for index in choices if index not in taken), None)
        if index is None:
            raise Refused(409, "no index is free: the daemon tries again")
        # A daemon inserts its row first, and writes its readiness once the row is there.
        clique = self._cliques[node]
        return {"nodeName": node, "ipAddress": address, "cliqueID": clique, "index": index, "status": "NotReady"}

    def _new_cdc(self, name: str, pod: Object) -> Object:
        cdc = driver_objects.clique(name, [])
        clique = name.removeprefix(f"{self._domain.uid}.")
        cdc["metadata"]["labels"] = {DOMAIN_LABEL: self._domain.uid, CLIQUE_LABEL: clique}
        cdc["metadata"]["ownerReferences"] = [_owner(pod)]
        return cdc

    async def _put(self, cdc: Object, rows: list[Object], pod: Object | None) -> Object:
        owners = cdc["metadata"].get("ownerReferences", [])
        if pod is not None and _owner(pod) not in owners:
            owners = [*owners, _owner(pod)]
        body = {**cdc, "metadata": {**cdc["metadata"], "ownerReferences": owners}, "daemons": rows}
        return await self._api.replace(self._sandbox.cliques(cdc["metadata"]["name"]), body)

    def _keep(self, cdc: Object) -> None:
        """Read one's own writes: put the answer where the next look finds it, unless the watch was quicker."""
        known = self._cdcs.get(cdc["metadata"]["name"])
        if known is not None and _version(known) < _version(cdc):
            self._cdcs[cdc["metadata"]["name"]] = cdc
        for uid in self._news:
            self._tell(uid)


def _version(body: Object) -> int:
    return int(body["metadata"]["resourceVersion"])


def _owner(pod: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}

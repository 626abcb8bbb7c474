"""What a formation costs the server beside the requests of the strategy that is measured.

The stand-ins write to the store directly. On a server with a capacity, what their originals ask of it must take its
time as well: else a strategy that is measured on it would have the server for itself.
"""

import asyncio
from typing import NoReturn

from kube import names
from kube.client import Resource
from simulation.capacity import Capacity
from simulation.costs import Costs
from simulation.store import Change, Object


class Load:
    """A listener of a store: a pod's creation, IP and readiness cost the server what they cost it from others.

    With `readers` the daemons only read: each labels its pod, opens a watch on its CDC, and is told of its changes.
    Other daemons ask for all of that themselves.
    """

    def __init__(self, capacity: Capacity, costs: Costs, *, readers: bool) -> None:
        self._capacity = capacity
        self._costs = costs
        self._readers = readers
        self._owed: asyncio.Queue[float] = asyncio.Queue()

    def observe(self, resource: Resource, change: Change) -> None:
        """Take in a change."""
        if change.after is None:
            return
        if resource == names.PODS and change.before is not None:
            if _labels(change.before) == _labels(change.after):
                self._owe(self._costs.kubelet_s)
            elif self._readers:
                self._owe(self._costs.pod_s, times=2)
        elif resource == names.CDCS and self._readers:
            self._owe(self._costs.delivery_s, times=sum(bool(row["ipAddress"]) for row in change.after["daemons"]))

    async def run(self) -> NoReturn:
        """Let the server work until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._capacity.work(await self._owed.get()))

    def _owe(self, seconds: float, times: int = 1) -> None:
        for _ in range(times):
            self._owed.put_nowait(seconds)


def _labels(pod: Object) -> Object:
    labels: Object = pod["metadata"].get("labels") or {}
    return labels

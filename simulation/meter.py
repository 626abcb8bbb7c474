"""What is measured of a formation: writes, and how long a row takes to be visible.

It looks at the store's commits, so neither the network nor the one who is measured has a say in it. A delay runs from
the commit that gave a pod its address, or made it Ready, to the commit of the CDC whose row shows that.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from kube.client import Resource
from kube.clock import Clock
from kube.names import CDCS, COMPUTE_DOMAINS, PODS
from simulation.store import Change, Object

READY = {"type": "Ready", "status": "True"}


class Quantiles(msgspec.Struct, frozen=True):
    """The 50th and the 99th percentile, in milliseconds; 0 where nothing was measured."""

    p50: float
    p99: float


class Visible(msgspec.Struct):
    """Delays in seconds, of one of the two facts that a row shows: `all`, and by clique that of its last pod."""

    all: list[float]
    last: dict[str, tuple[float, float]]
    """By clique: when the pod changed, and the delay; of the pod that was the last to change."""

    def take(self, clique: str, since: float, now: float) -> None:
        """Take in that a row shows what its pod has had since then."""
        self.all.append(now - since)
        if clique not in self.last or self.last[clique][0] <= since:
            self.last[clique] = (since, now - since)

    def last_rows(self) -> list[float]:
        """Give the delays of the cliques' last rows."""
        return [delay for _, delay in self.last.values()]


class Meter:
    """A listener of a store."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._addressed: dict[tuple[str, str], float] = {}
        self._ready: dict[tuple[str, str], float] = {}
        self._rows_ready: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()
        """CDC writes that were carried out, creations included, by clique ID."""
        self.status_writes = 0
        self.rows_ready = 0
        self.finished_at = clock.monotonic()
        """When a row was Ready last that was not before."""
        self.address = Visible([], {})
        self.readiness = Visible([], {})

    def observe(self, resource: Resource, change: Change) -> None:
        """Take in a commit."""
        if resource == PODS:
            self._see_pod(change.before or {}, change.after or {})
        elif resource == CDCS:
            self._see_cdc(change.before or {}, change.after or {})
        elif resource == COMPUTE_DOMAINS:
            self.status_writes += (change.before or {}).get("status") != (change.after or {}).get("status")

    def formed(self, sizes: Mapping[str, int]) -> int:
        """Count the cliques that have as many Ready rows as `sizes` says by their IDs."""
        return sum(self._rows_ready[clique] >= size for clique, size in sizes.items())

    def _see_pod(self, before: Object, after: Object) -> None:
        status, old = after.get("status", {}), before.get("status", {})
        address = status.get("podIP", "")
        if not address or status == old:
            return
        place = (after["spec"]["nodeName"], address)
        if old.get("podIP", "") != address:
            self._addressed[place] = self._clock.monotonic()
        if READY in status.get("conditions", ()) and READY not in old.get("conditions", ()):
            self._ready[place] = self._clock.monotonic()

    def _see_cdc(self, before: Object, after: Object) -> None:
        clique = (after or before)["metadata"]["name"].partition(".")[2]
        now = self._clock.monotonic()
        self.writes[clique] += 1
        old = {row["nodeName"]: row for row in before.get("daemons", ())}
        ready = 0
        for row in after.get("daemons", ()):
            was = old.get(row["nodeName"], {})
            place = (row["nodeName"], row["ipAddress"])
            if row["ipAddress"] != was.get("ipAddress", "") and place in self._addressed:
                self.address.take(clique, self._addressed[place], now)
            if row.get("status") == "Ready":
                ready += 1
                if was.get("status") != "Ready":
                    self.finished_at = now
                    if place in self._ready:
                        self.readiness.take(clique, self._ready[place], now)
        self.rows_ready += ready - self._rows_ready[clique]
        self._rows_ready[clique] = ready


def quantiles(delays: Sequence[float]) -> Quantiles:
    """Give the quantiles of delays in seconds, by nearest rank."""
    ordered = sorted(delays)

    def at(share: float) -> float:
        return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)] * 1000, 1) if ordered else 0.0

    return Quantiles(at(0.5), at(0.99))

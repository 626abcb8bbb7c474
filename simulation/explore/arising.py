"""What no fault is drawn for, because it arises from others and from the workload: counted, so that it is not missed.

An address that is used again, a deletion that no watch told and only a list proved, a list made anew in the middle of a
burst: each is on the list of what a run must meet (issue 4), and a search that never met one proves nothing of it.
"""

from collections import deque
from collections.abc import Callable, Iterable

from eventlog import codec
from eventlog.events import RelistBegan
from eventlog.record import Record
from kube.client import Resource
from kube.names import PODS
from simulation.explore.trace import Trace
from simulation.store import Change, Store

ADDRESS = "arising: address used again"
DELETION = "arising: deletion that only a list proved"
RELIST = "arising: relist during a burst"
ARISING = (ADDRESS, DELETION, RELIST)

BURST = 5
BURST_S = 1.0
"""So many changes of objects within so many seconds are a burst."""


class Arising:
    """Counts, into a trace, what arises in a run."""

    def __init__(self, trace: Trace, store: Store, now_ms: Callable[[], int]) -> None:
        """Watch the store; `now_ms` is the time that records bear."""
        self._trace = trace
        self._now_ms = now_ms
        self._addresses: dict[str, str] = {}
        self._bursts: list[int] = []
        self._recent: deque[int] = deque(maxlen=BURST)
        store.subscribe(self._observe)

    def _observe(self, resource: Resource, change: Change) -> None:
        now = self._now_ms()
        self._recent.append(now)
        if len(self._recent) == BURST and now - self._recent[0] <= BURST_S * 1000:
            self._bursts.append(now)
        if resource == PODS and change.after is not None:
            uid, address = change.after["metadata"]["uid"], change.after.get("status", {}).get("podIP", "")
            if address and self._addresses.setdefault(address, uid) != uid:
                self._addresses[address] = uid
                self._trace.count([ADDRESS])

    def judge(self, records: Iterable[Record]) -> None:
        """Count what the log tells."""
        for record in records:
            event = codec.decode(record)
            if getattr(event, "inferred", ""):
                self._trace.count([DELETION])
            elif isinstance(event, RelistBegan) and event.cause != "start" and self._in_burst(record.timestamp_ms):
                self._trace.count([RELIST])

    def _in_burst(self, at_ms: int) -> bool:
        return any(abs(at_ms - burst) <= BURST_S * 1000 for burst in self._bursts)

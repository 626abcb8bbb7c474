"""What a row says of its daemon, once told right, stays right until the daemon changes.

A write never goes back behind a newer one: it names the version that it was computed from, so whoever makes it has
folded all that the write before was computed from. Judged are our own daemons, which write nothing themselves, and
facts that are new: what a daemon of the same node and address was before, a row may say right by chance.
"""

from collections.abc import Callable

import msgspec

from kube.client import Resource, Selector
from kube.names import CDCS, CLIQUE_LABEL, DOMAIN_LABEL, PODS, READER_LABEL
from simulation.explore.checkers.rows import is_living, position_in
from simulation.store import Change, Object, Store


class Facts(msgspec.Struct, frozen=True):
    """What a row says of a pod."""

    node: str
    address: str
    ready: bool
    living: bool


class Right(msgspec.Struct, frozen=True):
    """A row that said what was so: at which store version it was written, and of which pod (by UID)."""

    version: int
    pod: str


class FactChecker:
    """Follows all pods and CDCs of a store."""

    def __init__(self, store: Store, is_theirs: Callable[[], bool], found: Callable[[str], None]) -> None:
        """Watch the store; tell `found` each violation. `is_theirs`: what is written just now is not a controller's."""
        self._store = store
        self._is_theirs = is_theirs
        self._found = found
        self._right: dict[tuple[str, str], Right] = {}
        self._since: dict[str, int] = {}
        """By a pod's UID: the version since which its facts are what they are, if no pod had these before."""
        self._seen: set[Facts] = set()
        store.subscribe(self._observe)

    def _observe(self, resource: Resource, change: Change) -> None:
        if change.after is None:
            return
        if resource == PODS:
            self._see_pod(change.version, change.before, change.after)
        elif (
            resource == CDCS
            and not self._is_theirs()
            and position_in(change.after) not in ("", position_in(change.before))
        ):
            self._judge(change.version, change.after)

    def _see_pod(self, version: int, before: Object | None, after: Object) -> None:
        facts, uid = _facts_of(after), after["metadata"]["uid"]
        if before is not None and facts == _facts_of(before):
            return
        self._since.pop(uid, None)
        if facts not in self._seen:
            self._seen.add(facts)
            self._since[uid] = version

    def _judge(self, version: int, cdc: Object) -> None:
        uid, labels = cdc["metadata"]["uid"], cdc["metadata"].get("labels", {})
        rows = {row["nodeName"]: (row["ipAddress"], row["status"]) for row in cdc.get("daemons", [])}
        place = f"{DOMAIN_LABEL}={labels.get(DOMAIN_LABEL, '')},{CLIQUE_LABEL}={labels.get(CLIQUE_LABEL, '')}"
        selector = f"{place},{READER_LABEL}"
        for pod in self._store.snapshot(Selector(PODS, labels=selector)):
            facts, pod_uid = _facts_of(pod), pod["metadata"]["uid"]
            if not facts.living or facts.node not in rows:
                continue
            if rows[facts.node] == (facts.address, "Ready" if facts.ready else "NotReady"):
                self._right[uid, facts.node] = Right(version, pod_uid)
                continue
            was, since = self._right.get((uid, facts.node)), self._since.get(pod_uid)
            if was is not None and was.pod == pod_uid and since is not None and since < was.version:
                self._found(
                    f"facts: {labels[DOMAIN_LABEL][:8]}.{labels[CLIQUE_LABEL][-1]} says {rows[facts.node]} for "
                    f"{facts.node} again, after it was right: {facts.address}"
                )


def _facts_of(pod: Object) -> Facts:
    status = pod.get("status", {})
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", []))
    return Facts(pod.get("spec", {}).get("nodeName", ""), status.get("podIP", ""), ready, is_living(pod))

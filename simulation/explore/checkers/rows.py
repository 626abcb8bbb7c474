"""Safety of rows, at every change of a CDC.

Indices are unique and in range, none changes for a living daemon, no live row is taken out by us, and no write goes
back behind a newer one.

"Ours" is a change that names another place in the log, unless the workload makes it (who replaces an object may copy
what we wrote on it); other writers may do as they like, and only what we write is
judged. A daemon lives while its pod is there, is not being deleted, has not failed, and has the row's address.

Where the daemons write rows too, a row can come to us before any event of the pod that it is of: then nobody can know
that it is alive. So those findings are suspicions, which the log decides: did it know of the pod at the place that the
write names?
"""

from collections.abc import Callable

import msgspec

from kube.client import Resource, Selector
from kube.names import CDCS, CLIQUE_LABEL, COMPUTE_DOMAINS, DOMAIN_LABEL, PODS, POSITION_ANNOTATION
from simulation.store import Change, Object, Store


class Shown(msgspec.Struct, frozen=True):
    """A daemon that was shown an index in a CDC: whoever showed it, it holds for this life."""

    cdc: str
    node: str
    pod: str
    address: str


class Suspicion(msgspec.Struct, frozen=True):
    """A violation if the log knew of this pod, with this address, in this clique at the place that the write names.

    And, of a daemon that only reads, if its node has held the index since that pod came: a row of the node's earlier
    life, with an address that it has got again, is none of the pod's own.
    """

    position: str
    clique: str
    pod: str
    address: str
    index: int
    told: str


Alive = dict[tuple[str, str], str]
"""Living daemons: the UIDs of their pods by node and address."""


class RowChecker:
    """Follows all CDCs of a store."""

    def __init__(
        self, store: Store, capacity: int, is_theirs: Callable[[], bool], found: Callable[[str], None]
    ) -> None:
        """Watch the store; tell `found` each violation. `is_theirs`: what is written just now is not a controller's."""
        self._store = store
        self._capacity = capacity
        self._is_theirs = is_theirs
        self._found = found
        self._shown: dict[Shown, int] = {}
        self.suspicions: list[Suspicion] = []
        self.writes: list[tuple[str, Object]] = []
        """Our writes: the place in the log that each names, and the CDC as written."""
        store.subscribe(self._observe)

    def _observe(self, resource: Resource, change: Change) -> None:
        if resource != CDCS or change.after is None:
            return
        alive = self._alive(change.after)
        position = position_in(change.after)
        if position and position != position_in(change.before) and not self._is_theirs():
            self.writes.append((position, change.after))
            self._order(change.before, change.after)
            self._indices(change.after)
            self._living(alive, change.before or {}, change.after)
        for node, row in _rows(change.after).items():
            if (node, row["ipAddress"]) in alive and row.get("index") is not None:
                self._shown.setdefault(_daemon(change.after, row, alive), row["index"])

    def _order(self, before: Object | None, after: Object) -> None:
        earlier, later = position_in(before), position_in(after)
        if earlier and _offset(later) < _offset(earlier):
            self._found(f"order: {_name(after)} was written from {earlier} and then, older, from {later}")

    def _indices(self, cdc: Object) -> None:
        seen: dict[int, str] = {}
        for row in cdc.get("daemons", []):
            node, index = row["nodeName"], row.get("index")
            if index in seen:
                self._found(f"indices: {_name(cdc)} gives index {index} to {seen[index]} and to {node}")
            if index is None or not 0 <= index < self._capacity:
                self._found(f"indices: {_name(cdc)} gives {node} index {index}, not in 0..{self._capacity - 1}")
            else:
                seen[index] = node

    def _living(self, alive: Alive, before: Object, after: Object) -> None:
        rows, before_rows = _rows(after), _rows(before)
        position = position_in(after)
        for node, row in before_rows.items():
            pod = alive.get((node, row["ipAddress"]))
            if node not in rows and pod is not None:
                told = f"live rows: {_name(after)} loses the row of {node}, whose daemon lives"
                index = row.get("index", -1)
                self.suspicions.append(Suspicion(position, _clique(after), pod, row["ipAddress"], index, told))
        for node, row in rows.items():
            if (node, row["ipAddress"]) in alive:
                was = self._shown.get(_daemon(after, row, alive), int(row["index"]))
                if row["index"] not in (was, before_rows.get(node, {}).get("index")):  # Its daemon may choose anew.
                    told = f"indices: {_name(after)} changes {node}, whose daemon lives, from {was} to {row['index']}"
                    pod = alive[node, row["ipAddress"]]
                    self.suspicions.append(Suspicion(position, _clique(after), pod, row["ipAddress"], was, told))

    def _alive(self, cdc: Object) -> Alive:
        """Give the clique's living daemons; none if the domain is going.

        A daemon says its clique when it starts; before that it uses no row.
        """
        labels = cdc["metadata"].get("labels", {})
        domain, clique = labels.get(DOMAIN_LABEL, ""), labels.get(CLIQUE_LABEL, "")
        domains = self._store.snapshot(Selector(COMPUTE_DOMAINS))
        if not any(one["metadata"]["uid"] == domain and "deletionTimestamp" not in one["metadata"] for one in domains):
            return {}
        return {
            (pod["spec"]["nodeName"], pod["status"]["podIP"]): pod["metadata"]["uid"]
            for pod in self._store.snapshot(Selector(PODS, labels=f"{DOMAIN_LABEL}={domain},{CLIQUE_LABEL}={clique}"))
            if is_living(pod)
        }


def _rows(cdc: Object) -> dict[str, Object]:
    return {row["nodeName"]: row for row in cdc.get("daemons", [])}


def _daemon(cdc: Object, row: Object, alive: Alive) -> Shown:
    node, address = row["nodeName"], row["ipAddress"]
    return Shown(cdc["metadata"]["name"], node, alive[node, address], address)


def _clique(cdc: Object) -> str:
    return str(cdc["metadata"].get("labels", {}).get(CLIQUE_LABEL, ""))


def is_living(pod: Object) -> bool:
    """Say whether a daemon runs in the pod."""
    status = pod.get("status", {})
    return (
        "deletionTimestamp" not in pod["metadata"]
        and status.get("phase") == "Running"
        and bool(status.get("podIP"))
        and bool(pod.get("spec", {}).get("nodeName"))
    )


def position_in(cdc: Object | None) -> str:
    """Give the place in the log that our last write of the CDC named; empty if there is none."""
    annotations = (cdc or {}).get("metadata", {}).get("annotations") or {}
    return str(annotations.get(POSITION_ANNOTATION, ""))


def _offset(position: str) -> int:
    return int(position.partition("/")[2])


def _name(cdc: Object) -> str:
    name = cdc["metadata"]["name"]
    return f"{name[:8]}.{name.rpartition('.')[2]}"

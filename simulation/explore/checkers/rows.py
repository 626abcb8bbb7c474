"""Safety of rows, at every change of a CDC.

Indices are unique and in range, none changes for a living daemon, no live row is taken out by us, and no write goes
back behind a newer one.

"Ours" is a change that names another place in the log; other writers may do as they like, and only what we write is
judged. A daemon lives while its pod is there, is not being deleted, has not failed, and has the row's address.
"""

from collections.abc import Callable

import msgspec

from kube.client import Resource, Selector
from kube.names import CDCS, CLIQUE_LABEL, COMPUTE_DOMAINS, DOMAIN_LABEL, PODS, POSITION_ANNOTATION
from simulation.store import Change, Object, Store


class Shown(msgspec.Struct, frozen=True):
    """An index that a daemon was shown: the daemon by its pod and address, in the life of one CDC."""

    domain: str
    node: str
    pod: str
    address: str


class RowChecker:
    """Follows all CDCs of a store."""

    def __init__(self, store: Store, capacity: int, found: Callable[[str], None]) -> None:
        """Watch the store; tell `found` each violation."""
        self._store = store
        self._capacity = capacity
        self._found = found
        self._shown: dict[Shown, int] = {}
        self.writes: list[tuple[str, Object]] = []
        """Our writes: the place in the log that each names, and the CDC as written."""
        store.subscribe(self._observe)

    def _observe(self, resource: Resource, change: Change) -> None:
        if resource != CDCS or change.after is None:
            return
        position = _position(change.after)
        if not position or position == _position(change.before):
            return
        self.writes.append((position, change.after))
        self._order(change.before, change.after)
        self._indices(change.after)
        self._living(change.before or {}, change.after)

    def _order(self, before: Object | None, after: Object) -> None:
        earlier, later = _position(before), _position(after)
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

    def _living(self, before: Object, after: Object) -> None:
        labels = after["metadata"].get("labels", {})
        domain = labels.get(DOMAIN_LABEL, "")
        alive = self._alive(domain, labels.get(CLIQUE_LABEL, ""))
        if not alive:
            return
        rows = {row["nodeName"]: row for row in after.get("daemons", [])}
        for row in before.get("daemons", []):
            node = row["nodeName"]
            if (node, row["ipAddress"]) not in alive:
                continue
            if node not in rows:
                self._found(f"live rows: {_name(after)} loses the row of {node}, whose daemon lives")
            elif row.get("index") not in (None, rows[node]["index"]):
                self._found(f"indices: {_name(after)} gives {node}, whose daemon lives, another index than it had")
        for node, row in rows.items():
            pod = alive.get((node, row["ipAddress"]))
            if pod is not None:
                daemon = Shown(domain, f"{node} in {_name(after)}", pod, row["ipAddress"])
                was = self._shown.setdefault(daemon, row["index"])
                if was != row["index"]:
                    self._found(
                        f"indices: {_name(after)} changes {node}, whose daemon lives, from {was} to {row['index']}"
                    )

    def _alive(self, domain: str, clique: str) -> dict[tuple[str, str], str]:
        """Give the UIDs of the living daemon pods by node and address; none if the domain is going.

        A daemon says its clique when it starts; before that it uses no row.
        """
        domains = self._store.snapshot(Selector(COMPUTE_DOMAINS))
        if not any(one["metadata"]["uid"] == domain and "deletionTimestamp" not in one["metadata"] for one in domains):
            return {}
        return {
            (pod["spec"]["nodeName"], pod["status"]["podIP"]): pod["metadata"]["uid"]
            for pod in self._store.snapshot(Selector(PODS, labels=f"{DOMAIN_LABEL}={domain},{CLIQUE_LABEL}={clique}"))
            if is_living(pod)
        }


def is_living(pod: Object) -> bool:
    """Say whether a daemon runs in the pod."""
    status = pod.get("status", {})
    return (
        "deletionTimestamp" not in pod["metadata"]
        and status.get("phase") == "Running"
        and bool(status.get("podIP"))
        and bool(pod.get("spec", {}).get("nodeName"))
    )


def _position(cdc: Object | None) -> str:
    annotations = (cdc or {}).get("metadata", {}).get("annotations") or {}
    return str(annotations.get(POSITION_ANNOTATION, ""))


def _offset(position: str) -> int:
    return int(position.partition("/")[2])


def _name(cdc: Object) -> str:
    name = cdc["metadata"]["name"]
    return f"{name[:8]}.{name.rpartition('.')[2]}"

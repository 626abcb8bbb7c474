"""Safety of rows, at every change of a CDC.

Indices are unique and in range, none changes for a living daemon, no live row is taken out by us, and no write goes
back behind a newer one: neither does it name an earlier place in the log, nor is a row wrong again that was right, of a
daemon that is still what it was.

"Ours" is a change that names another place in the log, unless the workload makes it (whoever replaces an object may
copy what we wrote on it); other writers may do as they like, and only what we write is
judged. A daemon lives while its pod is there, is not being deleted, has not failed, and has the row's address.
"""

from collections.abc import Callable

import msgspec

from kube.client import Resource, Selector
from kube.names import CDCS, CLIQUE_LABEL, COMPUTE_DOMAINS, DOMAIN_LABEL, PODS, POSITION_ANNOTATION
from simulation.store import Change, Object, Store


Facts = tuple[str, str, bool, bool]
"""A pod's node, address, readiness, and whether it is alive."""


class Shown(msgspec.Struct, frozen=True):
    """An index that a daemon was shown: the daemon by its pod and address, in the life of one CDC."""

    domain: str
    node: str
    pod: str
    address: str


class Right(msgspec.Struct, frozen=True):
    """A row that said what was so: at which store version it was written, and of which CDC and pod (by UID)."""

    version: int
    cdc: str
    pod: str


class RowChecker:
    """Follows all CDCs of a store."""

    def __init__(
        self, store: Store, capacity: int, is_theirs: Callable[[], bool], found: Callable[[str], None]
    ) -> None:
        """Watch the store; tell `found` each violation. `is_theirs` says whether it is an action that writes just now."""
        self._store = store
        self._capacity = capacity
        self._is_theirs = is_theirs
        self._found = found
        self._shown: dict[Shown, int] = {}
        self._right: dict[tuple[str, str], Right] = {}
        self._changed: dict[str, int] = {}
        self._seen: set[Facts] = set()
        self.writes: list[tuple[str, Object]] = []
        """Our writes: the place in the log that each names, and the CDC as written."""
        store.subscribe(self._observe)

    def _observe(self, resource: Resource, change: Change) -> None:
        if resource == PODS:
            self._see_pod(change)
        if resource != CDCS or change.after is None or self._is_theirs():
            return
        position = _position(change.after)
        if not position or position == _position(change.before):
            return
        self.writes.append((position, change.after))
        self._order(change.before, change.after)
        self._indices(change.after)
        self._living(change.before or {}, change.after)
        self._facts(change.version, change.after)

    def _see_pod(self, change: Change) -> None:
        """Note since which version a pod is what it is now, as far as its row is concerned.

        What a daemon of its node was before, with the same address, proves nothing: the row may be right by chance.
        """
        before, after = (None if pod is None else _facts_of(pod) for pod in (change.before, change.after))
        if after is None or before == after:
            return
        uid = (change.after or {})["metadata"]["uid"]
        self._changed.pop(uid, None)
        if after not in self._seen:
            self._seen.add(after)
            self._changed[uid] = change.version

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

    def _facts(self, version: int, cdc: Object) -> None:
        """Judge the addresses and states: once told right, they stay so until the daemon changes."""
        uid, labels = cdc["metadata"]["uid"], cdc["metadata"].get("labels", {})
        rows = {row["nodeName"]: (row["ipAddress"], row["status"]) for row in cdc.get("daemons", [])}
        for pod in self._pods(labels.get(DOMAIN_LABEL, ""), labels.get(CLIQUE_LABEL, "")):
            node, pod_uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
            _, address, ready, _ = _facts_of(pod)
            if rows.get(node) == (address, "Ready" if ready else "NotReady"):
                self._right[uid, node] = Right(version, uid, pod_uid)
                continue
            was = self._right.get((uid, node))
            since = self._changed.get(pod_uid)
            if node in rows and was is not None and was.pod == pod_uid and since is not None and since < was.version:
                self._found(f"order: {_name(cdc)} says {rows[node]} for {node} again, after it was right: {address}")

    def _alive(self, domain: str, clique: str) -> dict[tuple[str, str], str]:
        """Give the UIDs of the living daemon pods by node and address; none if the domain is going.

        A daemon says its clique when it starts; before that it uses no row.
        """
        domains = self._store.snapshot(Selector(COMPUTE_DOMAINS))
        if not any(one["metadata"]["uid"] == domain and "deletionTimestamp" not in one["metadata"] for one in domains):
            return {}
        return {
            (pod["spec"]["nodeName"], pod["status"]["podIP"]): pod["metadata"]["uid"]
            for pod in self._pods(domain, clique)
        }

    def _pods(self, domain: str, clique: str) -> list[Object]:
        """Give the pods of a CDC's living daemons."""
        labels = f"{DOMAIN_LABEL}={domain},{CLIQUE_LABEL}={clique}"
        return [pod for pod in self._store.snapshot(Selector(PODS, labels=labels)) if is_living(pod)]


def is_living(pod: Object) -> bool:
    """Say whether a daemon runs in the pod."""
    status = pod.get("status", {})
    return (
        "deletionTimestamp" not in pod["metadata"]
        and status.get("phase") == "Running"
        and bool(status.get("podIP"))
        and bool(pod.get("spec", {}).get("nodeName"))
    )


def _facts_of(pod: Object) -> Facts:
    """Give a pod's node, address and readiness, and whether it is alive."""
    status = pod.get("status", {})
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", []))
    return pod.get("spec", {}).get("nodeName", ""), status.get("podIP", ""), ready, is_living(pod)


def _position(cdc: Object | None) -> str:
    annotations = (cdc or {}).get("metadata", {}).get("annotations") or {}
    return str(annotations.get(POSITION_ANNOTATION, ""))


def _offset(position: str) -> int:
    return int(position.partition("/")[2])


def _name(cdc: Object) -> str:
    name = cdc["metadata"]["name"]
    return f"{name[:8]}.{name.rpartition('.')[2]}"

"""Liveness and economy, once faults have ended.

Every daemon has its Ready row, what was deleted is gone with all that belonged to it, and then nothing is written any
more.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from kube import names
from kube.client import Resource, Selector
from kube.names import CDCS, CLIQUE_LABEL, COMPUTE_DOMAINS, DOMAIN_LABEL, NODES, PODS
from simulation.explore.checkers.rows import is_living
from simulation.store import Change, Object, Store

WRITTEN = (
    names.CDCS,
    names.COMPUTE_DOMAINS,
    names.NODES,
    names.DAEMON_SETS,
    names.CLAIM_TEMPLATES,
    names.EVENTS,
)
"""What controllers write, but for Leases, which live on renewals."""

Rows = dict[str, dict[str, tuple[str, str]]]
"""By CDC name and node: address and status."""


def missing(store: Store, capacity: int) -> list[str]:
    """Give what is not yet as it should be in the end."""
    return [
        *_rows_missing(store, capacity),
        *_left_over(store),
        *_daemons_missing(store),
        *_objects_missing(store),
        *_status_wrong(store),
    ]


def _rows_missing(store: Store, capacity: int) -> Iterator[str]:
    expected, actual = _expected(store), _actual(store)
    for cdc in sorted(expected.keys() | actual.keys()):
        daemons, rows = expected.get(cdc, {}), actual.get(cdc, {})
        place = f"{cdc[:8]}.{cdc[-1]}"
        for node, address in sorted(daemons.items()):
            if node not in rows and len(rows) < capacity:
                yield f"liveness: {place} has no row for {node} ({address}), whose daemon runs"
            elif node in rows and rows[node] != (address, "Ready"):
                yield f"liveness: {place} says {rows[node]} for {node} ({address}), whose daemon runs"
        for node in sorted(rows.keys() - daemons.keys()):
            yield f"liveness: {place} keeps a row for {node}, which has no daemon"


def _expected(store: Store) -> dict[str, dict[str, str]]:
    """Give the addresses of the daemons that run, by the CDC that they belong to and by node."""
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for pod in store.snapshot(Selector(PODS)):
        labels = pod["metadata"].get("labels", {})
        if is_living(pod) and labels.get(CLIQUE_LABEL):
            found[f"{labels[DOMAIN_LABEL]}.{labels[CLIQUE_LABEL]}"][pod["spec"]["nodeName"]] = pod["status"]["podIP"]
    return found


def _actual(store: Store) -> Rows:
    return {
        cdc["metadata"]["name"]: {row["nodeName"]: (row["ipAddress"], row["status"]) for row in cdc.get("daemons", [])}
        for cdc in store.snapshot(Selector(CDCS))
    }


def _left_over(store: Store) -> Iterator[str]:
    """Give what is left of domains that are gone or going."""
    going = [one for one in store.snapshot(Selector(COMPUTE_DOMAINS)) if "deletionTimestamp" in one["metadata"]]
    for domain in going:
        yield f"liveness: {domain['metadata']['name']} is still being deleted"
    there = {one["metadata"]["uid"] for one in store.snapshot(Selector(COMPUTE_DOMAINS))}
    for resource in (names.NODES, names.DAEMON_SETS, names.CLAIM_TEMPLATES, names.CDCS):
        for thing in store.snapshot(Selector(resource)):
            domain = thing["metadata"].get("labels", {}).get(DOMAIN_LABEL, "")
            if domain and domain not in there:
                yield f"liveness: {resource.plural} {thing['metadata']['name']} is left of {domain[:8]}, which is gone"


def _daemons_missing(store: Store) -> Iterator[str]:
    """Give the nodes that joined a domain and have no living daemon: the DaemonSet is ours to make."""
    there = {one["metadata"]["uid"] for one in store.snapshot(Selector(COMPUTE_DOMAINS))}
    pods = {
        (pod["metadata"]["labels"][DOMAIN_LABEL], pod["spec"]["nodeName"])
        for pod in store.snapshot(Selector(PODS))
        if is_living(pod)
    }
    for node in store.snapshot(Selector(NODES)):
        domain = node["metadata"].get("labels", {}).get(DOMAIN_LABEL, "")
        if domain in there and (domain, node["metadata"]["name"]) not in pods:
            yield f"liveness: {node['metadata']['name']} joined {domain[:8]} and has no daemon"


def _objects_missing(store: Store) -> Iterator[str]:
    """Give what a domain needs and does not have."""
    for domain in _living(store):
        name, uid = domain["metadata"]["name"], domain["metadata"]["uid"]
        of_it = Selector(names.DAEMON_SETS, labels=f"{DOMAIN_LABEL}={uid}")
        templates = Selector(names.CLAIM_TEMPLATES, labels=of_it.labels)
        if not domain["metadata"].get("finalizers"):
            yield f"liveness: {name} has no finalizer"
        if len(store.snapshot(of_it)) != 1:
            yield f"liveness: {name} has no DaemonSet, or more than one"
        if len(store.snapshot(templates)) != 2:
            yield f"liveness: {name} has not its two claim templates"


def _status_wrong(store: Store) -> Iterator[str]:
    """Give the domains whose status does not mirror what there is; by then all that has a row is Ready."""
    for domain in _living(store):
        uid, status = domain["metadata"]["uid"], domain.get("status", {})
        rows = {
            row["nodeName"]: (row["ipAddress"], row["status"])
            for cdc in store.snapshot(Selector(CDCS, labels=f"{DOMAIN_LABEL}={uid}"))
            for row in cdc.get("daemons", [])
        }
        bare = {
            pod["spec"]["nodeName"]: (pod["status"]["podIP"], "Ready")
            for pod in store.snapshot(Selector(PODS, labels=f"{DOMAIN_LABEL}={uid},{CLIQUE_LABEL}="))
            if is_living(pod)
        }
        listed = {node["name"]: (node["ipAddress"], node["status"]) for node in status.get("nodes") or []}
        if listed != rows | bare:
            yield f"liveness: the status of {domain['metadata']['name']} lists {listed}, where there is {rows | bare}"
        elif status.get("status") != "Ready":
            yield f"liveness: {domain['metadata']['name']} is {status.get('status')} though all of its rows are Ready"


def _living(store: Store) -> list[Object]:
    return [one for one in store.snapshot(Selector(COMPUTE_DOMAINS)) if "deletionTimestamp" not in one["metadata"]]


class Changes:
    """The changes of what controllers write, with their times."""

    def __init__(self, store: Store, now: Callable[[], float]) -> None:
        """Begin now."""
        self._now = now
        self._changes: list[tuple[float, str]] = []
        self.number = 0
        """How many objects of any kind, but for Leases, have changed."""
        self.newest = now()
        store.subscribe(self._observe)

    def since(self, moment: float) -> list[str]:
        """Give what was written after a moment, as violations of economy."""
        counts = Counter(what for at, what in self._changes if at > moment)
        return [f"economy: {what} was written {times} times though nothing changed" for what, times in counts.items()]

    def _observe(self, resource: Resource, change: Change) -> None:
        if resource != names.LEASES:
            self.number += 1
        if resource in WRITTEN:
            thing: Object = change.after or change.before or {}
            self.newest = self._now()
            self._changes.append((self.newest, f"{resource.plural} {thing['metadata']['name']}"))

"""A small cluster as the reflectors tell of it: objects that change, and one ordered but late watch per kind.

Truth has one rising resourceVersion. `presence` keeps since when each UID is there (or matches its selector), so that a
test can ask whether what was recorded as gone was gone.
"""

import random
from collections import deque
from collections.abc import Iterable

from controller.observing import observations, seeding
from controller.observing.normaliser import Keyed, Normaliser
from kube import names, objects, reflector
from kube.client import Resource, Selector
from projections.fold import Aggregate, apply

FIRST = (names.CDCS, names.DAEMON_SETS, names.CLAIM_TEMPLATES, names.NODES)
SECOND = (names.PODS, names.COMPUTE_DOMAINS)
KINDS = (*FIRST, *SECOND)
DRIVER = "driver"


def meta(name: str, uid: str, version: int, labels: dict[str, str], namespace: str = "") -> objects.ObjectMeta:
    return objects.ObjectMeta(name, uid, str(version), namespace, labels=labels)


def node(name: str, uid: str, version: int, domain: str, clique: str | None) -> objects.Node:
    labels = {names.DOMAIN_LABEL: domain} | ({} if clique is None else {names.NODE_CLIQUE_LABEL: clique})
    return objects.Node(meta(name, uid, version, labels))


def pod(uid: str, version: int, domain: str, at: str, clique: str | None, ip: str = "") -> objects.Pod:
    """Give a daemon pod; it is Ready if it has an address."""
    labels = {names.DOMAIN_LABEL: domain} | ({} if clique is None else {names.CLIQUE_LABEL: clique})
    conditions = (objects.PodCondition("Ready", "True"),) if ip else ()
    status = objects.PodStatus("Running" if ip else "Pending", ip, conditions)
    return objects.Pod(meta(uid, uid, version, labels, DRIVER), objects.PodSpec(at), status)


def cdc(
    uid: str, version: int, domain: str, clique: str, rows: Iterable[objects.DaemonRow]
) -> objects.ComputeDomainClique:
    labels = {names.DOMAIN_LABEL: domain, names.CLIQUE_LABEL: clique}
    return objects.ComputeDomainClique(meta(f"{domain}.{clique}", uid, version, labels, DRIVER), tuple(rows))


def domain(uid: str, version: int) -> objects.ComputeDomain:
    return objects.ComputeDomain(meta(uid, uid, version, {}, "team"))


def daemon_set(uid: str, version: int, of: str) -> objects.DaemonSet:
    return objects.DaemonSet(meta(f"computedomain-daemon-{of}", uid, version, {names.DOMAIN_LABEL: of}, DRIVER))


def template(uid: str, version: int, of: str) -> objects.ResourceClaimTemplate:
    labels = {names.DOMAIN_LABEL: of, names.TARGET_LABEL: "Daemon"}
    return objects.ResourceClaimTemplate(meta(f"computedomain-daemon-{of}", uid, version, labels, DRIVER))


class Cluster:
    """Truth, and per kind what its reflector has not told yet."""

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[Resource, dict[str, objects.KubeObject]] = {kind: {} for kind in KINDS}
        self.pending: dict[Resource, deque[reflector.ReflectorEvent]] = {kind: deque() for kind in KINDS}
        self.presence: dict[str, list[tuple[int, bool]]] = {}

    def tick(self) -> int:
        """Give the next resourceVersion."""
        self.version += 1
        return self.version

    def put(self, kind: Resource, found: objects.KubeObject) -> None:
        """Create or change an object; the watch will say so."""
        self.objects[kind][found.metadata.uid] = found
        self.presence.setdefault(found.metadata.uid, []).append((found.metadata.resource_version, True))
        self.pending[kind].append(reflector.ObjectSeen(Selector(kind), found, listed=False))

    def remove(self, kind: Resource, uid: str) -> None:
        """Delete an object, or let it match its selector no more; the watch will say so."""
        found = self.objects[kind].pop(uid)
        version = self.tick()
        self.presence[uid].append((version, False))
        old = found.metadata
        told = meta(old.name, uid, version, old.labels, old.namespace)
        match found:
            case objects.Node():
                last: objects.KubeObject = objects.Node(told)
            case objects.Pod():
                last = objects.Pod(told, found.spec, found.status)
            case objects.ComputeDomainClique():
                last = objects.ComputeDomainClique(told, found.daemons)
            case _:
                last = type(found)(told)
        self.pending[kind].append(reflector.ObjectDeleted(Selector(kind), last))

    def was_present(self, uid: str, version: int) -> bool:
        """Say whether the object was there as of that version."""
        states = [present for since, present in self.presence[uid] if since <= version]
        return bool(states) and states[-1]

    def listing(self, kind: Resource, rng: random.Random) -> list[reflector.ReflectorEvent]:
        """Give a complete list as of now, in any order and with an item that comes twice."""
        items = list(self.objects[kind].values())
        rng.shuffle(items)
        if items:
            items.insert(rng.randrange(len(items) + 1), rng.choice(items))
        selector = Selector(kind)
        seen = [reflector.ObjectSeen(selector, item, listed=True) for item in items]
        return [*seen, reflector.RelistCompleted(selector, self.version, len(items))]


class Observer:
    """A normaliser with its log and fold; a restart keeps the log only."""

    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self.log: list[Keyed] = []
        self.aggregates: dict[str, Aggregate] = {}
        self.normaliser = Normaliser()

    def take(self, events: Iterable[Keyed]) -> None:
        """Append and fold."""
        for key, event in events:
            self.log.append((key, event))
            self.aggregates[key] = apply(self.aggregates.get(key), key, event)

    def handle(self, told: reflector.ReflectorEvent) -> None:
        self.take(self.normaliser.handle(told))

    def deliver(self, kind: Resource) -> None:
        """Let the kind's reflector tell its next event, if it has one."""
        if self._cluster.pending[kind]:
            self.handle(self._cluster.pending[kind].popleft())

    def deliver_all(self) -> None:
        """Let the reflectors tell all that they have, interleaved at random."""
        while waiting := [kind for kind in KINDS if self._cluster.pending[kind]]:
            self.deliver(self._rng.choice(waiting))

    def relist(self, kind: Resource) -> None:
        """Lose what the watch has not told yet, and begin a list; one that was under way is void."""
        self._cluster.pending[kind].clear()
        self.handle(reflector.RelistBegan(Selector(kind), "gap"))
        self._cluster.pending[kind].extend(self._cluster.listing(kind, self._rng))

    def live_read(self, found: objects.KubeObject) -> None:
        seen = observations.read(found)
        assert seen is not None
        self.take(self.normaliser.observe(seen))

    def restart(self) -> None:
        """Start anew from the folded state, as the controller does: the second group of lists after the first."""
        self.normaliser = Normaliser()
        for key, state in sorted(self.aggregates.items(), key=lambda item: ("." in item[0], item[0])):
            self.normaliser.seed(key, seeding.observed(key, state))
        for kind in FIRST:
            self.relist(kind)
        for kind in FIRST:
            while self._cluster.pending[kind]:
                self.deliver(kind)
        for kind in SECOND:
            self.relist(kind)

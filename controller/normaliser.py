"""The normaliser: from what the reflectors tell to records (rule 4).

Problem: a watch tells of objects one by one, without their relations: a pod says its node but not always its clique, a
relist says what is there but not what is gone. Invariants: every observation is recorded under each key that it
concerns, once; what leaves a key is recorded there as gone; absence becomes a deletion only at the end of a complete
relist, and is marked `inferred` with its reason. An object whose clique is not known waits here, known to its domain
alone, until the clique is.

Pure: it does no I/O and knows no time. What was last recorded of each object comes, after a restart, from the folded
state (`seed`), so that a deletion that nobody saw is noticed at the first relist.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from controller import observations, routing
from controller.catalogue import Catalogue, Known, node_of
from controller.observations import KINDS, Seen
from eventlog.events import (
    AnyEvent,
    ClaimTemplateSeen,
    DaemonPodGone,
    DaemonPodSeen,
    DaemonSetSeen,
    DomainGone,
    DomainSeen,
    NodeSeen,
    RelistBegan,
    RelistCompleted,
    WatchGap,
)
from kube import reflector
from projections.fold import WATCH_PREFIX

Keyed = tuple[str, AnyEvent]
"""A key, and the event to append under it."""

ABSENT = "a complete list does not hold it"
NO_DOMAIN = "a complete list of ComputeDomains does not hold the one that its label names"
NO_POD = "a complete list of pods that was begun after the row was seen holds no daemon for it"


class Normaliser:
    """Turns the reflectors' vocabulary into keyed events."""

    def __init__(self) -> None:
        """Know nothing: the state before the first record of a log."""
        self._catalogue = Catalogue()
        self._told: dict[str, set[str]] = {}
        self._cliques_of: dict[str, set[str]] = {}
        self._clique_of_node: dict[str, str] = {}
        self._rows_before_list: set[tuple[str, str, str, str]] = set()
        self._domains_before_list: set[str] = set()

    def seed(self, key: str, seen: Iterable[Seen]) -> None:
        """Take in what the folded state of `key` knows, before anything is handled."""
        for one in seen:
            known = self._catalogue.find(KINDS[type(one)], one.uid)
            if known is None or one.resource_version > known.stated.resource_version:
                known = self._catalogue.put(one)
                known.seen = one
            known.recorded[key] = routing.relevant(one, key, routing.domain_of(one))
            self._learn(one)

    def handle(self, told: reflector.ReflectorEvent) -> list[Keyed]:
        """Give the events that follow from what a reflector tells."""
        plural = told.selector.resource.plural
        mark = WATCH_PREFIX + plural
        match told:
            case reflector.RelistBegan():
                self._told[plural] = set()
                self._remember_for_proofs(plural)
                return [(mark, RelistBegan(plural, told.cause))]
            case reflector.ObjectSeen():
                seen = observations.read(told.object)
                if seen is None:
                    return []
                self._told.setdefault(plural, set()).add(seen.uid)
                return list(self._observe(seen))
            case reflector.ObjectDeleted():
                return list(self._deleted(told.object.metadata.uid, plural, told.object.metadata.resource_version))
            case reflector.RelistCompleted():
                events = list(self._absent(plural, told.resource_version))
                return [*events, (mark, RelistCompleted(plural, told.resource_version, told.objects))]
            case reflector.Gap():
                return [(mark, WatchGap(plural, told.resource_version, told.cause))]

    def observe(self, seen: Seen) -> list[Keyed]:
        """Give the events that follow from a live read (rule 8); an older version than what is known tells nothing."""
        return list(self._observe(seen))

    def taken_names(self) -> list[ClaimTemplateSeen]:
        """Give the claim templates of others that stand where a domain's should be: no watch tells when they go."""
        templates = [known.seen for known in self._catalogue.all("resourceclaimtemplates")]
        return [seen for seen in templates if isinstance(seen, ClaimTemplateSeen) and not seen.owned]

    def wanting_template(self, namespace: str, name: str) -> DomainSeen | None:
        """Give the domain whose workload claim template has this place."""
        for known in self._catalogue.all("computedomains"):
            seen = known.seen
            if isinstance(seen, DomainSeen) and (seen.namespace, seen.template) == (namespace, name):
                return seen
        return None

    def name_is_free(self, seen: ClaimTemplateSeen) -> list[Keyed]:
        """Give the events that follow when a read shows that another's claim template is gone."""
        return list(self._deleted(seen.uid, "resourceclaimtemplates", seen.resource_version))

    # --- one object ---

    def _observe(self, stated: Seen) -> Iterator[Keyed]:
        if not self._catalogue.is_news(stated):
            return
        known = self._catalogue.put(stated)
        node = node_of(stated)
        before = self._clique_of_node.get(node)
        yield from self._take_in(known)
        if node and self._clique_of_node.get(node) != before:
            for other in self._catalogue.on_node(node):
                if other is not known:
                    yield from self._take_in(other)

    def _take_in(self, known: Known) -> Iterator[Keyed]:
        known.seen = self._with_clique(known.stated)
        for domain in self._learn(known.seen):
            yield from self._introduce(domain)
        yield from self._record(known)

    def _with_clique(self, stated: Seen) -> Seen:
        """Say the clique: a pod's that says none is its node's, a node's is what a daemon there says, else its label.

        A daemon has its clique from the driver; a label may be old or wrong, and the CDC that counts is the daemon's.
        """
        clique = self._clique_of_node.get(node_of(stated), "")
        if clique and isinstance(stated, DaemonPodSeen) and stated.undecided:
            return replace(stated, clique=clique, undecided=False)
        if isinstance(stated, NodeSeen):
            return replace(stated, clique=self._said_by_daemon(stated.name) or stated.clique or clique)
        return stated

    def _said_by_daemon(self, node: str) -> str:
        """Give the clique that the newest daemon on the node states itself; empty if none does."""
        said = ""
        newest = -1
        for known in self._catalogue.on_node(node):
            pod = known.stated
            if isinstance(pod, DaemonPodSeen) and pod.clique and pod.resource_version > newest:
                said, newest = pod.clique, pod.resource_version
        return said

    def _learn(self, seen: Seen) -> list[str]:
        """Note where the node and the domain belong; give the domain if it is new in its clique."""
        clique, domain = routing.clique_of(seen), routing.domain_of(seen)
        if not clique:
            return []
        if node_of(seen):
            self._clique_of_node[node_of(seen)] = clique
        cliques = self._cliques_of.setdefault(domain, set())
        if clique in cliques:
            return []
        cliques.add(clique)
        return [domain]

    def _introduce(self, domain: str) -> Iterator[Keyed]:
        """Tell a clique that is new to the domain what concerns all of the domain's cliques."""
        for plural in ("computedomains", "daemonsets"):
            for known in self._catalogue.all(plural):
                if routing.domain_of(known.seen) == domain:
                    yield from self._record(known)

    def _keys(self, seen: Seen) -> list[str]:
        domain, clique = routing.domain_of(seen), routing.clique_of(seen)
        if isinstance(seen, DomainSeen | DaemonSetSeen):
            return [*sorted(self._cliques_of.get(domain, ())), domain]
        return [clique, domain] if clique else [domain]

    def _record(self, known: Known) -> Iterator[Keyed]:
        """Record the observation where it says something new, and as gone where it no longer belongs."""
        seen = known.seen
        domain = routing.domain_of(seen)
        keys = self._keys(seen)
        for key in sorted(known.recorded.keys() - set(keys)):
            del known.recorded[key]
            yield key, observations.gone(seen, seen.resource_version, cause="moved", inferred="")
        for key in keys:
            relevant = routing.relevant(seen, key, domain)
            if key not in known.recorded or known.recorded[key] != relevant:
                known.recorded[key] = relevant
                yield key, routing.for_key(seen, key, domain)

    def _deleted(self, uid: str, plural: str, version: int, inferred: str = "") -> Iterator[Keyed]:
        known = self._catalogue.remove(plural, uid, version)
        if known is None:
            return
        cause = "unlabelled or deleted" if isinstance(known.seen, NodeSeen) else "deleted"
        as_of = max(version, known.seen.resource_version)
        event = observations.gone(known.seen, as_of, cause=cause, inferred=inferred)
        for key in sorted(known.recorded):
            yield key, event
        if isinstance(known.seen, DomainSeen):
            self._cliques_of.pop(uid, None)

    # --- what a complete list proves ---

    def _remember_for_proofs(self, plural: str) -> None:
        """Note, as a list begins, what was seen before it: only of that can the list prove that it is over."""
        if plural == "pods":
            self._rows_before_list = set(self._catalogue.rows())
        elif plural == "computedomains":
            self._domains_before_list = {
                routing.domain_of(known.seen) for kind in KINDS.values() for known in self._catalogue.all(kind)
            }

    def _absent(self, plural: str, version: int) -> Iterator[Keyed]:
        absent = self._catalogue.uids(plural) - self._told.pop(plural, set())
        absent -= {seen.uid for seen in self.taken_names()}
        for uid in sorted(absent):
            yield from self._deleted(uid, plural, version, ABSENT)
        if plural == "pods":
            yield from self._orphaned_rows(version)
        elif plural == "computedomains":
            yield from self._orphaned_domains(self._domains_before_list - absent, version)

    def _orphaned_rows(self, version: int) -> Iterator[Keyed]:
        """Tell the rows whose daemon is gone: seen before the list began, unchanged, and without a pod in it."""
        pods = {(routing.domain_of(known.seen), node_of(known.seen)) for known in self._catalogue.all("pods")}
        for row in sorted(self._rows_before_list & set(self._catalogue.rows())):
            domain, clique, node, _ = row
            if (domain, node) not in pods:
                yield clique, DaemonPodGone(domain, node, "", version, inferred=NO_POD)

    def _orphaned_domains(self, before: set[str], version: int) -> Iterator[Keyed]:
        """Tell the domains that are gone though something that was seen before the list still carries their label."""
        for domain in sorted(before - self._catalogue.uids("computedomains")):
            for key in [*sorted(self._cliques_of.pop(domain, ())), domain]:
                yield key, DomainGone(domain, version, NO_DOMAIN)

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

from controller.observing import observations, routing
from controller.observing.catalogue import Catalogue, Known, identity, node_of
from controller.observing.observations import KINDS, Seen
from eventlog.events import (
    AnyEvent,
    ClaimTemplateSeen,
    DaemonPodGone,
    DaemonPodSeen,
    DomainGone,
    DomainSeen,
    NodeSeen,
    RelistBegan,
    RelistCompleted,
    WatchGap,
)
from kube import reflector
from projections.fold import WATCH_PREFIX, is_clique

Keyed = tuple[str, AnyEvent]
"""A key, and the event to append under it."""
Place = tuple[str, str, str, str]
"""A row with an address: domain, clique, node and address."""

ABSENT = "a complete list does not hold it"
NO_DOMAIN = "a complete list of ComputeDomains does not hold the one that its label names"
NO_POD = "a complete list of pods that was begun after the row was seen holds no daemon for it"

NODES_MAX = 100_000
"""Nodes whose clique is remembered, more than a large cluster has: one without a clique label keeps its clique from one
job to the next. What is forgotten is learnt again from the node's next daemon."""


class Normaliser:
    """Turns the reflectors' vocabulary into keyed events."""

    def __init__(self) -> None:
        """Know nothing: the state before the first record of a log."""
        self._catalogue = Catalogue()
        self._told: dict[str, set[str]] = {}
        self._told_upto: dict[str, int] = {}
        self._cliques_of: dict[str, set[str]] = {}
        self._last_clique: dict[str, str] = {}
        self._rows_before_list: set[Place] = set()
        self._domains_before_list: set[str] = set()

    def seed(self, key: str, seen: Iterable[Seen]) -> None:
        """Take in what the folded state of `key` knows, before anything is handled."""
        for one in seen:
            if is_clique(key):
                # What concerns all of a domain's cliques was recorded here and belongs here, whoever is left.
                self._cliques_of.setdefault(routing.domain_of(one), set()).add(key)
            known = self._catalogue.find(KINDS[type(one)], identity(one))
            if known is None or _tells_more(one, known.stated):
                known = self._catalogue.put(one)
                known.seen = one
            known.recorded[key] = routing.relevant(one, key, routing.domain_of(one))
            self._learn(one)

    def handle(self, told: reflector.ReflectorEvent) -> list[Keyed]:
        """Give the events that follow from what a reflector tells."""
        plural = told.selector.resource.plural
        match told:
            case reflector.ObjectSeen():
                seen = observations.read(told.object)
                return [] if seen is None else self.seen(plural, seen, listed=told.listed)
            case reflector.ObjectDeleted():
                meta = told.object.metadata
                return self.deleted(plural, meta.uid, meta.resource_version)
        mark = WATCH_PREFIX + plural
        match told:
            case reflector.RelistBegan():
                self._told[plural] = set()
                self._remember_for_proofs(plural)
                return [(mark, RelistBegan(plural, told.cause))]
            case reflector.RelistCompleted():
                self._told_upto[plural] = told.resource_version
                events = list(self._absent(plural, told.resource_version))
                return [*events, (mark, RelistCompleted(plural, told.resource_version, told.objects))]
            case reflector.Gap():
                return [(mark, WatchGap(plural, told.resource_version, told.cause))]

    def seen(self, plural: str, seen: Seen, *, listed: bool) -> list[Keyed]:
        """Give the events that follow from what a watch shows of an object of a domain, or a list (`listed`)."""
        if listed:
            self._told.setdefault(plural, set()).add(seen.uid)
        else:
            self._told_upto[plural] = seen.resource_version
        return self._observe(seen)

    def deleted(self, plural: str, uid: str, version: int) -> list[Keyed]:
        """Give the events that follow when a watch tells that an object is gone as of `version`."""
        self._told_upto[plural] = version
        return list(self._deleted(uid, plural, version))

    def observe(self, seen: Seen) -> list[Keyed]:
        """Give the events that follow from a live read (rule 8).

        It tells nothing if it is older than what is known: of the object, or of its kind. As of a version that its
        reflector has told, an object that is not known has gone since (failure case B20). Only the claim templates of
        others have no reflector.
        """
        plural = KINDS[type(seen)]
        watched = not (isinstance(seen, ClaimTemplateSeen) and not seen.owned)
        is_old = watched and seen.resource_version <= self._told_upto.get(plural, -1)
        if is_old and self._catalogue.find(plural, seen.uid) is None:
            return []
        self._count_version(seen)
        return self._observe(seen)

    def _count_version(self, seen: Seen) -> None:
        """Let a node be recorded though only its version is new: the write that is held back waits for that version.

        Of other kinds the version counts anyway where they are written, and a node's is that of its heartbeats.
        """
        known = self._catalogue.find(KINDS[NodeSeen], seen.uid) if isinstance(seen, NodeSeen) else None
        if known is not None:
            known.recorded = dict.fromkeys(known.recorded, ())

    def taken_names(self) -> list[ClaimTemplateSeen]:
        """Give the claim templates of others that stand where a domain's should be: no watch tells when they go."""
        templates = [known.seen for known in self._catalogue.all("resourceclaimtemplates")]
        return [seen for seen in templates if isinstance(seen, ClaimTemplateSeen) and not seen.owned]

    def wanting_template(self, namespace: str, name: str) -> list[DomainSeen]:
        """Give the domains whose workload claim template has this place: of one name there may be several."""
        domains = [known.seen for known in self._catalogue.all("computedomains")]
        return [
            seen
            for seen in domains
            if isinstance(seen, DomainSeen) and (seen.namespace, seen.template) == (namespace, name)
        ]

    def name_is_free(self, seen: ClaimTemplateSeen) -> list[Keyed]:
        """Give the events that follow when a read shows that another's claim template is gone."""
        return list(self._deleted(identity(seen), "resourceclaimtemplates", seen.resource_version))

    # --- one object ---

    def _observe(self, stated: Seen) -> list[Keyed]:
        if not self._catalogue.is_news(stated):
            return []
        known = self._catalogue.stays(stated)
        if known is None:
            return list(self._take_place(stated))
        before, known.stated, known.seen = known.seen, stated, self._with_clique(stated)
        return self._record(known, before)

    def _take_place(self, stated: Seen) -> Iterator[Keyed]:
        """Take in an object that is new, or that may be elsewhere than before, and what that means for others."""
        node = node_of(stated)
        before = self._clique_at(node)
        known = self._catalogue.put(stated)
        domain = routing.domain_of(known.seen)
        yield from self._take_in(known)
        if domain != routing.domain_of(stated):
            self._forget_unused(domain)
        yield from self._follow(node, before, known)

    def _follow(self, node: str, before: str, known: Known) -> Iterator[Keyed]:
        """Take in the others on a node whose clique is now known to be another, because of what `known` tells."""
        if node and self._clique_at(node) != before:
            for other in self._catalogue.on_node(node):
                if other is not known:
                    yield from self._take_in(other)

    def _take_in(self, known: Known) -> Iterator[Keyed]:
        before, known.seen = known.seen, self._with_clique(known.stated)
        if self._learn(known.seen):
            yield from self._introduce(routing.domain_of(known.seen), routing.clique_of(known.seen))
        yield from self._record(known, before)

    def _clique_at(self, node: str) -> str:
        """Give the clique that a node is in, as far as it is known: a label that went does not say that it left."""
        return self._catalogue.stated_clique(node) or self._last_clique.get(node, "")

    def _with_clique(self, stated: Seen) -> Seen:
        """Say the clique: a pod's that says none is its node's, a node's is what a daemon there says, else its label.

        A daemon has its clique from the driver; a label may be old or wrong, and the CDC that counts is the daemon's.
        """
        if isinstance(stated, DaemonPodSeen) and stated.undecided and (clique := self._clique_at(stated.node)):
            return replace(stated, clique=clique, undecided=False)
        if isinstance(stated, NodeSeen) and (clique := self._clique_at(stated.name)):
            return replace(stated, clique=clique)
        return stated

    def _learn(self, seen: Seen) -> bool:
        """Note where the node and the domain belong; say whether the clique is new to the domain."""
        clique = routing.clique_of(seen)
        if not clique:
            return False
        if node := node_of(seen):
            self._remember(node, self._clique_at(node) or clique)
        cliques = self._cliques_of.setdefault(routing.domain_of(seen), set())
        new = clique not in cliques
        cliques.add(clique)
        return new

    def _remember(self, node: str, clique: str) -> None:
        if self._last_clique.get(node) != clique:
            self._last_clique.pop(node, None)
            self._last_clique[node] = clique
            if len(self._last_clique) > NODES_MAX:
                del self._last_clique[next(iter(self._last_clique))]

    def _introduce(self, domain: str, clique: str) -> Iterator[Keyed]:
        """Tell a clique that is new to the domain what concerns all of the domain's cliques."""
        for plural in ("computedomains", "daemonsets"):
            for known in self._catalogue.of_domain(plural, domain):
                yield from _recorded_at(known, [clique], domain)

    def _keys(self, seen: Seen, domain: str) -> list[str]:
        if isinstance(seen, routing.OF_ALL_CLIQUES):
            return [*sorted(self._cliques_of.get(domain, ())), domain]
        return [seen.clique, domain] if isinstance(seen, routing.IN_A_CLIQUE) and seen.clique else [domain]

    def _record(self, known: Known, before: Seen) -> list[Keyed]:
        """Record the observation where it says something new, and what it was before as gone where it was that."""
        domain = routing.domain_of(known.seen)
        keys = self._keys(known.seen, domain)
        events: list[Keyed] = []
        for key in sorted([key for key in known.recorded if key not in keys]):
            del known.recorded[key]
            events.append((key, observations.gone(before, known.seen.resource_version, cause="moved", inferred="")))
        return events + _recorded_at(known, keys, domain)

    def _deleted(self, uid: str, plural: str, version: int, inferred: str = "") -> Iterator[Keyed]:
        """Tell that the object is gone as of `version`; of one that was seen later that says nothing."""
        known = self._catalogue.find(plural, uid)
        if known is None or known.stated.resource_version > version:
            return
        node = node_of(known.stated)
        before = self._clique_at(node)
        self._catalogue.remove(plural, uid, version)
        cause = "unlabelled or deleted" if isinstance(known.seen, NodeSeen) else "deleted"
        event = observations.gone(known.seen, version, cause=cause, inferred=inferred)
        for key in sorted(known.recorded):
            yield key, event
        yield from self._follow(node, before, known)
        self._forget_unused(routing.domain_of(known.seen))

    def _forget_unused(self, domain: str) -> None:
        """Forget the cliques of a domain of which nothing is left."""
        if domain in self._cliques_of and not self._catalogue.knows_domain(domain):
            del self._cliques_of[domain]

    # --- what a complete list proves ---

    def _remember_for_proofs(self, plural: str) -> None:
        """Note, as a list begins, what was seen before it: only of that can the list prove that it is over."""
        if plural == "pods":
            self._rows_before_list = set(self._catalogue.rows())
        elif plural == "computedomains":
            self._domains_before_list = self._catalogue.domains()

    def _absent(self, plural: str, version: int) -> Iterator[Keyed]:
        told = self._told.pop(plural, set())
        taken = {identity(seen) for seen in self.taken_names()}
        absent = {identity(known.stated) for known in self._catalogue.all(plural)} - told - taken
        for uid in sorted(absent):
            yield from self._deleted(uid, plural, version, ABSENT)
        if plural == "pods":
            yield from self._orphaned_rows(version)
        elif plural == "computedomains":
            yield from self._orphaned_domains(self._domains_before_list - absent, version)

    def unproven(self) -> dict[str, set[str]]:
        """Give what may be over, by the kind whose list would prove it: domains of labels, and rows without a pod.

        Mostly the objects come a moment later. But if they went before the first list was complete, and what they left
        was seen after it, no watch will ever tell.
        """
        rows = {"/".join(row) for row in self._without_pod(set(self._catalogue.rows()))}
        return {"computedomains": self._without_object(self._catalogue.domains()), "pods": rows}

    def _without_pod(self, rows: set[Place]) -> set[Place]:
        """Give those of the rows that no pod is known for: it has the row's address, or none yet."""
        pods = {
            (seen.domain, seen.node, seen.ip)
            for known in self._catalogue.all("pods")
            if isinstance(seen := known.seen, DaemonPodSeen)
        }
        return {
            (domain, clique, node, address)
            for domain, clique, node, address in rows
            if not {(domain, node, address), (domain, node, "")} & pods
        }

    def _without_object(self, domains: set[str]) -> set[str]:
        return {domain for domain in domains if not self._catalogue.find("computedomains", domain)}

    def _orphaned_rows(self, version: int) -> Iterator[Keyed]:
        """Tell the rows whose daemon is gone: seen before the list began, unchanged, and without a pod in it."""
        for domain, clique, node, address in sorted(
            self._without_pod(self._rows_before_list & set(self._catalogue.rows()))
        ):
            yield clique, DaemonPodGone(domain, node, "", version, inferred=NO_POD, ip=address)

    def _orphaned_domains(self, before: set[str], version: int) -> Iterator[Keyed]:
        """Tell the domains that are gone though something that was seen before the list still carries their label."""
        for domain in sorted(self._without_object(before)):
            for key in [*sorted(self._cliques_of.get(domain, ())), domain]:
                yield key, DomainGone(domain, version, NO_DOMAIN)


def _recorded_at(known: Known, keys: Iterable[str], domain: str) -> list[Keyed]:
    """Record what is observed of the domain's object under those of the keys for which it says something new."""
    events: list[Keyed] = []
    seen, recorded = known.seen, known.recorded
    for key in keys:
        relevant = routing.relevant(seen, key, domain)
        if recorded.get(key) != relevant:
            recorded[key] = relevant
            events.append((key, routing.for_key(seen, key, domain)))
    return events


def _tells_more(one: Seen, other: Seen) -> bool:
    """Say whether of two sightings of one object this is the newer, or the same with a clique."""
    newer = one.resource_version - other.resource_version
    return newer > 0 or (newer == 0 and bool(routing.clique_of(one)) and not routing.clique_of(other))

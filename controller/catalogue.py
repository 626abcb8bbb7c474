"""The catalogue: what the normaliser knows of each object, and where it last recorded it."""

from collections.abc import Iterator
from typing import TypeVar

from controller.observations import KINDS, Seen
from controller.routing import clique_of, domain_of
from eventlog.events import CdcSeen, ClaimTemplateSeen, DaemonPodSeen, NodeSeen

GONE_MAX = 10_000
"""UIDs of deleted objects remembered: a live read that was under way when its object went must not bring it back."""


class Known:
    """One object: as it states itself (`stated`), as it is recorded (`seen`: with its clique), and what was recorded.

    `recorded` maps a key to the relevant part of what was last recorded there.
    """

    def __init__(self, stated: Seen) -> None:
        """Know the object, and that nothing of it was recorded."""
        self.stated = stated
        self.seen = stated
        self.recorded: dict[str, tuple[object, ...]] = {}


def identity(seen: Seen) -> str:
    """Give what an object is known by: its UID, and for a claim template that stands in a domain's way the domain too.

    The template may be another domain's own, known as such: two domains that want one name must not take it in turns.
    """
    if isinstance(seen, ClaimTemplateSeen) and not seen.owned:
        return f"{seen.uid} in the way of {seen.domain}"
    return seen.uid


class Catalogue:
    """All known objects: by kind and identity, those of a kind and domain, and those of a node by the node's name.

    It grows and shrinks with the cluster. Orders do not depend on hashing.
    """

    def __init__(self) -> None:
        """Know nothing."""
        self._tables: dict[str, dict[str, Known]] = {plural: {} for plural in KINDS.values()}
        self._of_domain: dict[tuple[str, str], dict[str, Known]] = {}
        self._on_node: dict[str, dict[str, Known]] = {}
        self._gone: dict[str, int] = {}

    def find(self, plural: str, uid: str) -> Known | None:
        """Give an object by its `identity`."""
        return self._tables[plural].get(uid)

    def all(self, plural: str) -> list[Known]:
        """Give all objects of a kind."""
        return list(self._tables[plural].values())

    def of_domain(self, plural: str, domain: str) -> list[Known]:
        """Give a domain's objects of a kind."""
        return list(self._of_domain.get((plural, domain), {}).values())

    def domains(self) -> set[str]:
        """Give the UIDs of all domains that something known belongs to."""
        return {domain for _, domain in self._of_domain}

    def knows_domain(self, domain: str) -> bool:
        """Say whether anything known belongs to the domain."""
        return any((plural, domain) in self._of_domain for plural in KINDS.values())

    def is_news(self, stated: Seen) -> bool:
        """Say whether this is not older than what is known of the object, its deletion included."""
        known = self.find(KINDS[type(stated)], identity(stated))
        if known is not None:
            return stated.resource_version >= known.stated.resource_version
        return stated.resource_version > self._gone.get(identity(stated), -1)

    def stays(self, stated: Seen) -> Known | None:
        """Give the object if it is known and stands where it stood, alone: nothing follows for any other.

        None if it is new, if it states another domain, node or clique than before, or if its node has others.
        """
        known = self.find(KINDS[type(stated)], identity(stated))
        if known is None:
            return None
        before, node = known.stated, node_of(stated)
        same = clique_of(before) == clique_of(stated) and domain_of(before) == domain_of(stated)
        if not same or node_of(before) != node or len(self._on_node.get(node, ())) > 1:
            return None
        return known

    def put(self, stated: Seen) -> Known:
        """Take in what an object states of itself."""
        plural, uid = KINDS[type(stated)], identity(stated)
        known = self._tables[plural].get(uid)
        if known is None:
            known = self._tables[plural][uid] = Known(stated)
            self._gone.pop(uid, None)
        else:
            before, known.stated = known.stated, stated
            if domain_of(before) == domain_of(stated) and node_of(before) == node_of(stated):
                return known
            self._unlink(plural, before)
        self._of_domain.setdefault((plural, domain_of(stated)), {})[uid] = known
        if node := node_of(stated):
            self._on_node.setdefault(node, {})[uid] = known
        return known

    def remove(self, plural: str, uid: str, version: int) -> None:
        """Forget an object but for its UID and the version as of which it is gone."""
        known = self._tables[plural].pop(uid)
        self._unlink(plural, known.stated)
        self._gone[uid] = version
        if len(self._gone) > GONE_MAX:
            del self._gone[next(iter(self._gone))]

    def _unlink(self, plural: str, stated: Seen) -> None:
        """Take the object that stated this out of the indices, and out with those that are empty."""
        _discard(self._of_domain, (plural, domain_of(stated)), identity(stated))
        if node := node_of(stated):
            _discard(self._on_node, node, identity(stated))

    def on_node(self, node: str) -> list[Known]:
        """Give the node of that name and the daemon pods on it."""
        return list(self._on_node.get(node, {}).values())

    def stated_clique(self, node: str) -> str:
        """Give the clique that the newest daemon on the node states, else the node's own label; empty if none does."""
        best, rank = "", (False, -1)
        for known in self._on_node.get(node, {}).values():
            stated = known.stated
            clique = clique_of(stated)
            if clique:
                own = (isinstance(stated, DaemonPodSeen), stated.resource_version)
                if own > rank:
                    best, rank = clique, own
        return best

    def rows(self) -> Iterator[tuple[str, str, str, str]]:
        """Give domain, clique, node and address of every row that has an address."""
        for known in self.all("computedomaincliques"):
            seen = known.seen
            if isinstance(seen, CdcSeen):
                yield from ((seen.domain, seen.clique, row.node, row.ip) for row in seen.rows if row.ip)


def node_of(seen: Seen) -> str:
    """Give the name of the node that the object is or runs on; empty for other kinds."""
    match seen:
        case NodeSeen():
            return seen.name
        case DaemonPodSeen():
            return seen.node
        case _:
            return ""


K = TypeVar("K")


def _discard(index: dict[K, dict[str, Known]], place: K, uid: str) -> None:
    del index[place][uid]
    if not index[place]:
        del index[place]

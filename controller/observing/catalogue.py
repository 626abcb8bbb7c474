"""The catalogue: what the normaliser knows of each object, and where it last recorded it."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import TypeVar

from controller.observing.observations import KINDS, Seen
from controller.observing.routing import clique_of, domain_of
from eventlog.events import CdcSeen, ClaimTemplateSeen, DaemonPodSeen, NodeSeen

GONE_MAX = 10_000
"""UIDs of deleted objects remembered: a live read that was under way when its object went must not bring it back."""


Place = tuple[str, str, str]
"""Domain, node and clique, as an object states them; the latter two empty if it has none or states none."""


class Known:
    """One object: as it states itself (`stated`), as it is recorded (`seen`: with its clique), and what was recorded.

    `place` is where it states that it belongs. `recorded` maps a key to the relevant part of what was last recorded
    there.
    """

    __slots__ = ("place", "recorded", "seen", "stated")

    def __init__(self, stated: Seen, place: "Place") -> None:
        """Know the object, and that nothing of it was recorded."""
        self.stated = stated
        self.place = place
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
        self._gone: OrderedDict[str, int] = OrderedDict()

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
        uid = identity(stated)
        known = self._tables[KINDS[type(stated)]].get(uid)
        if known is not None:
            return stated.resource_version >= known.stated.resource_version
        return stated.resource_version > self._gone.get(uid, -1)

    def stays(self, stated: Seen) -> Known | None:
        """Give the object if it is known and stands where it stood, alone: nothing follows for any other.

        None if it is new, if it states another domain, node or clique than before, or if its node has others.
        """
        known = self._tables[KINDS[type(stated)]].get(identity(stated))
        if known is None or known.place != _place_of(stated):
            return None
        node = known.place[1]
        return None if node and len(self._on_node[node]) > 1 else known

    def put(self, stated: Seen) -> Known:
        """Take in what an object states of itself."""
        plural, uid, place = KINDS[type(stated)], identity(stated), _place_of(stated)
        domain, node, _ = place
        known = self._tables[plural].get(uid)
        if known is None:
            known = self._tables[plural][uid] = Known(stated, place)
            self._gone.pop(uid, None)
        else:
            before, known.stated, known.place = known.place, stated, place
            if before[:2] == place[:2]:
                return known
            self._unlink(plural, uid, before)
        self._of_domain.setdefault((plural, domain), {})[uid] = known
        if node:
            self._on_node.setdefault(node, {})[uid] = known
        return known

    def remove(self, plural: str, uid: str, version: int) -> None:
        """Forget an object but for its UID and the version as of which it is gone."""
        known = self._tables[plural].pop(uid)
        self._unlink(plural, uid, known.place)
        self._gone[uid] = version
        if len(self._gone) > GONE_MAX:
            self._gone.popitem(last=False)

    def _unlink(self, plural: str, uid: str, place: Place) -> None:
        """Take the object that stood there out of the indices, and out with those that are empty."""
        domain, node, _ = place
        _discard(self._of_domain, (plural, domain), uid)
        if node:
            _discard(self._on_node, node, uid)

    def on_node(self, node: str) -> list[Known]:
        """Give the node of that name and the daemon pods on it."""
        return list(self._on_node.get(node, {}).values())

    def stated_clique(self, node: str) -> str:
        """Give the clique that the newest daemon on the node states, else the node's own label; empty if none does."""
        best, rank = "", (False, -1)
        there = self._on_node.get(node)
        if there is None:
            return best
        if len(there) == 1:
            return next(iter(there.values())).place[2]
        for known in there.values():
            clique = known.place[2]
            if clique:
                own = (isinstance(known.stated, DaemonPodSeen), known.stated.resource_version)
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
        case DaemonPodSeen():
            return seen.node
        case NodeSeen():
            return seen.name
        case _:
            return ""


def _place_of(stated: Seen) -> Place:
    if isinstance(stated, DaemonPodSeen):
        return stated.domain, stated.node, stated.clique
    return domain_of(stated), node_of(stated), clique_of(stated)


K = TypeVar("K")


def _discard(index: dict[K, dict[str, Known]], place: K, uid: str) -> None:
    del index[place][uid]
    if not index[place]:
        del index[place]

"""The catalogue: what the normaliser knows of each object, and where it last recorded it."""

from collections.abc import Iterator

from controller.observations import KINDS, Seen
from eventlog.events import CdcSeen, DaemonPodSeen, NodeSeen

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


class Catalogue:
    """All known objects, by kind and UID, and those of a node by the node's name."""

    def __init__(self) -> None:
        """Know nothing."""
        self._tables: dict[str, dict[str, Known]] = {plural: {} for plural in KINDS.values()}
        self._on_node: dict[str, set[Known]] = {}
        self._gone: dict[str, int] = {}

    def find(self, plural: str, uid: str) -> Known | None:
        """Give an object."""
        return self._tables[plural].get(uid)

    def all(self, plural: str) -> list[Known]:
        """Give all objects of a kind."""
        return list(self._tables[plural].values())

    def uids(self, plural: str) -> set[str]:
        """Give the UIDs of a kind's objects."""
        return set(self._tables[plural])

    def is_news(self, stated: Seen) -> bool:
        """Say whether this is not older than what is known of the object, its deletion included."""
        known = self.find(KINDS[type(stated)], stated.uid)
        if known is not None:
            return stated.resource_version >= known.stated.resource_version
        return stated.resource_version > self._gone.get(stated.uid, -1)

    def put(self, stated: Seen) -> Known:
        """Take in what an object states of itself."""
        known = self._tables[KINDS[type(stated)]].setdefault(stated.uid, Known(stated))
        before, now = node_of(known.stated), node_of(stated)
        if before != now:
            self._on_node.get(before, set()).discard(known)
        if now:
            self._on_node.setdefault(now, set()).add(known)
        known.stated = stated
        return known

    def remove(self, plural: str, uid: str, version: int) -> Known | None:
        """Forget an object but for its UID and the version as of which it is gone."""
        known = self._tables[plural].pop(uid, None)
        if known is None:
            return None
        self._on_node.get(node_of(known.stated), set()).discard(known)
        self._gone[uid] = version
        if len(self._gone) > GONE_MAX:
            del self._gone[next(iter(self._gone))]
        return known

    def on_node(self, node: str) -> list[Known]:
        """Give the node of that name and the daemon pods on it, in an order that does not depend on hashing."""
        return sorted(self._on_node.get(node, ()), key=lambda known: known.stated.uid)

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

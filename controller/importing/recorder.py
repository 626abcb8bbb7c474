"""The recorder: from what inputs tell to the entries of a log, through the controller's own normaliser.

Problem: a source may lack what a watch promises: versions of an object, deletions, the state before its first line.
Invariant: each entry says where it comes from and how certain it is; what a missing version may have changed is never
recorded as if it had been seen. A CDC counts its changes (`generation`), so a missing one shows. Pure: no I/O, no
clock; memory grows with the cluster that the inputs tell of, not with their length.
"""

from collections import OrderedDict
from collections.abc import Iterator

from msgspec.structs import replace

from controller.importing.told import Answered, Lost, Marked, ObjectTold, Removed, Told, WantedRow
from controller.observing import observations
from controller.observing.normaliser import Keyed, Normaliser
from eventlog import codec
from eventlog.event import Provenance
from eventlog.event import Told as ToldEvent
from eventlog.events import DaemonPodSeen, DomainSeen, NodeSeen, WatchGap, WriteAnswered
from eventlog.record import Entry
from kube import reflector
from kube.client import Resource, Selector
from kube.names import CDCS
from kube.objects import ComputeDomain, ComputeDomainClique, DaemonRow, KubeObject
from projections.fold import WATCH_PREFIX, is_clique, is_domain

IDENTITY = "import"
"""The header `controller` of what an import appends."""

ENDED_UNSEEN = "another object has its name now"
UNTOLD_VERSION = "the answer to the deletion does not tell its version; it is the last one known"
UNTOLD_COUNT = "the source does not tell how often the object was changed, so a change may be missing"

_BASES_MAX = 16
"""Versions of a CDC's rows that are remembered, to tell what a refused write was to change."""
_REQUESTS_MAX = 100_000
"""Answered requests that are remembered: rotated files may overlap."""

Place = tuple[str, str, str]
"""Plural, namespace and name."""


class _Cdc:
    """What was told of a CDC: its newest version and generation, and the rows of its last few versions."""

    def __init__(self) -> None:
        self.version = -1
        self.generation = 0
        self.rows: OrderedDict[int, tuple[DaemonRow, ...]] = OrderedDict()

    def take(self, version: int, generation: int, rows: tuple[DaemonRow, ...]) -> None:
        self.version, self.generation = version, generation
        self.rows[version] = rows
        if len(self.rows) > _BASES_MAX:
            self.rows.popitem(last=False)


class Recorder:
    """Turns what inputs tell, in the order in which it is to be recorded, into entries."""

    def __init__(self) -> None:
        """Know nothing."""
        self._normaliser = Normaliser()
        self._named: dict[Place, KubeObject] = {}
        self._cdcs: dict[str, _Cdc] = {}
        self._requests: OrderedDict[str, None] = OrderedDict()

    def take(self, told: Told) -> list[Entry]:
        """Give the entries that follow."""
        match told:
            case ObjectTold():
                return list(self._object(told))
            case Removed():
                return list(self._removed(told))
            case Answered():
                return list(self._answered(told))
            case Marked():
                return [_entry(one, told, Provenance(told.source)) for one in self._normaliser.handle(told.event)]
            case Lost():
                if told.namespace and not self._knows_of(told.resource, told.namespace):
                    return []  # As with every namespace that is deleted: it held nothing that this history speaks of.
                gap = WatchGap(told.resource, 0, told.cause)
                return [_entry((WATCH_PREFIX + told.resource, gap), told, Provenance(told.source))]

    def _knows_of(self, plural: str, namespace: str) -> bool:
        return any(place[:2] == (plural, namespace) for place in self._named)

    # --- objects ---

    def _object(self, told: ObjectTold) -> Iterator[Entry]:
        meta = told.object.metadata
        place = (told.resource.plural, meta.namespace, meta.name)
        known = self._named.get(place)
        if known is not None and known.metadata.uid != meta.uid:
            if told.version < known.metadata.resource_version:
                return  # Of an object whose successor was told already.
            yield from self._ended_unseen(told, known)
            known = None
        is_new = known is None or told.version > known.metadata.resource_version
        inferred = self._judge(told) if is_new else ""
        if told.gone or not observations.is_of_a_domain(told.object):
            if known is None and not told.gone:
                return
            self._forget(place)
            yield from self._handled(reflector.ObjectDeleted(_selector(told.resource), told.object), told, inferred)
            return
        if is_new:
            self._named[place] = told.object
        yield from self._handled(
            reflector.ObjectSeen(_selector(told.resource), told.object, listed=told.listed), told, inferred
        )

    def _judge(self, told: ObjectTold) -> str:
        """Say why what this version of a CDC changes is only inferred; empty if the version before it was told."""
        if not isinstance(told.object, ComputeDomainClique):
            return ""
        known = self._cdcs.setdefault(told.object.metadata.uid, _Cdc())
        before, is_first = known.generation, known.version < 0
        known.take(told.version, told.generation, told.object.daemons)
        if told.inferred:
            return told.inferred
        if told.generation == 0:
            return UNTOLD_COUNT
        missing = told.generation - before - 1
        if missing <= 0 or (told.gone and missing == 1):  # A deletion counts as a change of its own.
            return ""
        changes = "1 change" if missing == 1 else f"{missing} changes"
        if is_first:
            return f"the history lacks the object's first {changes}"
        return f"{changes} of the object just before {'is' if missing == 1 else 'are'} missing in the history"

    def _ended_unseen(self, told: ObjectTold, known: KubeObject) -> Iterator[Entry]:
        meta = known.metadata
        self._forget((told.resource.plural, meta.namespace, meta.name))
        deleted = reflector.ObjectDeleted(_selector(told.resource), known)
        yield from self._handled(deleted, told, ENDED_UNSEEN, writer="")

    def _removed(self, told: Removed) -> Iterator[Entry]:
        place = (told.resource.plural, told.namespace, told.name)
        known = self._named.get(place)
        if known is not None:
            self._forget(place)
            yield from self._handled(
                reflector.ObjectDeleted(_selector(told.resource), known), told, UNTOLD_VERSION, writer=told.writer
            )

    def _forget(self, place: Place) -> None:
        known = self._named.pop(place, None)
        if known is not None:
            self._cdcs.pop(known.metadata.uid, None)

    def _handled(
        self, event: reflector.ReflectorEvent, told: ObjectTold | Removed, inferred: str, writer: str | None = None
    ) -> Iterator[Entry]:
        dated = told.dated if isinstance(told, ObjectTold) else ""
        provenance = Provenance(told.source, told.writer if writer is None else writer, inferred, dated)
        for keyed in self._normaliser.handle(event):
            yield _entry(keyed, told, provenance)

    # --- writes ---

    def _answered(self, told: Answered) -> Iterator[Entry]:
        if told.request in self._requests:
            return
        self._requests[told.request] = None
        if len(self._requests) > _REQUESTS_MAX:
            self._requests.popitem(last=False)
        event = told.event
        place = (event.resource, event.namespace, event.name)
        known = self._named.get(place)
        if event.resource == CDCS.plural:
            node = event.node or self._node_of(told, known)
            event = replace(event, node=node)
        elif isinstance(known, ComputeDomain):
            event = replace(event, domain=known.metadata.uid)
        elif known is not None and (seen := observations.read(known)) is not None:
            event = _placed(event, seen)
        key = event.clique if is_clique(event.clique) else event.domain
        if is_clique(key) or is_domain(key):
            yield _entry((key, event), told, Provenance(told.source, told.writer))

    def _node_of(self, told: Answered, known: KubeObject | None) -> str:
        """Give the one node whose row the write was to change, compared with the version that it was computed from."""
        if known is None or told.rows is None:
            return ""
        base = self._cdcs[known.metadata.uid].rows.get(told.base)
        if base is None:
            return ""
        before = {row.node_name: (row.ip_address, row.index, row.status) for row in base}
        after = {row.node_name: _content(row) for row in told.rows}
        changed = {node for node in before.keys() | after.keys() if before.get(node) != after.get(node)}
        return changed.pop() if len(changed) == 1 else ""


def _content(row: WantedRow) -> tuple[str, int | None, str]:
    return (row.ip_address, row.index, row.status)


def _placed(event: WriteAnswered, seen: observations.Seen) -> WriteAnswered:
    """Say which domain, clique and node the write to this object concerns."""
    domain = seen.domain if not isinstance(seen, DomainSeen) else seen.uid
    node = seen.node if isinstance(seen, DaemonPodSeen) else ""
    clique = seen.clique if isinstance(seen, DaemonPodSeen | NodeSeen) else ""
    return replace(event, domain=domain, clique=clique, node=node)


def _selector(resource: Resource) -> Selector:
    return Selector(resource)


def _entry(keyed: Keyed, told: Told, provenance: Provenance) -> Entry:
    key, event = keyed
    if isinstance(event, ToldEvent):
        event = replace(event, provenance=provenance)
    return codec.entry(key, event, timestamp_ms=told.time_ms, controller=IDENTITY)

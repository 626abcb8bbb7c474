"""The recorder: from what inputs tell to the entries of a log, through the controller's own normaliser.

Problem: a source may lack what a watch promises: versions of an object, deletions, the state before its first line.
Invariant: each entry says where it comes from and how certain it is; what a missing version may have changed is never
recorded as if it had been seen. A CDC counts its changes (`generation`), so a missing one shows. Pure: no I/O, no
clock; memory grows with the cluster that the inputs tell of, not with their length.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from controller.importing.told import Answered, Lost, Marked, ObjectTold, Removed, Told, WantedRow
from controller.observing import observations
from controller.observing.normaliser import Keyed, Normaliser
from controller.observing.observations import Seen
from controller.observing.routing import domain_of
from eventlog import codec
from eventlog.event import Provenance
from eventlog.event import Told as ToldEvent
from eventlog.events import AnyEvent, CdcSeen, DaemonPodSeen, DomainSeen, NodeSeen, Row, WatchGap, WriteAnswered
from eventlog.record import Entry
from kube import reflector
from kube.names import CDCS
from kube.objects import ComputeDomainClique
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
        self.is_ending = False
        self.rows: OrderedDict[int, tuple[Row, ...]] = OrderedDict()

    def take(self, version: int, generation: int, rows: tuple[Row, ...], *, is_ending: bool) -> None:
        self.version, self.generation, self.is_ending = version, generation, is_ending
        self.rows[version] = rows
        if len(self.rows) > _BASES_MAX:
            self.rows.popitem(last=False)


class _Lists:
    """Lists that captures of one cluster tell at the same time: only the one that began last proves what is absent.

    To the normaliser there is one list of a kind at a time, and what the others held before is none of it. A list may
    begin in one file of a capture that was rotated, and be complete in the next.
    """

    def __init__(self) -> None:
        self._open: dict[str, list[str]] = {}
        self._void: dict[str, set[str]] = {}

    def proves(self, told: Marked) -> bool:
        """Say whether the mark counts: all do but the end of a list that another one was begun beside."""
        plural, path = told.event.selector.resource.plural, told.source.rpartition(":")[0]
        began, void = self._open.setdefault(plural, []), self._void.setdefault(plural, set())
        if isinstance(told.event, reflector.RelistBegan):
            began[:] = [*(one for one in began if one != path), path]
            void.discard(path)
        if not isinstance(told.event, reflector.RelistCompleted):
            return True
        if path in void or (void and path not in began):
            void.discard(path)
            return False
        if len(began) > 1 and began[-1] != path:
            began[:] = [one for one in began if one != path]
            return False
        void.update(one for one in began[:-1] if one != path)
        began.clear()
        return True


class Recorder:
    """Turns what inputs tell, in the order in which it is to be recorded, into entries."""

    def __init__(self) -> None:
        """Know nothing."""
        self._normaliser = Normaliser()
        self._named: dict[Place, Seen] = {}
        self._cdcs: dict[str, _Cdc] = {}
        self._requests: OrderedDict[str, None] = OrderedDict()
        self._lists = _Lists()

    def take(self, told: Told) -> list[Entry]:
        """Give the entries that follow."""
        match told:
            case ObjectTold():
                return self._object(told)
            case Removed():
                return self._removed(told)
            case Answered():
                return list(self._answered(told))
            case Marked():
                if not self._lists.proves(told):
                    return []
                return _entries(self._normaliser.handle(told.event), told, Provenance(told.source))
            case Lost():
                if told.namespace and not self._knows_of(told.resource, told.namespace):
                    return []  # As with every namespace that is deleted: it held nothing that this history speaks of.
                gap = WatchGap(told.resource, 0, told.cause)
                return _entries([(WATCH_PREFIX + told.resource, gap)], told, Provenance(told.source))

    def _knows_of(self, plural: str, namespace: str) -> bool:
        return any(place[:2] == (plural, namespace) for place in self._named)

    # --- objects ---

    def _object(self, told: ObjectTold) -> list[Entry]:
        meta = told.object.metadata
        version = meta.resource_version
        place = (told.resource.plural, meta.namespace, meta.name)
        known = self._named.get(place)
        before: list[Entry] = []
        if known is not None and known.uid != meta.uid:
            if version < known.resource_version:
                return []  # Of an object whose successor was told already.
            before = self._ended(told, place, known, Provenance(told.source, "", ENDED_UNSEEN, told.dated))
            known = None
        is_new = known is None or version > known.resource_version
        seen = None if told.gone else observations.read(told.object)
        inferred = self._judge(told, seen) if is_new else told.inferred
        if seen is not None:
            if is_new:
                self._named[place] = seen
            keyed = self._normaliser.seen(told.resource.plural, seen, listed=told.listed)
        elif known is not None or told.gone:
            self._forget(place)
            keyed = self._normaliser.deleted(told.resource.plural, meta.uid, version)
        else:
            return before
        return before + _entries(keyed, told, Provenance(told.source, told.writer, inferred, told.dated))

    def _judge(self, told: ObjectTold, seen: Seen | None) -> str:
        """Say why what this version of a CDC changes is only inferred; empty if the version before it was told."""
        if not isinstance(told.object, ComputeDomainClique):
            return ""
        known = self._cdcs.setdefault(told.object.metadata.uid, _Cdc())
        before, is_first, was_ending = known.generation, known.version < 0, known.is_ending
        rows = seen.rows if isinstance(seen, CdcSeen) else ()
        known.take(told.version, told.generation, rows, is_ending=told.object.metadata.terminating)
        if told.inferred:
            return told.inferred
        if told.generation == 0:
            return UNTOLD_COUNT
        missing = told.generation - before - 1
        if missing <= 0 or (
            told.gone and not was_ending and missing == 1
        ):  # That it is to be deleted is a change of its own.
            return ""
        changes = "1 change" if missing == 1 else f"{missing} changes"
        if is_first:
            return f"the history lacks the object's first {changes}"
        return f"{changes} of the object just before {'is' if missing == 1 else 'are'} missing in the history"

    def _removed(self, told: Removed) -> list[Entry]:
        place = (told.resource.plural, told.namespace, told.name)
        known = self._named.get(place)
        if known is None or told.uid not in {"", known.uid}:
            return []
        return self._ended(told, place, known, Provenance(told.source, told.writer, UNTOLD_VERSION))

    def _ended(self, told: ObjectTold | Removed, place: Place, known: Seen, provenance: Provenance) -> list[Entry]:
        """Take that the object is gone as of the last version of it that is known."""
        self._forget(place)
        keyed = self._normaliser.deleted(told.resource.plural, known.uid, known.resource_version)
        return _entries(keyed, told, provenance)

    def _forget(self, place: Place) -> None:
        known = self._named.pop(place, None)
        if known is not None:
            self._cdcs.pop(known.uid, None)

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
        elif isinstance(known, DomainSeen):
            event = replace(event, domain=known.uid)
        elif known is not None:
            event = _placed(event, known)
        key = event.clique if is_clique(event.clique) else event.domain
        if is_clique(key) or is_domain(key):
            yield from _entries([(key, event)], told, Provenance(told.source, told.writer))

    def _node_of(self, told: Answered, known: Seen | None) -> str:
        """Give the one node whose row the write was to change, compared with the version that it was computed from."""
        if known is None or told.rows is None:
            return ""
        base = self._cdcs[known.uid].rows.get(told.base)
        if base is None:
            return ""
        before = {row.node: (row.ip, row.index, row.status) for row in base}
        after = {row.node_name: _content(row) for row in told.rows}
        changed = {node for node in before.keys() | after.keys() if before.get(node) != after.get(node)}
        return changed.pop() if len(changed) == 1 else ""


def _content(row: WantedRow) -> tuple[str, int | None, str]:
    return (row.ip_address, row.index, row.status)


def _placed(event: WriteAnswered, seen: Seen) -> WriteAnswered:
    """Say which domain, clique and node the write to this object concerns."""
    node = seen.node if isinstance(seen, DaemonPodSeen) else ""
    clique = seen.clique if isinstance(seen, DaemonPodSeen | NodeSeen) else ""
    return replace(event, domain=domain_of(seen), clique=clique, node=node)


def _entries(keyed: Iterable[Keyed], told: Told, provenance: Provenance) -> list[Entry]:
    """Give the entries of the events; an event that goes to several keys one after the other is encoded once."""
    entries: list[Entry] = []
    last: AnyEvent | None = None
    for key, event in keyed:
        if event is last:
            entries.append(replace(entries[-1], key=key))
            continue
        last = event
        stated = replace(event, provenance=provenance) if isinstance(event, ToldEvent) else event
        entries.append(codec.entry(key, stated, timestamp_ms=told.time_ms, controller=IDENTITY))
    return entries

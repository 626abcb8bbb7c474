"""A step of the audit: one record, and what it made of its aggregate and of the rows of a clique."""

from collections.abc import Iterable, Iterator

import msgspec

from eventlog.event import Told
from eventlog.events import (
    AnyEvent,
    CdcGone,
    CdcSeen,
    DomainGone,
    DomainSeen,
    NodeGone,
    NodeSeen,
    Row,
    WatchGap,
    WriteAnswered,
)
from eventlog.record import Position
from projections.clique import CliqueState, Membership
from projections.fold import Aggregate


class RowChange(msgspec.Struct, frozen=True):
    """A row of the CDC of `domain` that came (`before` is None), went (`after` is None) or is another now.

    `version` is the resourceVersion of the CDC, None where the row went with its domain.
    """

    domain: str
    node: str
    before: Row | None
    after: Row | None
    version: int | None


class Change(msgspec.Struct, frozen=True):
    """A record that was folded; `before` is None for the first one of its key."""

    position: Position
    time_ms: int
    key: str
    event: AnyEvent
    before: Aggregate | None
    after: Aggregate
    rows: tuple[RowChange, ...]

    @property
    def source(self) -> str:
        """Where the record was imported from, empty if our own process saw it."""
        return _provenance(self.event, "source")

    @property
    def writer(self) -> str:
        """The user whose write it shows; empty if that is not told."""
        return _provenance(self.event, "writer")

    @property
    def inferred(self) -> str:
        """Why what the record changes is only inferred; empty if it was observed."""
        return str(getattr(self.event, "inferred", "")) or _provenance(self.event, "inferred")

    @property
    def dated(self) -> str:
        """What the record's time was taken from; empty if its source states it."""
        return _provenance(self.event, "dated")

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains whose membership in the clique the record may have changed: those alone that it names.

        A clique may have seen thousands of domains, and to compare all of them for each record takes minutes.
        """
        event, before = self.event, self.before
        match event:
            case NodeSeen() | NodeGone():
                known = before.nodes.get(event.name) if isinstance(before, CliqueState) else None
                named = {known.domain if known is not None else "", getattr(event, "domain", "")}
                return tuple(sorted(named - {""}))
            case DomainSeen() | DomainGone():
                return (event.uid,)
            case _:
                domain = getattr(event, "domain", "")
                return (domain,) if domain else ()

    @property
    def clique(self) -> CliqueState | None:
        """The state of the clique after the record; None if the key is not a clique's."""
        return self.after if isinstance(self.after, CliqueState) else None


def change_of(
    position: Position, time_ms: int, key: str, event: AnyEvent, before: Aggregate | None, after: Aggregate
) -> Change:
    """Make the step, with the rows that it changed."""
    rows: tuple[RowChange, ...] = ()
    if isinstance(after, CliqueState) and isinstance(event, CdcSeen | CdcGone | DomainGone):
        rows = tuple(_rows(event, before if isinstance(before, CliqueState) else CliqueState(), after))
    return Change(position, time_ms, key, event, before, after, rows)


def nodes_of(event: AnyEvent) -> Iterable[str]:
    """Give the names of the nodes that the event speaks of; an empty one is of none."""
    match event:
        case NodeSeen() | NodeGone():
            return (event.name,)
        case CdcSeen():
            return (*(row.node for row in event.rows), *event.waiting)
        case WatchGap():
            return ()
        case WriteAnswered():
            return (event.node,)
        case _:
            return (getattr(event, "node", ""),)


def _rows(event: CdcSeen | CdcGone | DomainGone, before: CliqueState, after: CliqueState) -> Iterator[RowChange]:
    domain = event.uid if isinstance(event, DomainGone) else event.domain
    version = None if isinstance(event, DomainGone) else event.resource_version
    old, new = _of(before.domains.get(domain)), _of(after.domains.get(domain))
    for node in sorted(old.keys() | new.keys()):
        if old.get(node) != new.get(node):
            yield RowChange(domain, node, old.get(node), new.get(node), version)


def _of(membership: Membership | None) -> dict[str, Row]:
    return membership.cdc.rows if membership is not None and membership.cdc is not None else {}


def _provenance(event: AnyEvent, field: str) -> str:
    provenance = event.provenance if isinstance(event, Told) else None
    return str(getattr(provenance, field)) if provenance is not None else ""

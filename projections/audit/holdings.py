"""Holdings: which node had which index of a clique, from when to when, and how that is known.

Problem: in our own logs decisions give an index before a row shows it; in a history that was imported there are rows
only, since upstream daemons wrote them themselves; and a history may have holes. Invariant: a node holds an index as
long as an admitted decision or the CDC says so, as one holding; what a missing version may have begun, ended or
interrupted is inferred. Reason for going by the fold's states: what is stale, doubled or inadmissible is decided there.
"""

from collections.abc import Iterator

import msgspec

from eventlog.events import CdcGone, CdcSeen, DomainGone, IndexAdopted, IndexAssigned, IndexReleased
from eventlog.record import Position
from projections.audit.change import Change
from projections.clique import CliqueState, Membership

ANOTHER_OBJECT = "another object took the place of the one before it"
_NONE = Membership()

Pair = tuple[str, int]
"""A node and an index."""


class Moment(msgspec.Struct, frozen=True):
    """Where a holding begins or ends: time, place in the log, cause, and for an imported record its source.

    `dated` is empty if the source states the time, else what it was taken from.
    """

    time_ms: int
    position: Position
    cause: str
    source: str
    dated: str


class Holding(msgspec.Struct, frozen=True):
    """A node's hold on an index; `end` is None while it lasts.

    `first_version` is the resourceVersion of the CDC that first showed it, `end_version` of the one that no longer did;
    None if none did, or it is shown still. `inferred` holds the reasons why it is not all observed. `decided`: a
    decision of ours gave it, whatever rows were seen; `seen_first`: a row showed it before. `shown_ms` is when the CDC
    that shows it was last told, None if none does.
    """

    clique: str
    domain: str
    node: str
    index: int
    begin: Moment
    end: Moment | None
    first_version: int | None
    end_version: int | None
    inferred: tuple[str, ...]
    decided: bool = False
    seen_first: bool = False
    shown_ms: int | None = None


class _Open:
    """A holding that lasts."""

    def __init__(self, begin: Moment, inferred: str, *, seen_first: bool) -> None:
        self.begin = begin
        self.seen_first = seen_first
        self.inferred = [f"its begin: {inferred}"] if inferred else []
        self.released: Moment | None = None
        self.decided = False
        self.first_version: int | None = None
        self.end_version: int | None = None

    def go_on(self, version: int | None, reason: str, *, decided: bool, shown: bool) -> None:
        """Go on across a change, which shows the CDC of `version` if it is not None."""
        if decided:
            self.released = None  # It was given again before its row was taken out.
        if version is not None:
            if reason:
                self.inferred.append(f"across: {reason}")
            if not shown and self.first_version is not None and self.end_version is None:
                self.end_version = version

    @property
    def is_shown(self) -> bool:
        """Whether the newest CDC that was told shows it."""
        return self.first_version is not None and self.end_version is None

    def shown(self, version: int) -> None:
        self.first_version = self.first_version or version
        self.end_version = None


class Holdings:
    """Follows the holdings of all cliques of a history, change by change."""

    def __init__(self) -> None:
        """Know of none."""
        self._open: dict[tuple[str, str], dict[Pair, _Open]] = {}
        self._told: dict[tuple[str, str], int] = {}

    def take(self, change: Change) -> list[Holding]:
        """Give the holdings that the change ends."""
        after = change.after
        if not isinstance(after, CliqueState):
            return []
        self._follow(change, after)
        before = change.before if isinstance(change.before, CliqueState) else CliqueState()
        if before.domains is after.domains:
            return []
        ended: list[Holding] = []
        for domain in change.domains:
            old, new = before.domains.get(domain, _NONE), after.domains.get(domain, _NONE)
            if old.cdc is not new.cdc or old.holdings is not new.holdings:
                ended.extend(self._domain(change, domain, old, new))
        return ended

    def lasting(self) -> list[Holding]:
        """Give the holdings that have not ended."""
        return [
            _holding(clique, domain, pair, one, None, self._told.get((clique, domain)) if one.is_shown else None)
            for (clique, domain), pairs in self._open.items()
            for pair, one in pairs.items()
        ]

    def _follow(self, change: Change, after: CliqueState) -> None:
        """Note when each CDC was last told as it is: again, though nothing changed, counts as well."""
        event = change.event
        if isinstance(event, CdcSeen) and (membership := after.domains.get(event.domain)) is not None:
            cdc = membership.cdc
            if cdc is not None and (cdc.uid, cdc.resource_version) == (event.uid, event.resource_version):
                self._told[change.key, event.domain] = change.time_ms

    def _domain(self, change: Change, domain: str, old: Membership, new: Membership) -> Iterator[Holding]:
        place = (change.key, domain)
        is_open = self._open.setdefault(place, {})
        if old.cdc is not None and new.cdc is not None and old.cdc.uid != new.cdc.uid:
            yield from self._settle(change, place, is_open, new, shown=set(), reason=ANOTHER_OBJECT)
        yield from self._settle(change, place, is_open, new, shown=_shown(new), reason=change.inferred)
        if not is_open:
            del self._open[place]
            self._told.pop(place, None)

    def _settle(
        self,
        change: Change,
        place: tuple[str, str],
        is_open: dict[Pair, _Open],
        new: Membership,
        *,
        shown: set[Pair],
        reason: str,
    ) -> Iterator[Holding]:
        """Begin, go on with and end holdings, so that they are those of the membership."""
        decided = {(node, held.index) for node, held in new.holdings.items() if held.active}
        version = change.event.resource_version if isinstance(change.event, CdcSeen | CdcGone) else None
        for pair in sorted(is_open.keys() - decided):
            one = is_open[pair]
            moment = one.released or _moment(change, _end_cause(change, pair, shown))
            if pair in shown:
                if isinstance(change.event, IndexReleased):
                    one.released = moment
                continue
            del is_open[pair]
            one.end_version = one.end_version or version
            if reason:
                one.inferred.append(f"its end: {reason}")
            yield _holding(*place, pair, one, moment)
        for pair, one in is_open.items():
            one.go_on(version, reason, decided=pair in decided, shown=pair in shown)
        for pair in sorted((decided | shown) - is_open.keys()):
            is_open[pair] = _Open(_moment(change, _begin_cause(change)), reason, seen_first=pair not in decided)
        for pair in decided:
            is_open[pair].decided = True
        for pair in shown:
            is_open[pair].shown(new.cdc_version)


def _shown(membership: Membership) -> set[Pair]:
    rows = membership.cdc.rows.values() if membership.cdc is not None else ()
    return {(row.node, row.index) for row in rows if row.index is not None}


def _moment(change: Change, cause: str) -> Moment:
    return Moment(change.time_ms, change.position, cause, change.source, change.dated)


def _begin_cause(change: Change) -> str:
    match change.event:
        case IndexAssigned():
            return f"assigned ({change.event.cause})" if change.event.cause else "assigned"
        case IndexAdopted():
            return "adopted"
        case _:
            return f"row written by {change.writer}" if change.writer else "row written"


def _end_cause(change: Change, pair: Pair, shown: set[Pair]) -> str:
    by = f" by {change.writer}" if change.writer else ""
    match change.event:
        case IndexReleased():
            return f"released ({change.event.cause})" if change.event.cause else "released"
        case CdcGone():
            return f"clique object deleted{by}"
        case DomainGone():
            return f"domain deleted{by}"
        case _:
            now = next((index for node, index in sorted(shown) if node == pair[0]), None)
            return f"row removed{by}" if now is None else f"index changed to {now}{by}"


def _holding(
    clique: str, domain: str, pair: Pair, one: _Open, end: Moment | None, shown_ms: int | None = None
) -> Holding:
    node, index = pair
    # The same reason may hold at many changes; a reader needs it once.
    inferred = tuple(dict.fromkeys(one.inferred))
    version = one.end_version if end is not None else None
    return Holding(
        clique,
        domain,
        node,
        index,
        one.begin,
        end,
        one.first_version,
        version,
        inferred,
        one.decided,
        one.seen_first,
        shown_ms,
    )

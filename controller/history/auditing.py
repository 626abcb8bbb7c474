"""The work of `cliquelog audit`: folds a log, and follows who held which index."""

from collections.abc import AsyncIterator, Iterable
from difflib import get_close_matches

import msgspec

from eventlog.codec import UndecodableRecord
from eventlog.events import DomainSeen
from eventlog.log import EventLog
from eventlog.reading import batches
from eventlog.record import Position
from projections.audit.change import Change, change_of, nodes_of
from projections.audit.finding import Finding
from projections.audit.findings import rules
from projections.audit.findings.visibility_gap import VisibilityGap
from projections.audit.gaps import Gaps
from projections.audit.holdings import Holding, Holdings
from projections.audit.twins import is_twin
from projections.fold import is_clique, is_domain
from projections.partition import PartitionFold

BATCH = 5000


class Known(msgspec.Struct, frozen=True):
    """All that any record of a history speaks of: names of nodes, clique IDs, UIDs of ComputeDomains."""

    nodes: frozenset[str] = frozenset()
    cliques: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()


class Audit(msgspec.Struct, frozen=True):
    """What an audit found; `records` is how many were read, `begin_ms` and `end_ms` the times of the first and last.

    `names` are those of the ComputeDomains by UID, as `namespace/name`.
    """

    records: int
    begin_ms: int
    end_ms: int
    names: dict[str, str]
    known: Known
    holdings: tuple[Holding, ...]
    findings: tuple[Finding, ...]


class Filters(msgspec.Struct, frozen=True):
    """What of an audit is asked for: None asks for all; times are Unix milliseconds, both included."""

    node: str | None
    clique: str | None
    domain: str | None
    index: int | None
    first_ms: int | None
    last_ms: int | None

    def applied(self, whole: Audit) -> Audit:
        """Give the holdings and findings that are asked for."""
        holdings = [one for one in whole.holdings if self._places(whole, one) and self._holds(one)]
        findings = [one for one in whole.findings if self._places(whole, one) and self._covers(one.time_ms)]
        return msgspec.structs.replace(whole, holdings=tuple(holdings), findings=tuple(findings))

    def unknown(self, whole: Audit) -> str | None:
        """Say of what that is asked for no record speaks, with names that are near; None if of none."""
        known = whole.known
        domains = {*known.domains, *(one for name in whole.names.values() for one in _names(name))}
        asked = (("node", self.node, known.nodes), ("clique", self.clique, known.cliques))
        for kind, name, names in (*asked, ("domain", self.domain, domains)):
            if name is not None and name not in names:
                return f"no record of the log speaks of {kind} {name!r}{_near(name, names)}"
        return None

    def _places(self, whole: Audit, one: Holding | Finding) -> bool:
        """Say whether it is of what is asked for. A gap concerns whatever it does not exclude."""
        names = {one.domain, *_names(whole.names.get(one.domain, ""))}
        is_gap = isinstance(one, Finding) and one.code == VisibilityGap.code
        return (
            (self.node is None or one.node == self.node or (is_gap and not one.node))
            and (self.clique is None or one.clique == self.clique or (is_gap and not one.clique))
            and (self.index is None or one.index == self.index or (is_gap and one.index is None))
            and (self.domain is None or self.domain in names or (is_gap and not one.domain))
        )

    def _holds(self, one: Holding) -> bool:
        begun = self.last_ms is None or one.begin.time_ms <= self.last_ms
        return begun and (self.first_ms is None or one.end is None or one.end.time_ms > self.first_ms)

    def _covers(self, time_ms: int) -> bool:
        after = self.first_ms is None or self.first_ms <= time_ms
        return after and (self.last_ms is None or time_ms <= self.last_ms)


def _names(name: str) -> tuple[str, ...]:
    """Give the ways in which people name the domain of this `namespace/name`."""
    return (name, name.partition("/")[2]) if name else ()


def _near(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, known)
    return f"; near it: {', '.join(map(repr, near))}" if near else ""


class Mentioned:
    """Collects all that the records of a history speak of."""

    def __init__(self) -> None:
        """Know of nothing."""
        self._nodes: set[str] = set()
        self._keys: set[str] = set()
        self._domains: set[str] = set()

    def take(self, change: Change) -> None:
        """Take in what the record names."""
        self._keys.add(change.key)
        self._nodes.update(nodes_of(change.event))
        self._domains.add(getattr(change.event, "domain", ""))

    def known(self) -> Known:
        """Give all that was named."""
        domains = {*self._domains, *filter(is_domain, self._keys)}
        nobody = {""}
        return Known(
            frozenset(self._nodes - nobody), frozenset(filter(is_clique, self._keys)), frozenset(domains - nobody)
        )


async def audit(log: EventLog) -> Audit:
    """Read the whole log, up to the ends that it has now. Raises LogError."""
    followed, gaps, applied, mentioned = Holdings(), Gaps(), rules(), Mentioned()
    holdings: list[Holding] = []
    findings: list[Finding] = []
    names: dict[str, str] = {}
    begin_ms, end_ms, records = 0, 0, 0
    for partition in range(log.partitions):
        async for change in changes(log, partition):
            records += 1
            begin_ms, end_ms = min(begin_ms or change.time_ms, change.time_ms), max(end_ms, change.time_ms)
            holdings.extend(followed.take(change))
            gaps.take(change)
            mentioned.take(change)
            for rule in applied:
                findings.extend(rule.take(change))
            if isinstance(change.event, DomainSeen) and change.event.name:
                names[change.event.uid] = f"{change.event.namespace}/{change.event.name}"
    holdings.extend(followed.lasting())
    holdings = gaps.marked(holdings)
    for rule in applied:
        findings.extend(rule.end(holdings, end_ms))
    by_place, by_time = sorted(holdings, key=_place), sorted(findings, key=_time)
    return Audit(records, begin_ms, end_ms, names, mentioned.known(), tuple(by_place), tuple(by_time))


async def changes(log: EventLog, partition: int) -> AsyncIterator[Change]:
    """Give each record of a partition with what it made of its aggregate; of none that is no event. Raises LogError.

    Of two clique objects side by side the first one counts (`projections.audit.twins`).
    """
    fold = PartitionFold(await log.beginning_offset(partition))
    end = await log.end_offset(partition)
    async for records in batches(log, partition, fold.next_offset, end, limit=BATCH):
        for record in records:
            before = fold.aggregates.get(record.key)
            event = fold.apply(record)
            if event is not None and not isinstance(event, UndecodableRecord):
                if before is not None and is_twin(before, event):
                    fold.aggregates[record.key] = before
                position = Position(partition, record.offset)
                yield change_of(position, record.timestamp_ms, record.key, event, before, fold.aggregates[record.key])


def _place(one: Holding) -> tuple[str, str, int, int, Position]:
    return (one.clique, one.domain, one.index, one.begin.time_ms, one.begin.position)


def _time(one: Finding) -> tuple[int, str, str, str, Position]:
    return (one.time_ms, one.code, one.clique, one.node, one.records[0].position)

"""What the report shows, as values: made from an audit, a timeline and the records that they name.

Pure, so that it can be tested without a browser. What grows with the history is bounded here, and what is left out
is counted, so that the page can say so.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from itertools import groupby

import msgspec

from controller.auditing import Audit
from controller.reporting.records import RecordView
from eventlog.record import Position
from projections.audit.finding import Finding, Rule, Severity
from projections.audit.findings import rules
from projections.audit.holdings import Holding
from projections.audit.moves import Move, moves
from projections.audit.timeline import Level, Tally, Timeline, Writes

FINDINGS_MAX = 300
"""Findings of one code that are listed; `cliquelog audit` has them all."""
RECORDS_MAX = 20_000
"""Records that can be looked at in the page."""


class FindingView(msgspec.Struct, frozen=True):
    """A finding in the page; `clique` is the number of its section, None where it is about none."""

    finding: Finding
    section: int | None


class FindingGroup(msgspec.Struct, frozen=True):
    """The findings of one code: `count` of them, of which some may not be listed."""

    code: str
    severity: Severity
    title: str
    advice: str
    count: int
    listed: list[FindingView]


class MoveView(msgspec.Struct, frozen=True):
    """A node that had one index and then another."""

    move: Move
    section: int


class HoldingView(msgspec.Struct, frozen=True):
    """A holding in the page: `end_ms` and `end` are None while it lasts, `inferred` is empty if it was observed."""

    node: str
    index: int
    begin_ms: int
    end_ms: int | None
    begin: str
    end: str | None
    cause: str
    end_cause: str
    inferred: str


class Mark(msgspec.Struct, frozen=True):
    """A finding in the chart of its clique."""

    time_ms: int
    code: str
    severity: Severity
    node: str
    index: int | None


class CliqueView(msgspec.Struct, frozen=True):
    """The section of one domain in one clique. `moved` are the nodes that had more than one index.

    `steps` are the writes by step: number of the step, accepted, conflicts, throttled, refused otherwise.
    """

    number: int
    clique: str
    domain: str
    domain_name: str
    level: Level
    writes: Writes
    formed_after_ms: int | None
    moved: list[str]
    errors: int
    warnings: int
    holdings: list[HoldingView]
    marks: list[Mark]
    steps: list[tuple[int, int, int, int, int]]


class Steps(msgspec.Struct, frozen=True):
    """The history in steps of one width: levels at the end of each, and the writes within it."""

    begin_ms: int
    width_ms: int
    levels: list[Level]
    writes: list[Writes]


class Data(msgspec.Struct, frozen=True):
    """What the page's script draws; the records by their position."""

    records: int
    begin_ms: int
    end_ms: int
    steps: Steps
    cliques: list[CliqueView]
    views: dict[str, RecordView]


class Page(msgspec.Struct, frozen=True):
    """All that the page shows. `log` is the place of the log as the user named it."""

    log: str
    level: Level
    writes: Writes
    formed_after_ms: int | None
    groups: list[FindingGroup]
    moves: list[MoveView]
    data: Data
    views_left_out: int


def wanted(audit: Audit) -> tuple[set[Position], int]:
    """Give the records that the page links to, at most RECORDS_MAX, and how many were left out.

    Those that show findings and moves come first.
    """
    first = [record.position for finding in audit.findings for record in finding.records]
    for move in moves(audit.holdings):
        first += _positions(move.ended) + _positions(move.begun)
    rest = [position for one in audit.holdings for position in _positions(one)]
    every = list(dict.fromkeys(first + rest))
    return set(every[:RECORDS_MAX]), max(len(every) - RECORDS_MAX, 0)


def _positions(one: Holding) -> list[Position]:
    return [one.begin.position] + ([one.end.position] if one.end is not None else [])


def page(log: str, audit: Audit, timeline: Timeline, views: Collection[RecordView], views_left_out: int) -> Page:
    """Give what the page shows."""
    moved = moves(audit.holdings)
    cliques = _cliques(audit, timeline, moved)
    sections = {(one.clique, one.domain): one.number for one in cliques}
    by_clique: dict[str, int] = {}
    for one in cliques:
        by_clique.setdefault(one.clique, one.number)
    levels, writes = timeline.levels(), timeline.writes()
    formed = [tally.formed_ms for tally in timeline.tallies.values() if tally.formed_ms is not None]
    return Page(
        log,
        levels[-1],
        _total(writes),
        max(formed) - audit.begin_ms if formed else None,
        _groups(audit.findings, sections, by_clique),
        [MoveView(one, sections[one.begun.clique, one.begun.domain]) for one in moved],
        Data(
            audit.records,
            audit.begin_ms,
            audit.end_ms,
            Steps(timeline.begin_ms, timeline.width_ms, levels, writes),
            cliques,
            {view.position: view for view in views},
        ),
        views_left_out,
    )


def _groups(
    findings: Sequence[Finding], sections: dict[tuple[str, str], int], by_clique: dict[str, int]
) -> list[FindingGroup]:
    """Give the findings by code, in the order of the rules: worst first."""
    by_code: defaultdict[str, list[Finding]] = defaultdict(list)
    for one in findings:
        by_code[one.code].append(one)
    return [_group(rule, by_code[rule.code], sections, by_clique) for rule in rules() if rule.code in by_code]


def _group(
    rule: Rule, found: Sequence[Finding], sections: dict[tuple[str, str], int], by_clique: dict[str, int]
) -> FindingGroup:
    listed = [
        FindingView(one, sections.get((one.clique, one.domain), by_clique.get(one.clique)))
        for one in found[:FINDINGS_MAX]
    ]
    return FindingGroup(rule.code, rule.severity, rule.title, rule.advice, len(found), listed)


def _cliques(audit: Audit, timeline: Timeline, moved: Sequence[Move]) -> list[CliqueView]:
    """Give the sections, those with findings first, then by clique and domain."""
    holdings = {place: list(group) for place, group in groupby(audit.holdings, key=_place)}
    findings: defaultdict[tuple[str, str], list[Finding]] = defaultdict(list)
    for one in audit.findings:
        findings[one.clique, one.domain].append(one)
    movers: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for move in moved:
        movers[_place(move.begun)].add(move.begun.node)
    order = {place: Counter(one.severity for one in found) for place, found in findings.items()}

    def worst_first(place: tuple[str, str]) -> tuple[int, int, int, tuple[str, str]]:
        count = order.get(place, Counter())
        return (-count["error"], -len(movers.get(place, ())), -count["warning"], place)

    places = sorted(holdings.keys() | timeline.tallies.keys(), key=worst_first)
    return [
        _clique(number, place, audit, timeline.tallies.get(place), holdings.get(place, []), findings[place])
        for number, place in enumerate(places)
    ]


def _place(one: Holding) -> tuple[str, str]:
    return (one.clique, one.domain)


def _clique(
    number: int,
    place: tuple[str, str],
    audit: Audit,
    tally: Tally | None,
    holdings: Sequence[Holding],
    findings: Sequence[Finding],
) -> CliqueView:
    clique, domain = place
    tally = tally or Tally(Level(), Writes(), {})
    indices: defaultdict[str, set[int]] = defaultdict(set)
    for one in holdings:
        indices[one.node].add(one.index)
    is_formed = tally.first_ms is not None and tally.formed_ms is not None
    return CliqueView(
        number,
        clique,
        domain,
        audit.names.get(domain, ""),
        tally.level,
        tally.writes,
        (tally.formed_ms or 0) - (tally.first_ms or 0) if is_formed else None,
        sorted(node for node, held in indices.items() if len(held) > 1),
        sum(one.severity == "error" for one in findings),
        sum(one.severity == "warning" for one in findings),
        [_holding(one) for one in holdings],
        [Mark(one.time_ms, one.code, one.severity, one.node, one.index) for one in findings],
        [(step, *msgspec.structs.astuple(writes)) for step, writes in sorted(tally.steps.items())],
    )


def _holding(one: Holding) -> HoldingView:
    end = one.end
    return HoldingView(
        one.node,
        one.index,
        one.begin.time_ms,
        end.time_ms if end else None,
        str(one.begin.position),
        str(end.position) if end else None,
        one.begin.cause,
        end.cause if end else "",
        "; ".join(one.inferred),
    )


def _total(steps: Sequence[Writes]) -> Writes:
    return Writes(
        sum(one.accepted for one in steps),
        sum(one.conflicts for one in steps),
        sum(one.throttled for one in steps),
        sum(one.refused for one in steps),
    )

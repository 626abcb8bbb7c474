"""Makes what the report shows from an audit, a timeline and the records that they name.

Pure, so that it can be tested without a browser. What grows with the history is bounded here, and what is left out
is counted, so that the page can say so: it is to open in a browser whatever somebody logged.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

import msgspec

from controller.history.auditing import Audit
from controller.reporting.model import (
    CliqueView,
    Data,
    FindingGroup,
    FindingView,
    HoldingView,
    Mark,
    MoveView,
    Page,
    Steps,
)
from eventlog.record import Position
from projections.audit.finding import Finding, Rule
from projections.audit.findings import rules
from projections.audit.holdings import Holding
from projections.audit.moves import Move, moves
from projections.audit.timeline import Level, Tally, Timeline, Writes

FINDINGS_MAX = 300
"""Findings of one code, or marks of one clique, that are shown; `cliquelog audit` has them all."""
MOVES_MAX = 300
"""Moves that are listed."""
CLIQUES_MAX = 3_000
"""Sections: 54,000 nodes of GB200 or GB300."""
HOLDINGS_MAX = 1_000
"""Holdings of one clique that are shown, the newest."""
RECORDS_MAX = 20_000
"""Records that can be looked at in the page."""


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


def page(log: str, audit: Audit, timeline: Timeline, views: dict[str, msgspec.Raw], views_left_out: int) -> Page:
    """Give what the page shows; `views` are the records, each encoded (`controller.reporting.records`), by position."""
    moved = moves(audit.holdings)
    places = _places(audit, timeline, moved)
    cliques = _cliques(places[:CLIQUES_MAX], audit, timeline)
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
        [MoveView(one, sections.get(_place(one.begun))) for one in moved[:MOVES_MAX]],
        len(moved),
        Data(
            audit.records,
            audit.begin_ms,
            audit.end_ms,
            Steps(timeline.begin_ms, timeline.width_ms, levels, writes),
            cliques,
            views,
        ),
        views_left_out,
        max(len(places) - CLIQUES_MAX, 0),
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


def _places(audit: Audit, timeline: Timeline, moved: Sequence[Move]) -> list[tuple[str, str]]:
    """Give clique and domain of each section: those with errors first, then moves, warnings, and the rest by name."""
    count: Counter[tuple[str, str, str]] = Counter((one.clique, one.domain, one.severity) for one in audit.findings)
    count.update((one.begun.clique, one.begun.domain, "move") for one in moved)

    def worst_first(place: tuple[str, str]) -> tuple[int, int, int, tuple[str, str]]:
        return (-count[*place, "error"], -count[*place, "move"], -count[*place, "warning"], place)

    return sorted({_place(one) for one in audit.holdings} | timeline.tallies.keys(), key=worst_first)


def _cliques(places: Sequence[tuple[str, str]], audit: Audit, timeline: Timeline) -> list[CliqueView]:
    holdings: defaultdict[tuple[str, str], list[Holding]] = defaultdict(list)
    for one in audit.holdings:
        holdings[_place(one)].append(one)
    findings: defaultdict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in audit.findings:
        findings[finding.clique, finding.domain].append(finding)
    return [
        _clique(number, place, audit.names, timeline.tallies.get(place), holdings[place], findings[place])
        for number, place in enumerate(places)
    ]


def _place(one: Holding) -> tuple[str, str]:
    return (one.clique, one.domain)


def _clique(
    number: int,
    place: tuple[str, str],
    names: dict[str, str],
    tally: Tally | None,
    holdings: Sequence[Holding],
    findings: Sequence[Finding],
) -> CliqueView:
    clique, domain = place
    tally = tally or Tally(Level(), Writes(), {})
    indices: defaultdict[str, set[int]] = defaultdict(set)
    for one in holdings:
        indices[one.node].add(one.index)
    newest = sorted(holdings, key=lambda one: one.begin.time_ms)[-HOLDINGS_MAX:]
    is_formed = tally.first_ms is not None and tally.formed_ms is not None
    return CliqueView(
        number,
        clique,
        domain,
        names.get(domain, ""),
        tally.level,
        tally.writes,
        (tally.formed_ms or 0) - (tally.first_ms or 0) if is_formed else None,
        sorted(node for node, held in indices.items() if len(held) > 1),
        sum(one.severity == "error" for one in findings),
        sum(one.severity == "warning" for one in findings),
        [_holding(one) for one in sorted(newest, key=lambda one: (one.index, one.begin.time_ms, one.begin.position))],
        len(holdings) - len(newest),
        [Mark(one.time_ms, one.code, one.severity, one.node, one.index) for one in findings[:FINDINGS_MAX]],
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

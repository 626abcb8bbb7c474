"""Two ComputeDomains were active in one clique at one time: two IMEX ensembles on one partition (failure case A21)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from projections.audit.finding import Finding, Rule, evidence_at, seconds
from projections.audit.holdings import Holding


class _Span(msgspec.Struct):
    """From when to when a domain held indices without a break, and its first holding there."""

    domain: str
    begin_ms: int
    until_ms: int
    first: Holding


class _Overlap(msgspec.Struct):
    """How long two domains were there together, and the spans with which it began."""

    overlap_ms: int
    older: _Span
    newer: _Span


class DomainsOverlap(Rule):
    """Compares the times in which domains held indices of a clique."""

    code = "domains-overlap"
    severity = "warning"
    title = "Two domains were active in one clique at one time"
    advice = "Place jobs so that an NVLink partition serves one domain, or see that their nodes do not mix."

    def end(self, holdings: Sequence[Holding], end_ms: int) -> Iterator[Finding]:
        """Give each pair of domains, with the time that both were there."""
        in_clique: defaultdict[str, list[Holding]] = defaultdict(list)
        for one in holdings:
            in_clique[one.clique].append(one)
        for clique, held in sorted(in_clique.items()):
            certain = _overlaps([one for one in held if not one.inferred], end_ms)
            for pair, found in _overlaps(held, end_ms).items():
                yield self._finding(clique, found, is_certain=pair in certain)

    def _finding(self, clique: str, found: _Overlap, *, is_certain: bool) -> Finding:
        older, newer = found.older, found.newer
        message = (
            f"domains {older.domain} and {newer.domain} were both active in the clique for {seconds(found.overlap_ms)}"
        )
        reasons = "" if is_certain else "; ".join(dict.fromkeys((*older.first.inferred, *newer.first.inferred)))
        return Finding(
            self.code,
            self.severity,
            message,
            newer.begin_ms,
            (evidence_at(older.first.begin), evidence_at(newer.first.begin)),
            clique,
            newer.domain,
            newer.first.node,
            inferred=reasons or ("" if is_certain else "what was observed alone does not show it"),
        )


def _overlaps(holdings: Iterable[Holding], end_ms: int) -> dict[tuple[str, str], _Overlap]:
    """Give the pairs of domains that held indices at one time; only spans that last are compared with a new one."""
    found: dict[tuple[str, str], _Overlap] = {}
    lasting: list[_Span] = []
    for newer in _spans(holdings, end_ms):
        lasting = [one for one in lasting if one.until_ms > newer.begin_ms]
        for older in lasting:
            pair = (min(older.domain, newer.domain), max(older.domain, newer.domain))
            overlap = found.setdefault(pair, _Overlap(0, older, newer))
            overlap.overlap_ms += min(older.until_ms, newer.until_ms, end_ms) - newer.begin_ms
        lasting.append(newer)
    return found


def _spans(holdings: Iterable[Holding], end_ms: int) -> list[_Span]:
    """Give the spans by their begin; those of one domain do not touch each other."""
    spans: list[_Span] = []
    newest: dict[str, _Span] = {}
    for one in sorted(holdings, key=lambda held: (held.begin.time_ms, held.begin.position)):
        until = one.end.time_ms if one.end else end_ms + 1
        span = newest.get(one.domain)
        if span is not None and one.begin.time_ms <= span.until_ms:
            span.until_ms = max(span.until_ms, until)
        else:
            newest[one.domain] = span = _Span(one.domain, one.begin.time_ms, until, one)
            spans.append(span)
    return spans

"""Two ComputeDomains were active in one clique at one time: two IMEX ensembles on one partition (failure case A21)."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from projections.audit.finding import Finding, Rule, evidence_at, seconds
from projections.audit.holdings import Holding

Span = tuple[int, int, Holding]
"""From when to when a domain was active, and its first holding there."""


class DomainsOverlap(Rule):
    """Compares the times between a domain's first and last holding in each clique."""

    code = "domains-overlap"
    severity = "warning"
    title = "Two domains were active in one clique at one time"
    advice = "Place jobs so that an NVLink partition serves one domain, or see that their nodes do not mix."

    def end(self, holdings: Sequence[Holding], end_ms: int) -> Iterator[Finding]:
        """Give each pair of domains, with the time that both were there."""
        active: defaultdict[str, dict[str, Span]] = defaultdict(dict)
        for one in sorted(holdings, key=lambda held: held.begin.time_ms):
            until = one.end.time_ms if one.end else end_ms + 1
            begin, last, first = active[one.clique].get(one.domain, (one.begin.time_ms, until, one))
            active[one.clique][one.domain] = (begin, max(last, until), first)
        for clique, domains in sorted(active.items()):
            yield from self._pairs(clique, sorted(domains.items(), key=lambda item: (item[1][0], item[0])))

    def _pairs(self, clique: str, domains: Sequence[tuple[str, Span]]) -> Iterator[Finding]:
        for number, (domain, (_, last, held)) in enumerate(domains):
            for other, (begin, until, newer) in domains[number + 1 :]:
                if begin < last:
                    overlap = seconds(min(last, until) - begin)
                    message = f"domains {domain} and {other} were both active in the clique for {overlap}"
                    records = (evidence_at(held.begin), evidence_at(newer.begin))
                    yield Finding(self.code, self.severity, message, begin, records, clique, other, newer.node)

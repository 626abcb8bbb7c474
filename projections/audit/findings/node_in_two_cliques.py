"""A node had rows in two cliques at one time: a machine is in one NVLink partition."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from projections.audit.finding import Finding, Rule, evidence_at
from projections.audit.holdings import Holding, Moment


class NodeInTwoCliques(Rule):
    """Compares the holdings of each node."""

    code = "node-in-two-cliques"
    severity = "error"
    title = "A node had rows in two cliques at one time"
    advice = "The clique label of the node or its daemon was wrong, or a row was left behind: see who wrote each."

    def end(self, holdings: Sequence[Holding], end_ms: int) -> Iterator[Finding]:
        """Give each node whose holding begins before one in another clique ends."""
        of_node: defaultdict[str, list[Holding]] = defaultdict(list)
        for one in holdings:
            of_node[one.node].append(one)
        for node, held in sorted(of_node.items()):
            for one, other in _together(held, end_ms):
                message = f"node {node} has index {other.index} here, and index {one.index} in clique {one.clique}"
                records = (evidence_at(one.begin), evidence_at(other.begin))
                reasons = (*one.inferred, *other.inferred)
                yield Finding(
                    self.code,
                    self.severity,
                    message,
                    other.begin.time_ms,
                    records,
                    other.clique,
                    other.domain,
                    node,
                    other.index,
                    "; ".join(reasons),
                )


def _together(holdings: Iterable[Holding], end_ms: int) -> Iterator[tuple[Holding, Holding]]:
    """Give pairs of holdings in two cliques that overlap; of one that lasts only the first with each other clique."""
    longest: dict[str, tuple[int, Holding]] = {}
    told: set[tuple[Moment, str]] = set()
    for other in sorted(holdings, key=lambda holding: (holding.begin.time_ms, holding.clique)):
        for clique, (until, one) in longest.items():
            pair = (one.begin, other.clique)
            if clique != other.clique and other.begin.time_ms < until and pair not in told:
                told.add(pair)
                yield one, other
        until = other.end.time_ms if other.end else end_ms + 1
        if until > longest.get(other.clique, (0, other))[0]:
            longest[other.clique] = (until, other)

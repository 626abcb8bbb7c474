"""A node had rows in two cliques at one time: a machine is in one NVLink partition."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from projections.audit.finding import Finding, Rule, evidence_at
from projections.audit.holdings import Holding


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
            for one, other in pairwise(sorted(held, key=lambda holding: (holding.begin.time_ms, holding.clique))):
                until = one.end.time_ms if one.end else end_ms + 1
                if one.clique != other.clique and other.begin.time_ms < until:
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

"""Two rows of one CDC name one index: two daemons take one IMEX node ID (failure case A4)."""

from collections import defaultdict
from collections.abc import Iterator

from projections.audit.change import Change
from projections.audit.finding import Finding, Rule


class IndexHeldTwice(Rule):
    """Looks at the indices of a CDC whenever its rows change."""

    code = "index-held-twice"
    severity = "error"
    title = "Two rows of a clique name one index"
    advice = "Two daemons run with one IMEX node ID: take one of the rows out, and restart its daemon."

    def take(self, change: Change) -> Iterator[Finding]:
        """Give each index that has become shared, with one of the nodes that this record gave it to."""
        state = change.clique
        came = {row.node for row in change.rows if row.after is not None and _index(row.before) != _index(row.after)}
        if not came or state is None:
            return
        domain = change.rows[0].domain
        membership = state.domains.get(domain)
        holders: defaultdict[int, list[str]] = defaultdict(list)
        for row in membership.cdc.rows.values() if membership is not None and membership.cdc is not None else ():
            if row.index is not None:
                holders[row.index].append(row.node)
        for index, nodes in sorted(holders.items()):
            newest = sorted(came.intersection(nodes))
            if len(nodes) > 1 and newest:
                message = f"index {index} is held by {len(nodes)} nodes: {', '.join(sorted(nodes))}"
                yield self.finding(change, message, domain=domain, node=newest[0], index=index)


def _index(row: object) -> object:
    return getattr(row, "index", None)

"""A row names an index that no nodes file has, or none at all (failure case A61)."""

from collections.abc import Iterator

from projections.audit.change import Change
from projections.audit.finding import Finding, Rule

LARGEST = 18
"""Most daemons of one clique on GB200 and GB300, where no DaemonSet states another number."""


class IndexOutOfRange(Rule):
    """Looks at the index of each row that changes."""

    code = "index-out-of-range"
    severity = "error"
    title = "A row names an index that is out of range, or none"
    advice = "Its daemon has no name in the nodes file of the others: see who wrote the row."

    def take(self, change: Change) -> Iterator[Finding]:
        """See whether a row has become so."""
        for row in change.rows:
            if row.after is None or (row.before is not None and row.before.index == row.after.index):
                continue
            index, capacity = row.after.index, _capacity(change, row.domain)
            if index is None:
                yield self.finding(change, f"the row of node {row.node} has no index", domain=row.domain, node=row.node)
            elif not 0 <= index < capacity:
                message = f"the row of node {row.node} has index {index}, outside 0 to {capacity - 1}"
                yield self.finding(change, message, domain=row.domain, node=row.node, index=index)


def _capacity(change: Change, domain: str) -> int:
    membership = change.clique.domains.get(domain) if change.clique is not None else None
    daemon_set = membership.daemon_set if membership is not None else None
    return (daemon_set.capacity if daemon_set is not None else 0) or LARGEST

"""A row is Ready and has no address: peers cannot reach the daemon that it promises."""

from collections.abc import Iterator

from projections.audit.change import Change
from projections.audit.finding import Finding, Rule


class ReadyWithoutAddress(Rule):
    """Looks at each row that changes."""

    code = "ready-without-address"
    severity = "error"
    title = "A row is Ready without an address"
    advice = "The workload of that node may start while no peer can reach its daemon: see who wrote the row."

    def take(self, change: Change) -> Iterator[Finding]:
        """See whether a row has become so."""
        for row in change.rows:
            is_so = row.after is not None and row.after.status == "Ready" and not row.after.ip
            was_so = row.before is not None and row.before.status == "Ready" and not row.before.ip
            if is_so and not was_so:
                by = f" (written by {change.writer})" if change.writer else ""
                message = f"the row of node {row.node} is Ready and has no address{by}"
                yield self.finding(change, message, domain=row.domain, node=row.node)

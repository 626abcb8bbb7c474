"""A clique was full, and a node had to wait for a slot (failure case A18)."""

from collections.abc import Iterator

from projections.audit.change import Change
from projections.audit.finding import Finding, Rule, counted
from projections.clique import CliqueState, Membership


class CliqueFull(Rule):
    """Sees nodes join the line: by a decision of ours, or as the CDC names them."""

    code = "clique-full"
    severity = "warning"
    title = "A clique was full and a node had to wait"
    advice = "More nodes carry the domain's label than the partition has indices: take one out, or raise the capacity."

    def take(self, change: Change) -> Iterator[Finding]:
        """Give each node that has begun to wait."""
        after = change.clique
        if after is None:
            return
        before = change.before.domains if isinstance(change.before, CliqueState) else {}
        if before is after.domains:
            return
        for domain in change.domains:
            membership, old = after.domains.get(domain), before.get(domain)
            if membership is not None and old is not membership:
                for node in sorted(_waiting(membership) - (_waiting(old) if old else set())):
                    held = sum(held.active for held in membership.holdings.values())
                    rows = len(membership.cdc.rows) if membership.cdc else 0
                    taken = counted(max(held, rows), "node")
                    message = f"node {node} waits for an index, and the clique's are held by {taken}"
                    yield self.finding(change, message, domain=domain, node=node)


def _waiting(membership: Membership) -> set[str]:
    named = membership.cdc.waiting if membership.cdc is not None else ()
    return {*membership.waiting, *named}

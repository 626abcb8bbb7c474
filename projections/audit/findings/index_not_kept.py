"""A node came back with another index than it had: rule 5 keeps it, negotiation among daemons does not."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from projections.audit.change import Change
from projections.audit.finding import Evidence, Finding, Rule, evidence
from projections.audit.findings.index_changed import is_another_life

if TYPE_CHECKING:
    from eventlog.events import Row


class IndexNotKept(Rule):
    """Follows the last row of each node; one of another address is of a daemon in a new life.

    So is one of the same address, if the pod that had it before is known to have gone.
    """

    code = "index-not-kept"
    severity = "warning"
    title = "A node came back with another index than it had before"
    advice = "Jobs that were started with the old index must not go on; a controller that remembers indices keeps them."

    def __init__(self) -> None:
        """Know of no row."""
        self._last: dict[tuple[str, str, str], tuple[Row, Evidence]] = {}

    def take(self, change: Change) -> Iterator[Finding]:
        """Compare each row with the node's last one."""
        for row in change.rows:
            place = (change.key, row.domain, row.node)
            if row.version is None:
                self._last.pop(place, None)
            elif row.after is not None and row.after.index is not None:
                now, last = row.after, self._last.get(place)
                if (
                    last is not None
                    and last[0].ip
                    and last[0].index != now.index
                    and (last[0].ip != now.ip or is_another_life(change, row, now))
                ):
                    message = f"node {row.node} came back with index {now.index}, and had {last[0].index} before"
                    yield self.finding(
                        change, message, domain=row.domain, node=row.node, index=now.index, also=(last[1],)
                    )
                self._last[place] = (now, evidence(change))

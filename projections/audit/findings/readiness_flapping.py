"""A row's readiness went back and forth."""

from collections.abc import Iterator

from projections.audit.change import Change
from projections.audit.finding import Evidence, Finding, Rule, evidence, seconds

LEAST = 4
"""Changes of readiness from which on it flaps: two restarts of a daemon."""
WINDOW_MS = 60_000


class ReadinessFlapping(Rule):
    """Follows the changes of each row's status."""

    code = "readiness-flapping"
    severity = "warning"
    title = "A row's readiness went back and forth"
    advice = "The daemon restarts or its probe is at its limit: look at the daemon's log on that node."

    def __init__(self) -> None:
        """Know of no change."""
        self._changes: dict[tuple[str, str, str], list[tuple[int, Evidence]]] = {}

    def take(self, change: Change) -> Iterator[Finding]:
        """Give the node once its readiness has changed so often within the window, and then count anew."""
        for row in change.rows:
            place = (change.key, row.domain, row.node)
            if row.after is None:
                self._changes.pop(place, None)
            elif row.before is not None and row.before.status != row.after.status:
                recent = [one for one in self._changes.get(place, []) if one[0] > change.time_ms - WINDOW_MS]
                recent.append((change.time_ms, evidence(change)))
                self._changes[place] = recent
                if len(recent) >= LEAST:
                    span = seconds(change.time_ms - recent[0][0])
                    message = f"the readiness of node {row.node} changed {len(recent)} times within {span}"
                    also = tuple(one for _, one in recent[:-1])
                    del self._changes[place]
                    yield self.finding(change, message, domain=row.domain, node=row.node, also=also)

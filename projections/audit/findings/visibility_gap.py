"""A gap in visibility: what happened there is not in the history (rule 12)."""

from collections.abc import Iterator

from eventlog.events import WatchGap
from projections.audit.change import Change
from projections.audit.finding import Finding, Rule


class VisibilityGap(Rule):
    """Gives each mark that says so, and each CDC version before which another one is missing."""

    code = "visibility-gap"
    severity = "info"
    title = "The history has a gap"
    advice = "What lies in the gap is inferred at best: look for the missing file, or for a second source."

    def take(self, change: Change) -> Iterator[Finding]:
        """See whether the record marks a gap."""
        if isinstance(change.event, WatchGap):
            yield self.finding(change, f"{change.event.resource}: {change.event.cause}")
        elif change.clique is not None and change.rows and change.inferred:
            yield self.finding(change, f"rows changed, but {change.inferred}", domain=change.rows[0].domain)

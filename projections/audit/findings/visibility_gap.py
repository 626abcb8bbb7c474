"""A gap in visibility: what happened there is not in the history (rule 12)."""

from collections.abc import Iterator, Sequence

from eventlog.events import CdcGone, CdcSeen, ImportCompleted, WatchGap
from projections.audit.change import Change
from projections.audit.finding import Evidence, Finding, Rule, evidence
from projections.audit.holdings import Holding


class VisibilityGap(Rule):
    """Gives each mark that says so, each CDC version before which one is missing, and an import that broke off."""

    code = "visibility-gap"
    severity = "info"
    title = "The history has a gap"
    advice = "What lies in the gap is inferred at best: look for the missing file, or for a second source."

    def __init__(self) -> None:
        """Know of no import."""
        self._imported: Evidence | None = None
        self._is_complete = False

    def take(self, change: Change) -> Iterator[Finding]:
        """See whether the record marks a gap."""
        if self._imported is None and change.source:
            self._imported = evidence(change)
        self._is_complete = self._is_complete or isinstance(change.event, ImportCompleted)
        if isinstance(change.event, WatchGap):
            yield self.finding(change, f"{change.event.resource}: {change.event.cause}")
        elif isinstance(change.event, CdcSeen | CdcGone) and change.clique is not None and change.inferred:
            what = "rows changed, but" if change.rows else "no row is another than before, but"
            yield self.finding(change, f"{what} {change.inferred}", domain=change.event.domain)

    def end(self, holdings: Sequence[Holding], end_ms: int) -> Iterator[Finding]:
        """Give an import that broke off."""
        del holdings
        if self._imported is not None and not self._is_complete:
            message = "the import broke off: what its inputs told last is not in the log"
            yield Finding(self.code, self.severity, message, end_ms, (self._imported,))

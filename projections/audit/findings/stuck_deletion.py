"""A ComputeDomain was being deleted for long (failure cases A48, A51, A52)."""

from collections.abc import Iterator, Sequence

from eventlog.events import DomainGone, DomainSeen
from projections.audit.change import Change
from projections.audit.finding import Evidence, Finding, Rule, evidence, seconds
from projections.audit.holdings import Holding

LEAST_MS = 5 * 60_000
"""A deletion takes seconds; after this long something holds it back."""
NO_LATER_WORD = "the history has no later word of the domain, so its end may be missing"


class StuckDeletion(Rule):
    """Follows each domain from the record that first shows its deletion to the one that shows it gone."""

    code = "stuck-deletion"
    severity = "warning"
    title = "A domain's deletion took long, or was not done"
    advice = "Look at the finalizers that are named, and at who is to take them off."

    def __init__(self) -> None:
        """Know of no deletion."""
        self._going: dict[str, tuple[int, Evidence, tuple[str, ...]]] = {}

    def take(self, change: Change) -> Iterator[Finding]:
        """Follow the domain's own key."""
        event = change.event
        if isinstance(event, DomainSeen) and event.uid == change.key and event.terminating:
            begin_ms, first, _ = self._going.get(event.uid, (change.time_ms, evidence(change), ()))
            self._going[event.uid] = (begin_ms, first, event.finalizers)
        elif isinstance(event, DomainGone) and event.uid == change.key and event.uid in self._going:
            begin_ms, first, _ = self._going.pop(event.uid)
            took = change.time_ms - begin_ms
            if took >= LEAST_MS:
                message = f"the deletion of the domain took {seconds(took)}"
                yield self.finding(change, message, domain=event.uid, also=(first,))

    def end(self, holdings: Sequence[Holding], end_ms: int) -> Iterator[Finding]:
        """Give those that were not done when the history ended."""
        del holdings
        for domain, (begin_ms, first, finalizers) in sorted(self._going.items()):
            if end_ms - begin_ms >= LEAST_MS:
                held = f", held back by {', '.join(finalizers)}" if finalizers else ""
                message = f"the deletion of the domain was not done after {seconds(end_ms - begin_ms)}{held}"
                doubt = NO_LATER_WORD if first.source else ""  # Our own process watches on.
                yield Finding(self.code, self.severity, message, begin_ms, (first,), domain=domain, inferred=doubt)

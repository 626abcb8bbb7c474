"""A decision had no effect: whoever proposed it had folded less of the log than there was (rule 1)."""

from collections.abc import Iterator

from eventlog.events import IndexAdopted, IndexAssigned, IndexRefused, IndexReleased
from projections.audit.change import Change
from projections.audit.finding import Finding, Rule
from projections.clique import CliqueState
from projections.index import objection

DECISIONS = (IndexAdopted, IndexAssigned, IndexRefused, IndexReleased)


class DecisionWithoutEffect(Rule):
    """Asks the fold's own rule, in the state before the record."""

    code = "decision-without-effect"
    severity = "info"
    title = "A decision had no effect because the log had moved on"
    advice = "Now and then it is how two proposers get on with each other; many mean that one of them lags behind."

    def take(self, change: Change) -> Iterator[Finding]:
        """Give a decision that the fold counted and did not take."""
        event, after = change.event, change.clique
        if after is None or not isinstance(event, DECISIONS):
            return
        before = change.before if isinstance(change.before, CliqueState) else CliqueState()
        if after.inadmissible > before.inadmissible:
            what = type(event).__name__.removeprefix("Index").lower()
            index = None if isinstance(event, IndexRefused) else event.index
            named = f"index {index} for node {event.node}" if index is not None else f"an index for node {event.node}"
            message = f"{named} was {what} to no effect: {objection(before, event)}"
            yield self.finding(change, message, domain=event.domain, node=event.node, index=index)

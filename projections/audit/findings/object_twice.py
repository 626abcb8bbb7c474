"""Two clique objects of one domain in one clique, in two namespaces: who reads one of them knows half of the rows."""

from collections.abc import Iterator

from eventlog.events import CdcGone, CdcSeen
from projections.audit.change import Change
from projections.audit.finding import Evidence, Finding, Rule, evidence


class ObjectTwice(Rule):
    """Tells of each object that shows beside another one of its name that is not known to be gone."""

    code = "object-twice"
    severity = "warning"
    title = "A domain has a clique object in two namespaces"
    advice = "Delete the one that is not in the driver's namespace. Of an import, the audit follows the first one."

    def __init__(self) -> None:
        """Know of no object."""
        self._first: dict[tuple[str, str], tuple[CdcSeen, Evidence]] = {}
        self._told: set[str] = set()

    def take(self, change: Change) -> Iterator[Finding]:
        """See whether the record is of a second object."""
        event = change.event
        if not isinstance(event, CdcSeen | CdcGone) or change.clique is None:
            return
        place = (change.key, event.domain)
        first, shown_by = self._first.get(place, (None, None))
        if isinstance(event, CdcGone):
            if first is not None and first.uid == event.uid:
                del self._first[place]
        elif first is None or shown_by is None or (first.namespace == event.namespace and first.uid != event.uid):
            self._first[place] = event, evidence(change)
        elif first.uid != event.uid and event.uid not in self._told:
            self._told.add(event.uid)
            message = (
                f"the clique object {event.name} is in namespace {event.namespace}, and another one of its name, seen "
                f"before and not known to be gone, in {first.namespace}"
            )
            yield self.finding(change, message, domain=event.domain, also=(shown_by,))

"""Two clique objects of one domain in one clique, in two namespaces: who reads one of them knows half of the rows."""

from collections.abc import Iterator

from eventlog.events import CdcSeen
from projections.audit.change import Change
from projections.audit.finding import Evidence, Finding, Rule, evidence
from projections.audit.twins import is_twin


class ObjectTwice(Rule):
    """Tells of each object that shows beside another one of its name that is not known to be gone."""

    code = "object-twice"
    severity = "warning"
    title = "A domain has a clique object in two namespaces"
    advice = "Delete the one that is not in the driver's namespace; the audit follows the one that was seen first."

    def __init__(self) -> None:
        """Know of no object."""
        self._first: dict[tuple[str, str], tuple[str, Evidence]] = {}
        self._told: set[str] = set()

    def take(self, change: Change) -> Iterator[Finding]:
        """See whether the record is of a second object."""
        event = change.event
        if not isinstance(event, CdcSeen) or change.clique is None:
            return
        place = (change.key, event.domain)
        if not is_twin(change.before, event):
            if (known := self._first.get(place)) is None or known[0] != event.uid:
                self._first[place] = event.uid, evidence(change)
            return
        if event.uid in self._told or place not in self._first:
            return
        self._told.add(event.uid)
        first = change.clique.domains[event.domain].cdc
        namespace = first.namespace if first is not None else ""
        message = (
            f"the clique object {event.name} is in namespace {event.namespace}, and another one of its name, seen "
            f"before, in {namespace}: holdings are told by that one until it is deleted"
        )
        yield self.finding(change, message, domain=event.domain, also=(self._first[place][1],))

"""Clique objects of one name in two namespaces: in an imported history, an audit follows the one that was seen first.

Problem: a fold knows one clique object for a domain in a clique, the newest that it saw. Two that live side by side
take turns there, and each turn ends the holdings that the other shows, as if rows had gone. Invariant: while the first
is not known to be gone, what the other shows changes nothing in an audit; that it is there is a finding of its own.
Another UID in the same namespace is a successor: two objects of one name cannot live in one. In a log of our own the
fold is left as it is: the controller's decisions were made, and are admissible, with the turns that it saw.
"""

from eventlog.events import AnyEvent, CdcSeen
from projections.clique import CliqueState
from projections.fold import Aggregate


def is_twin(before: Aggregate | None, event: AnyEvent) -> bool:
    """Say whether an imported event is of a clique object beside the one that the state knows."""
    if not isinstance(event, CdcSeen) or event.provenance is None or not isinstance(before, CliqueState):
        return False
    membership = before.domains.get(event.domain)
    known = membership.cdc if membership is not None else None
    return known is not None and known.uid != event.uid and known.namespace != event.namespace

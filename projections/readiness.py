"""Readiness: what a node's row says of its daemon.

A row's address and status are facts about the node's own daemon pod, nothing else (rule 10). A row without an address
is for our own daemons only (rule 6): one of the upstream driver would enter it into its peers' hosts files.
"""

from msgspec.structs import replace

from eventlog.events import Row
from projections.clique import Membership, Pod, has_address, row_is_dead, row_is_evidence

READY = "Ready"
NOT_READY = "NotReady"


def row_for(membership: Membership, node: str, index: int, pod: Pod | None) -> Row | None:
    """Give the row that the node should have with this index and its `pod` that counts; None if none now."""
    if pod is not None and pod.reader:
        return Row(node, pod.ip, index, _status(pod))
    observed = membership.cdc.rows.get(node) if membership.cdc is not None else None
    if pod is None:
        return _row_without_pod(membership, node, index, observed)
    return _row_of_writer(membership, pod, Row(node, pod.ip, index, _status(pod)), observed)


def _status(pod: Pod) -> str:
    return READY if pod.ready and pod.ip and not pod.terminating else NOT_READY


def _row_without_pod(membership: Membership, node: str, index: int, observed: Row | None) -> Row | None:
    """Give the row of a member without a daemon that we know: by its label, or by the row itself.

    A row with an address stands until its daemon is known to be gone: the pod's events may be later than the CDC's
    (failure case A12), and absence is not deletion (rule 4).
    """
    if observed is not None and row_is_evidence(membership, node):
        return replace(observed, index=index)
    if membership.daemon_set is not None and membership.daemon_set.reader:
        return Row(node, "", index, NOT_READY)
    return None


def _row_of_writer(membership: Membership, pod: Pod, wanted: Row, observed: Row | None) -> Row | None:
    """Give the row of an upstream daemon, which writes it as well: never without an address, never back after it left.

    A row with an address that is no known pod's stands, unless it is known to be dead: the kubelet has not published
    the pod's address yet (failure case A14), or the row is of the pod's successor, whose events are later than the
    CDC's. A daemon that terminates takes its row out itself; nobody puts it back.
    """
    alive = observed is not None and bool(observed.ip) and not row_is_dead(membership, observed)
    if observed is not None and alive and not (pod.ip and has_address(membership, observed)):
        return replace(observed, index=wanted.index)
    if pod.ip and (alive or not pod.terminating):
        return wanted
    return None

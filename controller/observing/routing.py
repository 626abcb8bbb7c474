"""Routing: which keys an observation goes to, and what of it matters there.

The key is the clique ID for what concerns one NVLink partition, the ComputeDomain's UID for what concerns a domain as a
whole (design section 4). An observation that says nothing new for a key is not recorded there again: a node's heartbeat
changes its resourceVersion and nothing else. Where the resourceVersion itself is needed, as the precondition of a
write, every change counts.
"""

from msgspec.structs import replace

from controller.observing.observations import Seen
from eventlog.events import CdcSeen, DaemonPodSeen, DaemonSetSeen, DomainSeen, NodeSeen

IN_A_CLIQUE = (NodeSeen, DaemonPodSeen, CdcSeen)
OF_ALL_CLIQUES = (DomainSeen, DaemonSetSeen)
"""Made once: a union that is written where it is asked for is built anew each time, a million times in a formation."""


def for_key(seen: Seen, key: str, domain: str) -> Seen:
    """Give what is recorded of the observation under `key`: a clique needs nothing of a domain's status."""
    if isinstance(seen, DomainSeen) and key != domain:
        return replace(seen, nodes=(), conditions=(), status="", finalizers=())
    return seen


def relevant(seen: Seen, key: str, domain: str) -> tuple[object, ...]:
    """Give what of the observation matters under `key`; if that stays equal there is nothing to record."""
    in_clique = key != domain
    match seen:
        case DaemonPodSeen():
            presence = (seen.node, seen.clique, seen.terminating, seen.reader, seen.undecided)
            detailed = in_clique or not (seen.clique or seen.undecided)
            return (*presence, seen.ip, seen.ready) if detailed else presence
        case NodeSeen():
            return (seen.uid, seen.domain, seen.clique)
        case DomainSeen() if in_clique:
            return (seen.uid, seen.terminating)
        case DaemonSetSeen() if in_clique:
            return (seen.uid, seen.namespace, seen.name, seen.capacity, seen.reader)
        case _:
            return (seen.resource_version,)


def domain_of(seen: Seen) -> str:
    """Give the UID of the ComputeDomain that the observation is about."""
    return seen.uid if isinstance(seen, DomainSeen) else seen.domain


def clique_of(seen: Seen) -> str:
    """Give the clique that the observation is about; empty if it is about none, or it is not known."""
    return seen.clique if isinstance(seen, IN_A_CLIQUE) else ""

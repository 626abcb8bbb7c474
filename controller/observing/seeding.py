"""Seeding: what the folded state of a key knew of the objects in the API, as observations.

After a restart the normaliser starts from this, so that the first relist tells what went while nobody looked, and what
is unchanged is not recorded again.
"""

from collections.abc import Iterator

from controller.observing.observations import Seen
from eventlog.events import CdcSeen, DaemonPodSeen, DaemonSetSeen, DomainSeen, NodeSeen
from projections.buckets import values
from projections.clique import CliqueState, Membership
from projections.domain import DomainState
from projections.fold import Aggregate


def observed(key: str, state: Aggregate) -> Iterator[Seen]:
    """Give what the aggregate knew to be there."""
    if isinstance(state, DomainState):
        yield from _of_domain(state)
    elif isinstance(state, CliqueState):
        for name, node in sorted(state.nodes.items()):
            if node.domain:
                yield NodeSeen(name, node.uid, node.resource_version, key, node.domain)
        for domain, membership in sorted(state.domains.items()):
            yield from _of_membership(key, domain, membership)


def _of_domain(state: DomainState) -> Iterator[Seen]:
    if state.domain is not None:
        yield state.domain
    yield from state.daemon_sets
    yield from state.templates
    for cdcs in values(state.cdcs):
        yield from cdcs
    yield from values(state.nodes)
    yield from values(state.fabric_pods)
    yield from values(state.bare_pods)


def _of_membership(clique: str, domain: str, membership: Membership) -> Iterator[Seen]:
    if membership.known:
        yield DomainSeen(domain, membership.domain_version, "", "", terminating=membership.terminating)
    held = membership.daemon_set
    if held is not None:
        version = membership.daemon_set_version
        yield DaemonSetSeen(domain, held.uid, version, held.namespace, held.name, held.capacity, held.reader)
    for uid, pod in sorted(membership.pods.items()):
        yield DaemonPodSeen(
            domain,
            pod.node,
            "",
            "",
            uid,
            pod.resource_version,
            clique,
            pod.ip,
            ready=pod.ready,
            terminating=pod.terminating,
            reader=pod.reader,
        )
    cdc = membership.cdc
    if cdc is not None:
        rows = tuple(cdc.rows.values())
        yield CdcSeen(
            domain,
            clique,
            cdc.namespace,
            cdc.name,
            cdc.uid,
            cdc.resource_version,
            rows,
            cdc.waiting,
            terminating=cdc.terminating,
        )

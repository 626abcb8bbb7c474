"""The fold: `apply(state, key, event) -> state` for one aggregate.

Rule 2: no clock, no randomness, no I/O, no logging. The key says which aggregate it is: a clique ID holds a full stop
(`<clusterUUID>.<cliqueNumber>`), a ComputeDomain's UID does not, and marks and controllers have a prefix.
"""

from collections.abc import Callable, Mapping
from typing import Any

from eventlog.events import (
    AnyEvent,
    CdcGone,
    CdcSeen,
    DaemonPodGone,
    DaemonPodSeen,
    DaemonSetGone,
    DaemonSetSeen,
    DomainGone,
    DomainSeen,
    IndexAdopted,
    IndexAssigned,
    IndexRefused,
    IndexReleased,
    NodeGone,
    NodeSeen,
)
from projections import index, lives, membership
from projections.clique import CliqueState
from projections.domain import DomainState, apply_domain
from projections.visibility import ControllerState, ViewState, WatchState, apply_controller, apply_view, apply_watch

WATCH_PREFIX = "watch/"
VIEW_PREFIX = "view/"
CONTROLLER_PREFIX = "controller/"

DOMAIN_LENGTH = 63
"""Most characters of a ComputeDomain's UID: it is a label's value on all that is the domain's."""

Aggregate = CliqueState | DomainState | WatchState | ViewState | ControllerState

_CLIQUE: Mapping[type, Callable[[CliqueState, Any], CliqueState]] = {
    NodeSeen: membership.node_seen,
    NodeGone: membership.node_gone,
    DaemonPodSeen: lives.pod_seen,
    DaemonPodGone: lives.pod_gone,
    CdcSeen: membership.cdc_seen,
    CdcGone: membership.cdc_gone,
    DaemonSetSeen: membership.daemon_set_seen,
    DaemonSetGone: membership.daemon_set_gone,
    DomainSeen: membership.domain_seen,
    DomainGone: membership.domain_gone,
    IndexAssigned: index.apply_decision,
    IndexAdopted: index.apply_decision,
    IndexReleased: index.apply_decision,
    IndexRefused: index.apply_decision,
}


def is_clique(key: str) -> bool:
    """Say whether the key is a clique ID."""
    return "." in key and "/" not in key and "\0" not in key


def is_domain(key: str) -> bool:
    """Say whether the key can be a ComputeDomain's UID, and is no other kind of key."""
    return 0 < len(key) <= DOMAIN_LENGTH and "." not in key and "/" not in key and "\0" not in key


def apply(state: Aggregate | None, key: str, event: AnyEvent) -> Aggregate:
    """Give the aggregate's state after the event; an event that does not concern it changes its sequence only."""
    if is_clique(key):
        before = state if isinstance(state, CliqueState) else CliqueState()
        counted = CliqueState(
            before.sequence + 1, before.nodes, before.domains, before.domains_gone, before.inadmissible
        )
        handler = _CLIQUE.get(type(event))
        return counted if handler is None else handler(counted, event)
    if key.startswith(WATCH_PREFIX):
        return apply_watch(state if isinstance(state, WatchState) else WatchState(), event)
    if key.startswith(VIEW_PREFIX):
        return apply_view(state if isinstance(state, ViewState) else ViewState(), event)
    if key.startswith(CONTROLLER_PREFIX):
        return apply_controller(state if isinstance(state, ControllerState) else ControllerState(), event)
    return apply_domain(state if isinstance(state, DomainState) else None, event)

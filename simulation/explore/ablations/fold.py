"""Ablations of the fold: what it makes of observations that come twice, late, or of another object of the same name."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from controller.observing.catalogue import Catalogue, identity
from controller.observing.observations import KINDS
from eventlog.events import CdcGone, CdcSeen, DaemonPodGone, DaemonPodSeen, NodeGone, NodeSeen
from projections import domain, fold, lives, membership
from projections.amend import with_domain
from projections.clique import CliqueState
from simulation.explore.ablations.ablation import Ablation, Swap

Handler = Callable[[CliqueState, Any], CliqueState]


def _blind_to_versions(table: Mapping[type, Handler]) -> Mapping[type, Handler]:
    """Give the handlers, each told of an object that is as old as the observation wants it to be."""
    blinders: Mapping[type, Callable[[CliqueState, Any], CliqueState]] = {
        NodeSeen: _younger_node,
        NodeGone: _younger_node,
        DaemonPodSeen: _younger_pod,
        DaemonPodGone: _younger_pod,
        CdcSeen: _younger_cdc,
        CdcGone: _younger_cdc,
    }

    def blind(kind: type, handler: Handler) -> Handler:
        return lambda state, event: handler(blinders[kind](state, event), event)

    return {kind: blind(kind, handler) if kind in blinders else handler for kind, handler in table.items()}


def _younger_node(state: CliqueState, event: NodeSeen | NodeGone) -> CliqueState:
    known = state.nodes.get(event.name)
    if known is None:
        return state
    node = replace(known, resource_version=min(known.resource_version, event.resource_version - 1))
    return replace(state, nodes={**state.nodes, event.name: node})


def _younger_pod(state: CliqueState, event: DaemonPodSeen | DaemonPodGone) -> CliqueState:
    there = state.domains.get(event.domain)
    known = there.pods.get(event.uid) if there is not None else None
    if there is None or known is None:
        return state
    pod = replace(known, resource_version=min(known.resource_version, event.resource_version - 1))
    return with_domain(state, event.domain, replace(there, pods={**there.pods, event.uid: pod}))


def _younger_cdc(state: CliqueState, event: CdcSeen | CdcGone) -> CliqueState:
    there = state.domains.get(event.domain)
    if there is None:
        return state
    version = min(there.cdc_version, event.resource_version - 1)
    return with_domain(state, event.domain, replace(there, cdc_version=version))


def _revive(is_news: Callable[[Catalogue, Any], bool]) -> Callable[[Catalogue, Any], bool]:
    def is_news_or_gone(catalogue: Catalogue, stated: Any) -> bool:  # noqa: ANN401
        from_the_dead = catalogue.find(KINDS[type(stated)], identity(stated)) is None
        return from_the_dead or is_news(catalogue, stated)

    return is_news_or_gone


ABLATIONS = (
    Ablation(
        "uid-check",
        "a deletion counts for whatever object has the name now",
        "rule 3; A64: a node or a CDC that was deleted and made again",
        (Swap(membership, "_another", lambda _: lambda _known, _uid: False),),
    ),
    Ablation(
        "resource-version-check",
        "an observation counts, however old it is",
        "rule 3; C4: deliveries that come twice, or late from another controller",
        (Swap(fold, "_CLIQUE", _blind_to_versions),),
    ),
    Ablation(
        "tombstones",
        "what is gone is not remembered as gone",
        "rule 3; B20: a late sighting brings a pod back",
        (
            Swap(lives, "_buried_at", lambda _: lambda _tombstones, _uid: -1),
            Swap(domain, "gone_at", lambda _: lambda _tombstones, _uid: -1),
            Swap(Catalogue, "is_news", _revive),
        ),
        "whoever tells late of a pod goes on to tell of its end, and of two pods on a node the newest counts",
    ),
)

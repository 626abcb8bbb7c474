"""A ComputeDomain is let go last: our finalizer comes off only once the log knows of nothing that is left of it.

Else its daemons' claims cannot be unprepared (failure case A48), or what was made for it stays for ever. Judged by what
the log had said up to the place that the write names: what no watch had told yet, nobody could wait for.
"""

from collections.abc import Iterator

from kube.names import FINALIZER, POSITION_ANNOTATION
from projections.buckets import values
from projections.domain import DomainState
from projections.fold import Aggregate
from simulation.explore.checkers.requests import Letting


def position_of(letting: Letting) -> str:
    """Give the place in the log that the write names; empty if it takes no finalizer of ours off."""
    return "" if FINALIZER in letting.finalizers else letting.annotations.get(POSITION_ANNOTATION) or ""


def left_behind(aggregates: dict[str, Aggregate], letting: Letting) -> Iterator[str]:
    """Give what the state at that place knows to be there of the ComputeDomain that is let go."""
    for state in aggregates.values():
        domain = state.domain if isinstance(state, DomainState) else None
        if not isinstance(state, DomainState) or domain is None:
            continue
        if (domain.namespace, domain.name) != letting.key[1:] or str(domain.resource_version) != letting.version:
            continue
        left = [f"node {node.name}" for node in values(state.nodes)]
        left += [f"pod on {pod.node}" for pods in (state.fabric_pods, state.bare_pods) for pod in values(pods)]
        left += [f"CDC of clique {cdc.clique[-1]}" for cdcs in values(state.cdcs) for cdc in cdcs]
        left += ["DaemonSet" for _ in state.daemon_sets]
        left += [f"claim template {template.name}" for template in state.templates if template.owned]
        if left:
            yield f"finalizer: {domain.name} {domain.uid[:8]} is let go while there is still: {', '.join(sorted(left))}"

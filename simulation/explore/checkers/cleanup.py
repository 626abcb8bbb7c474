"""What is taken away is a domain's that goes, and the ComputeDomain itself is let go last.

Our finalizer comes off only once the log knows of nothing that is left of the domain: else its daemons' claims cannot
be unprepared (failure case A48), or what was made for it stays for ever. That is judged by what the log had said up to
the place that the write names: what no watch had told yet, nobody could wait for.
"""

from collections.abc import Callable, Iterator

from kube.client import Resource, Selector
from kube.names import (
    CLAIM_TEMPLATES,
    COMPUTE_DOMAINS,
    DAEMON_SETS,
    DOMAIN_LABEL,
    FINALIZER,
    NODES,
    POSITION_ANNOTATION,
)
from projections.buckets import values
from projections.domain import DomainState
from projections.fold import Aggregate
from simulation.explore.checkers.requests import Letting
from simulation.store import Change, Object, Store

OURS = (CLAIM_TEMPLATES, DAEMON_SETS)
"""What nobody but a controller deletes here, but for the workload's actions."""


def watch(store: Store, is_theirs: Callable[[], bool], found: Callable[[str], None]) -> None:
    """Tell `found` of each object or label of a living domain that is taken away, unless by an action just now."""

    def observe(resource: Resource, change: Change) -> None:
        if is_theirs() or change.before is None or not _is_taken_away(resource, change):
            return
        domain = change.before["metadata"].get("labels", {}).get(DOMAIN_LABEL, "")
        domains = store.snapshot(Selector(COMPUTE_DOMAINS))
        if any(one["metadata"]["uid"] == domain and "deletionTimestamp" not in one["metadata"] for one in domains):
            name = change.before["metadata"]["name"]
            found(f"cleanup: {resource.plural} {name} is taken from {domain[:8]}, which lives")

    store.subscribe(observe)


def _is_taken_away(resource: Resource, change: Change) -> bool:
    if resource == NODES:
        return change.after is not None and DOMAIN_LABEL not in change.after["metadata"].get("labels", {})
    return resource in OURS and _is_going(change.after) and not _is_going(change.before)


def _is_going(thing: Object | None) -> bool:
    return thing is None or "deletionTimestamp" in thing["metadata"]


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

"""The lifecycle of a ComputeDomain: from what is there to the writes that it calls for.

Level-based: the effects follow from the state alone, never from how it came about, so it does not matter where an
earlier controller stopped. Each step looks at its own object and waits for no other step, except where the table in
`docs/lifecycle.md` says so; one step that fails holds up no other (failure case A51).

The cost is that of the effects given, plus one look at each CDC: a caller that folds many records computes the effects
once, after the last.
"""

from collections.abc import Iterator

from eventlog.events import DomainSeen
from projections.cleanup import cleanup, everything_is_gone
from projections.conditions import find_problems, post_events, to_conditions
from projections.domain import DomainState
from projections.domain_status import write_status
from projections.effects import AnyEffect, CreateClaimTemplate, CreateDaemonSet, SetFinalizers, Target
from projections.owned import child_name, release, spec_problem, template_at
from projections.settings import Settings


def domain_effects(state: DomainState, settings: Settings) -> tuple[AnyEffect, ...]:
    """Give the writes that the state calls for, at most one per target, in an order that the state alone decides."""
    return tuple(_effects(state, settings))


def _effects(state: DomainState, settings: Settings) -> Iterator[AnyEffect]:
    domain = state.domain
    if domain is None:
        if state.gone_at is not None:
            yield from cleanup(state, settings)
        return
    if domain.terminating:
        yield from cleanup(state, settings)
        yield from _let_go(state, domain, settings)
        yield from post_events(domain, find_problems(state, domain, settings))
    elif spec_problem(domain):
        yield from _report(state, domain, settings)
    elif settings.finalizer not in domain.finalizers:
        # Nothing is made before the finalizer is there: else a deletion could leave it behind.
        yield SetFinalizers(
            _target(domain), state.uid, domain.resource_version, domain.uid, (*domain.finalizers, settings.finalizer)
        )
    else:
        yield from _make_children(state, domain, settings)
        yield from _report(state, domain, settings)


def _let_go(state: DomainState, domain: DomainSeen, settings: Settings) -> Iterator[AnyEffect]:
    """Take our finalizer off the ComputeDomain once nothing of it is left, its daemon pods included (case A48).

    The kubelet plugin unprepares a daemon's claim with the ComputeDomain at hand: were it gone first, the pods would
    stay Terminating.
    """
    if settings.finalizer in domain.finalizers and everything_is_gone(state):
        kept = tuple(name for name in domain.finalizers if name != settings.finalizer)
        yield SetFinalizers(_target(domain), state.uid, domain.resource_version, domain.uid, kept)


def _report(state: DomainState, domain: DomainSeen, settings: Settings) -> Iterator[AnyEffect]:
    problems = find_problems(state, domain, settings)
    conditions = to_conditions(problems) if settings.conditions else ()
    yield from write_status(state, domain, settings, conditions)
    yield from post_events(domain, problems)


def _make_children(state: DomainState, domain: DomainSeen, settings: Settings) -> Iterator[AnyEffect]:
    """Make what is missing. What somebody deleted is let go first, since its name is free only then."""
    for daemon_set in state.daemon_sets:
        yield from release("daemonsets", daemon_set, state.uid, settings)
    for template in state.templates:
        if template.owned:
            yield from release("resourceclaimtemplates", template, state.uid, settings)
    if not settings.host_managed:
        yield from _make_daemons(state, settings)
    if template_at(state, domain.namespace, domain.template) is None:
        # Where the hosts run IMEX a workload gets the one channel that it was allocated.
        mode = "Single" if settings.host_managed else domain.mode or "Single"
        target = Target("resourceclaimtemplates", domain.namespace, domain.template)
        yield CreateClaimTemplate(target, state.uid, 0, "Workload", mode)


def _make_daemons(state: DomainState, settings: Settings) -> Iterator[AnyEffect]:
    """Make the daemons' claim template, and once it is there the DaemonSet.

    A DaemonSet of an earlier install in another namespace is the domain's (failure case A52): it is kept, and its
    claim template belongs beside it.
    """
    name = child_name(state.uid)
    namespace = state.daemon_sets[0].namespace if state.daemon_sets else settings.namespace
    template = template_at(state, namespace, name)
    if template is None:
        target = Target("resourceclaimtemplates", namespace, name)
        yield CreateClaimTemplate(target, state.uid, 0, "Daemon")
    elif template.owned and not template.terminating and not state.daemon_sets:
        yield CreateDaemonSet(Target("daemonsets", settings.namespace, name), state.uid, 0)


def _target(domain: DomainSeen) -> Target:
    return Target("computedomains", domain.namespace, domain.name)

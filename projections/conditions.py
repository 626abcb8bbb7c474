"""What people are told of a ComputeDomain that does not get on: conditions in its status, and Events.

A condition is there only while something is wrong. So a healthy domain's status has none, and its readers need not
know our types; and under a CRD that keeps no conditions (upstream's) a healthy domain calls for no write that cannot
take effect. Messages are bounded and sorted, so that an unchanged state gives an unchanged message.
"""

import hashlib
from collections.abc import Iterator

import msgspec

from eventlog.events import ClaimTemplateSeen, Condition, DaemonSetSeen, DomainSeen
from projections.buckets import items
from projections.domain import DomainState
from projections.effects import PostEvent, Target
from projections.owned import child_name, spec_problem, template_at
from projections.settings import Settings

TYPES = frozenset({"CliqueFull", "DaemonTemplateReady", "SpecValid", "WorkloadTemplateReady"})
"""The types of our conditions; others belong to others."""
NAMED = 20
"""Items that a message names before it says how many more there are."""
MOST_EVENTS = 100
"""Events about waiting nodes at a time; the rest are told of when these have their slots."""


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong. `condition` is the condition's type, empty if only an Event tells of it.

    `subject` is what it is about: one Event per reason and subject.
    """

    reason: str
    message: str
    subject: str
    condition: str = ""
    status: str = "False"


def find_problems(state: DomainState, domain: DomainSeen, settings: Settings) -> tuple[Problem, ...]:
    """Give what is wrong with a domain, in a fixed order."""
    if domain.terminating:
        return tuple(_held(state, settings))
    if sentence := spec_problem(domain):
        return (Problem("InvalidSpec", sentence, domain.uid, "SpecValid"),)
    return (*_names_taken(state, domain, settings), *_full_cliques(state))


def to_conditions(problems: tuple[Problem, ...]) -> tuple[Condition, ...]:
    """Give the conditions that tell of the problems, sorted by type; problems of one type share a condition."""
    by_type: dict[str, list[Problem]] = {}
    for problem in problems:
        if problem.condition:
            by_type.setdefault(problem.condition, []).append(problem)
    return tuple(_condition(kind, by_type[kind]) for kind in sorted(by_type))


def post_events(domain: DomainSeen, problems: tuple[Problem, ...]) -> Iterator[PostEvent]:
    """Give one Event for each problem, at most MOST_EVENTS."""
    for problem in problems[:MOST_EVENTS]:
        cause = f"{problem.reason}\0{problem.subject}".encode()
        name = f"computedomain-{domain.uid}.{hashlib.sha256(cause).hexdigest()[:16]}"
        target = Target("events", domain.namespace, name)
        yield PostEvent(target, domain.uid, 0, domain.name, problem.reason, _cut(problem.message))


def _cut(message: str) -> str:
    """Keep to the 1 kB that the API allows an Event's message."""
    return message if len(message) <= 1000 else f"{message[:997]}..."


def _condition(kind: str, problems: list[Problem]) -> Condition:
    first = problems[0]
    if kind == "CliqueFull":
        return Condition(kind, first.status, first.reason, _waiting_message([one.subject for one in problems]))
    return Condition(kind, first.status, first.reason, first.message)


def _names_taken(state: DomainState, domain: DomainSeen, settings: Settings) -> Iterator[Problem]:
    workload = template_at(state, domain.namespace, domain.template)
    if workload is not None and not workload.owned:
        yield Problem("NameTaken", _taken(workload), workload.name, "WorkloadTemplateReady")
    namespace = state.daemon_sets[0].namespace if state.daemon_sets else settings.namespace
    daemon = template_at(state, namespace, child_name(state.uid))
    if daemon is not None and not daemon.owned and not settings.host_managed:
        yield Problem("NameTaken", _taken(daemon), daemon.name, "DaemonTemplateReady")


def _taken(template: ClaimTemplateSeen) -> str:
    return (
        f"ResourceClaimTemplate {template.namespace}/{template.name} exists and does not belong to this ComputeDomain: "
        "delete or rename it, or create a ComputeDomain that asks for another name."
    )


def _full_cliques(state: DomainState) -> Iterator[Problem]:
    waiting = {clique: cdcs for clique, cdcs in items(state.cdcs) if any(cdc.waiting for cdc in cdcs)}
    for clique in sorted(waiting):
        for node in sorted({node for cdc in waiting[clique] for node in cdc.waiting}):
            message = f"Node {node} waits for a slot in clique {clique}, which is full: it gets the first that frees."
            yield Problem("CliqueFull", message, f"{clique}/{node}", "CliqueFull", "True")


def _waiting_message(subjects: list[str]) -> str:
    """Name who waits where, as `<clique>/<node>`."""
    more = f" and {len(subjects) - NAMED} more" if len(subjects) > NAMED else ""
    return f"Waiting for a slot, as clique/node: {', '.join(subjects[:NAMED])}{more}."


def _held(state: DomainState, settings: Settings) -> Iterator[Problem]:
    """Tell of what our finalizer no longer holds and others' do: nobody but their owners can end it (case A47)."""
    owned = [template for template in state.templates if template.owned]
    for kind, children in (("DaemonSet", state.daemon_sets), ("ResourceClaimTemplate", owned)):
        for child in children:
            if child.terminating and child.finalizers and settings.finalizer not in child.finalizers:
                yield _held_problem(kind, child)


def _held_problem(kind: str, child: DaemonSetSeen | ClaimTemplateSeen) -> Problem:
    names = ", ".join(sorted(child.finalizers)[:NAMED])
    message = (
        f"The deletion waits for {kind} {child.namespace}/{child.name}, which is held by the finalizers {names}: "
        "see to it that their owner removes them."
    )
    return Problem("HeldByFinalizer", message, f"{kind}/{child.namespace}/{child.name}")

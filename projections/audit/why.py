"""Why a node is not ready: the missing step, the steps that were taken, and where the time went.

Pure: it explains a situation, which the controller's side gathers from a log or from its own states.
"""

from collections.abc import Iterator, Sequence

import msgspec

from projections.audit.finding import Evidence
from projections.audit.missing import Missing, missing_step
from projections.audit.situation import Situation
from projections.audit.standing import STEPS, Mark, Trail


class Step(msgspec.Struct, frozen=True):
    """A step of the node; one that was not taken has no record. `inferred` says why it is not certain."""

    name: str
    what: str
    time_ms: int | None = None
    evidence: Evidence | None = None
    inferred: str = ""


class Share(msgspec.Struct, frozen=True):
    """How long a step took, from the one before it; `done` is false for the step that is missing still."""

    name: str
    milliseconds: int
    share: float
    done: bool


class Explanation(msgspec.Struct, frozen=True):
    """The answer. `missing` is None if the node is ready, and `steps` are in the order in which they were taken.

    `domain`, `domain_name`, `clique`, `pod` and `look_at` are empty, and `index` is None, where there is none.
    """

    subject: str
    node: str
    pod: str
    clique: str
    domain: str
    domain_name: str
    index: int | None
    at_ms: int
    missing: str | None
    sentence: str
    look_at: str
    steps: tuple[Step, ...]
    shares: tuple[Share, ...]
    notes: tuple[str, ...]


def explain(one: Situation) -> Explanation:
    """Say why the node is not ready, or that it is."""
    missing = None if one.standing.is_ready() else missing_step(one)
    steps = _steps(one.trail) if one.trail is not None else ()
    pod = one.daemon()
    return Explanation(
        one.subject,
        one.node,
        f"{pod.namespace}/{pod.name}" if pod is not None else "",
        one.clique,
        one.domain,
        one.domain_name,
        one.standing.index,
        one.at_ms,
        missing.code if missing is not None else None,
        missing.sentence if missing is not None else _ready(one),
        missing.look_at if missing is not None else "",
        steps,
        _shares(one, missing),
        tuple(_notes(one)),
    )


def _ready(one: Situation) -> str:
    place = f" of clique {one.clique}" if one.clique else ", which has no fabric,"
    index = f" with index {one.standing.index}" if one.standing.index is not None else ""
    return f"node {one.node}{place} is ready{index}: a workload there may start"


def _steps(trail: Trail) -> tuple[Step, ...]:
    taken = _in_order(trail)
    done = [Step(name, STEPS[name], mark.time_ms, mark.evidence, mark.inferred) for name, mark in taken]
    return (*done, *(Step(name, what) for name, what in STEPS.items() if name not in trail.marks))


def _in_order(trail: Trail) -> list[tuple[str, Mark]]:
    """Give the steps by time; of those that one record, or one moment, brought the usual order counts."""
    order = list(STEPS)
    return sorted(trail.marks.items(), key=lambda item: (item[1].time_ms, order.index(item[0])))


def _shares(one: Situation, missing: Missing | None) -> tuple[Share, ...]:
    """Share out the time of the daemon's present life: each step took what lies between the one before and itself."""
    if one.trail is None or not one.trail.marks:
        return ()
    taken = _in_order(one.trail)
    began = latest = max(taken[0][1].time_ms, one.trail.began_ms)
    spans: list[tuple[str, int, bool]] = []
    for name, mark in taken:
        if mark.time_ms > latest:
            spans.append((name, mark.time_ms - latest, True))
            latest = mark.time_ms
    if missing is not None:
        spans.append((missing.code, max(0, one.at_ms - latest), False))
        latest = max(latest, one.at_ms)
    total = latest - began
    return tuple(Share(name, span, span / total if total else 0.0, done) for name, span, done in spans)


def _notes(one: Situation) -> Iterator[str]:
    """Say what makes the answer less than certain, or concerns it beside."""
    standing = one.standing
    if one.pod and (standing.pod is None or standing.pod.uid != one.pod):
        yield f"the pod {one.subject} is gone; this is about its node"
    if one.trail is not None and standing.pod is None and standing.is_ready():
        yield "the history tells of no daemon pod there: that the node is ready, its row alone says"
    for kind in sorted(one.watches):
        watch = one.watches[kind]
        if watch.gaps and not watch.complete:
            yield f"the view of {kind} was not complete then: what is missing may only not have been seen"
    conditions: Sequence[str] = ()
    if one.seen is not None:
        conditions = [f"{c.type} is {c.status}: {c.reason}. {c.message}".strip() for c in one.seen.conditions]
    yield from (f"condition of {one.domain_name}: {text}" for text in conditions)

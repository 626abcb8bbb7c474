"""What `cliquelog replay` says: a line an act, then what was recorded beside what would have been; or one JSON object.

The JSON form is documented in docs/history.md: fields are added, none is changed.
"""

from collections.abc import Mapping, Sequence

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from controller.history.rerun import Act, Decided
from controller.history.rerunning import Course, Member, Outcome
from controller.moments import relative, rfc3339
from controller.terminal import safe
from controller.writing.requests import Renderer
from eventlog.events import IndexAdopted, IndexAssigned, IndexRefused, IndexReleased
from projections.audit.finding import counted

CLIQUE_SHOWN = 10
"""Characters of a clique ID that a line shows: the last ones, which differ among the partitions of a fabric."""


class ActLine(msgspec.Struct, frozen=True):
    """An act: a decision has `node` and `index`, a write `body`, the request that would have been sent."""

    time: str
    kind: str
    position: str
    clique: str
    domain: str
    message: str
    node: str | None = None
    index: int | None = None
    method: str | None = None
    body: msgspec.Raw = msgspec.Raw(b"null")


class CourseLine(msgspec.Struct, frozen=True):
    """How it went on one side; `index_changed` is None where nothing was decided because no domain is known."""

    members: int
    holdings: int
    index_changed: int | None
    writes: int
    refused_writes: int


class MemberLine(msgspec.Struct, frozen=True):
    """A member whose indices differ between what was recorded and what would have been, or changed on either side."""

    clique: str
    domain: str
    node: str
    recorded: tuple[int, ...]
    replayed: tuple[int, ...]


class DivergenceLine(msgspec.Struct, frozen=True):
    """The first act that the settings change: null on the side that does no more."""

    base: ActLine | None
    changed: ActLine | None


class WhatIf(msgspec.Struct, frozen=True):
    """The same history with other settings."""

    settings: dict[str, str]
    replayed: CourseLine
    divergence: DivergenceLine | None


class Document(msgspec.Struct, frozen=True):
    """The one object that `--json` prints."""

    records: int
    begin: str | None
    end: str | None
    digest: str
    digests: dict[str, str]
    recorded: CourseLine
    replayed: CourseLine
    members: list[MemberLine]
    what_if: WhatIf | None
    note: str | None
    timeline: tuple[ActLine, ...] = ()


def document(outcome: Outcome, recorded: Course, settings: Mapping[str, str]) -> Document:
    """Give the JSON form, whose timeline is left to whoever keeps the acts; `recorded` may be of another log.

    `settings` are those of the rules beside, as they were written.
    """
    return Document(
        outcome.records,
        rfc3339(outcome.begin_ms) if outcome.records else None,
        rfc3339(outcome.end_ms) if outcome.records else None,
        outcome.digest,
        {str(partition): one for partition, one in outcome.digests.items()},
        course_line(recorded),
        replayed_line(outcome, recorded, outcome.replayed),
        members(recorded, outcome.replayed),
        what_if(outcome, recorded, settings),
        note(outcome, recorded),
    )


def what_if(outcome: Outcome, recorded: Course, settings: Mapping[str, str]) -> WhatIf | None:
    """Give what the rules beside made of it; None if there were none."""
    if outcome.beside is None:
        return None
    differ = outcome.beside.divergence
    lines = [act_line(act) if act is not None else None for act in differ] if differ else []
    replayed = replayed_line(outcome, recorded, outcome.beside.replayed)
    return WhatIf(dict(settings), replayed, DivergenceLine(*lines) if lines else None)


def course_line(course: Course) -> CourseLine:
    """Give the figures of a side."""
    return CourseLine(len(course.indices), course.holdings, len(course.changed), course.writes, course.refused)


def replayed_line(outcome: Outcome, recorded: Course, replayed: Course) -> CourseLine:
    """Give the figures of a rerun: where it knows no domain, it kept no index, whatever it did not change."""
    line = course_line(replayed)
    is_blind = not outcome.known and _unknown(outcome, recorded)
    return msgspec.structs.replace(line, index_changed=None) if is_blind else line


def note(outcome: Outcome, recorded: Course) -> str | None:
    """Say of which domains our rules decided nothing; None if there are none."""
    unknown = _unknown(outcome, recorded)
    if not unknown:
        return None
    domains = counted(len(unknown), "domain")
    return (
        f"the history does not show the ComputeDomain of {domains} ({unknown[0]}{', ...' if unknown[1:] else ''}): our "
        "rules decide nothing there, so nothing is told of what they would have kept; import a source that has it"
    )


def _unknown(outcome: Outcome, recorded: Course) -> list[str]:
    return sorted({domain for _, domain, _ in recorded.indices} - outcome.known)


def members(recorded: Course, replayed: Course) -> list[MemberLine]:
    """Give the members that differ."""
    return [
        MemberLine(*member, recorded.indices.get(member, ()), replayed.indices.get(member, ()))
        for member in sorted(recorded.indices.keys() | replayed.indices.keys())
        if _differs(member, recorded, replayed)
    ]


def _differs(member: Member, recorded: Course, replayed: Course) -> bool:
    one, other = recorded.indices.get(member, ()), replayed.indices.get(member, ())
    return one != other or len(one) > 1


def act_line(act: Act) -> ActLine:
    """Give an act for people and scripts."""
    if isinstance(act, Decided):
        decision = act.decision
        index = None if isinstance(decision, IndexRefused) else decision.index
        return ActLine(
            rfc3339(act.time_ms),
            "decision",
            str(act.position),
            act.clique,
            decision.domain,
            _decision(act),
            decision.node,
            index,
        )
    effect = act.effect
    request = Renderer("replay", _no_manifest)(effect, act.position, act.time_ms)
    ready = sum(row.status == "Ready" for row in effect.rows)
    waiting = f", {len(effect.waiting)} waiting" if effect.waiting else ""
    message = f"{request.method} the clique object: {counted(len(effect.rows), 'row')}, {ready} ready{waiting}"
    return ActLine(
        rfc3339(act.time_ms),
        "write",
        act.position,
        effect.clique,
        effect.domain,
        message,
        method=request.method,
        body=msgspec.Raw(request.body),
    )


def _decision(act: Decided) -> str:
    match act.decision:
        case IndexAssigned(node=node, index=index, cause=cause):
            return f"node {node} gets index {index}" + (f" ({cause})" if cause else "")
        case IndexAdopted(node=node, index=index):
            return f"node {node} keeps index {index}, which its row has"
        case IndexReleased(node=node, index=index, cause=cause):
            return f"index {index} of node {node} is released" + (f" ({cause})" if cause else "")
        case IndexRefused(node=node, capacity=capacity):
            return f"node {node} waits: the clique has {capacity} indices, and all are held"


def _no_manifest(effect: object) -> dict[str, object]:
    """Make nothing: a rerun writes clique objects only."""
    raise TypeError(f"a rerun does not make {type(effect).__name__}")


def timeline_line(act: Act, begin_ms: int) -> str:
    """Give an act as a line of a timeline."""
    line = act_line(act)
    what = safe(f"{line.clique[-CLIQUE_SHOWN:]}  {line.message}")
    return f"{relative(act.time_ms, begin_ms):>11} {line.position:>8}  {what}"


def show(found: Document, console: Console) -> None:
    """Print the comparison for people."""
    console.print(f"{counted(found.records, 'record')}, digest {found.digest}", highlight=False, soft_wrap=True)
    sides = [("recorded", found.recorded), ("replayed", found.replayed)]
    if found.what_if is not None:
        sides.append(("with --set", found.what_if.replayed))
    console.print(_sides(sides))
    if found.note is not None:
        console.print(f"note: {safe(found.note)}", highlight=False, markup=False)
    for member in found.members:
        if len(member.recorded) > 1 or len(member.replayed) > 1:
            console.print(
                f"node {safe(member.node)}: recorded {_listed(member.recorded)}; replayed {_listed(member.replayed)}",
                highlight=False,
                markup=False,
            )
    if found.what_if is not None:
        console.print(safe(_divergence(found.what_if.divergence)), highlight=False, markup=False)


def _sides(sides: Sequence[tuple[str, CourseLine]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    table.add_column("")
    for name, _ in sides:
        table.add_column(escape(name), justify="right")
    names = ("members", "holdings", "members whose index changed", "writes of clique objects", "refused writes")
    for number, name in enumerate(names):
        figures = [msgspec.structs.astuple(side)[number] for _, side in sides]
        table.add_row(name, *("-" if figure is None else str(figure) for figure in figures))
    return table


def _listed(indices: Sequence[int]) -> str:
    return ", then ".join(map(str, indices)) or "none"


def _divergence(found: DivergenceLine | None) -> str:
    if found is None:
        return "the settings change nothing"
    first = found.base or found.changed
    at = first.time if first is not None else ""
    sides = [one.message if one is not None else "nothing more" for one in (found.base, found.changed)]
    return f"first difference at {at}: {sides[0]}; with --set: {sides[1]}"

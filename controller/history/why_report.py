"""What `cliquelog why` says: one JSON object, or text for people; docs/why.md documents the JSON form.

A live controller answers with the same object, so whoever asks it reads it strictly: what is no such answer is refused.
"""

import textwrap
from collections.abc import Iterator

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from controller.moments import clock, parse, relative, rfc3339
from controller.terminal import safe
from projections.audit.why import Explanation, Step

WIDTH = 80


class StepLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A step: null are the place and time of one that was not taken."""

    step: str
    what: str
    done: bool
    time: str | None
    partition: int | None
    offset: int | None
    source: str | None
    certainty: str | None
    inferred: str | None


class SpentLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where time went: to this step, from the one before it."""

    step: str
    seconds: float
    share: float
    done: bool


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The one object that `--json` prints."""

    subject: str
    node: str
    pod: str | None
    clique: str | None
    domain: str | None
    domain_name: str | None
    index: int | None
    at: str
    ready: bool
    missing: str | None
    sentence: str
    look_at: str | None
    steps: tuple[StepLine, ...]
    spent: tuple[SpentLine, ...]
    notes: tuple[str, ...]


def document(one: Explanation) -> Document:
    """Give the JSON form."""
    return Document(
        one.subject,
        one.node,
        one.pod or None,
        one.clique or None,
        one.domain or None,
        one.domain_name or None,
        one.index,
        rfc3339(one.at_ms),
        one.missing is None,
        one.missing,
        one.sentence,
        one.look_at or None,
        tuple(_step(step) for step in one.steps),
        tuple(SpentLine(s.name, s.milliseconds / 1000, round(s.share, 4), s.done) for s in one.shares),
        one.notes,
    )


def _step(one: Step) -> StepLine:
    if one.time_ms is None or one.evidence is None:
        return StepLine(one.name, one.what, False, None, None, None, None, None, None)
    return StepLine(
        one.name,
        one.what,
        done=True,
        time=rfc3339(one.time_ms),
        partition=one.evidence.position.partition,
        offset=one.evidence.position.offset,
        source=one.evidence.source or None,
        certainty="inferred" if one.inferred else "observed",
        inferred=one.inferred or None,
    )


def show(one: Document, console: Console) -> None:
    """Print the answer for people, in 80 columns but for names and the command line, which stay whole."""
    console.print(_plain(f"{one.sentence}."), soft_wrap=True, highlight=False)
    if one.steps:
        console.print()
        for line in _places(one):
            console.print(Text(safe(line)), soft_wrap=True, highlight=False)
        console.print()
        console.print(_table(one))
    for note in one.notes:
        console.print(_plain(f"note: {note}"), soft_wrap=True, highlight=False)
    if one.look_at is not None:
        console.print(Text(f"\nlook at: {safe(one.look_at)}"), soft_wrap=True, highlight=False)


def _plain(text: str) -> Text:
    """Give a sentence as lines of the width, with names kept whole."""
    return Text(textwrap.fill(safe(text), WIDTH, break_long_words=False, break_on_hyphens=False))


def _places(one: Document) -> Iterator[str]:
    yield f"at      {one.at} (UTC)"
    yield f"domain  {one.domain_name or 'none'}"
    yield f"clique  {one.clique or 'not known'}"
    yield f"index   {'none' if one.index is None else one.index}"
    yield f"pod     {one.pod or 'none'}"


def _table(one: Document) -> Table:
    """Give the steps, each with when it was taken and how long that took."""
    spent = {line.step: line for line in one.spent}
    begin_ms = min((parse(step.time, 0) for step in one.steps if step.time), default=0)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("time (UTC)", no_wrap=True)
    table.add_column("after", no_wrap=True, justify="right")
    table.add_column("took", no_wrap=True, justify="right")
    table.add_column("share", no_wrap=True, justify="right")
    table.add_column("step", overflow="fold")
    for step in one.steps:
        if step.time is not None:
            time_ms = parse(step.time, 0)
            certainty = f" (inferred: {step.inferred})" if step.inferred else ""
            table.add_row(
                clock(time_ms),
                relative(time_ms, begin_ms),
                *_took(spent.get(step.step)),
                _plain(f"{step.what}{certainty}"),
            )
    if one.missing is not None:
        table.add_row("still", "", *_took(spent.get(one.missing)), _plain(f"missing: {one.missing}"))
    return table


def _took(line: SpentLine | None) -> tuple[str, str]:
    return ("", "") if line is None else (f"{line.seconds:.3f}s", f"{line.share:.0%}")

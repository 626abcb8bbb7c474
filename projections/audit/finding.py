"""Findings, and what a rule is that gives them.

A rule looks at one kind of trouble. Its code is stable: scripts and runbooks name it. It states certainty like a
holding does: what a hole in the history could explain as well is inferred.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

import msgspec

from eventlog.record import Position
from projections.audit.change import Change
from projections.audit.holdings import Holding, Moment

Severity = Literal["error", "warning", "info"]


class Evidence(msgspec.Struct, frozen=True):
    """A record that shows it, and its source if it was imported."""

    position: Position
    source: str


class Finding(msgspec.Struct, frozen=True):
    """Something that a history shows; `message` is one sentence for people, `inferred` why it is not certain.

    `clique`, `node` and `domain` (a UID) are empty, and `index` is None, where it is about none in particular.
    """

    code: str
    severity: Severity
    message: str
    time_ms: int
    records: tuple[Evidence, ...]
    clique: str = ""
    domain: str = ""
    node: str = ""
    index: int | None = None
    inferred: str = ""


class Rule:
    """Base of the rules. Each follows all records of a history, partition by partition, and the holdings at the end.

    A subclass states `code`, `severity`, `title` (what it finds, for a table) and `advice` (what to look at next).
    """

    code: ClassVar[str]
    severity: ClassVar[Severity]
    title: ClassVar[str]
    advice: ClassVar[str]

    def take(self, change: Change) -> Iterable[Finding]:
        """Give what the record shows."""
        del change
        return ()

    def end(self, holdings: Sequence[Holding], end_ms: int) -> Iterable[Finding]:
        """Give what only the whole history shows; `end_ms` is the time of its newest record."""
        del holdings, end_ms
        return ()

    def finding(
        self,
        change: Change,
        message: str,
        *,
        domain: str = "",
        node: str = "",
        index: int | None = None,
        inferred: str = "",
        also: tuple[Evidence, ...] = (),
    ) -> Finding:
        """Make a finding that the record shows, and the records `also` before it."""
        clique = change.key if change.clique is not None else ""
        records = (*also, evidence(change))
        reason = inferred or change.inferred
        return Finding(self.code, self.severity, message, change.time_ms, records, clique, domain, node, index, reason)


def evidence(change: Change) -> Evidence:
    """Give the record as evidence."""
    return Evidence(change.position, change.source)


def evidence_at(moment: Moment) -> Evidence:
    """Give the record at which a holding begins or ends as evidence."""
    return Evidence(moment.position, moment.source)


def seconds(milliseconds: int) -> str:
    """Give a duration for people."""
    return f"{milliseconds / 1000:.1f} s"


def counted(number: int, noun: str) -> str:
    """Give a number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

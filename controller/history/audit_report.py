"""What `cliquelog audit` says: one JSON object, CSV, or a table for people.

The JSON form is documented in docs/history.md, and scripts rely on it: fields are added, none is changed.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec
from rich.console import Console
from rich.text import Text

from controller.history.auditing import Audit
from controller.history.columns import lines, wrapped
from controller.moments import clock, doubt, relative, rfc3339
from controller.terminal import safe
from kube.names import DAEMON_SERVICE_ACCOUNT
from projections.audit.finding import Evidence, Finding, counted
from projections.audit.holdings import Holding

HOLDING_COLUMNS = ("index", "node", "from (UTC)", "after", "to", "why")
FINDING_COLUMNS = ("after", "code", "what")
DOUBT = "?"
"""Behind a time that cannot be."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula."""
SERVICE_ACCOUNT = re.compile(r"system:serviceaccount:[^:\s]+:")


class HoldingLine(msgspec.Struct, frozen=True):
    """A holding as JSON and CSV tell it: what ends it is null while it is held."""

    clique: str
    domain: str
    node: str
    index: int
    from_time: str
    to_time: str | None
    from_resource_version: str | None
    to_resource_version: str | None
    partition: int
    from_offset: int
    to_offset: int | None
    cause: str
    end_cause: str | None
    certainty: str
    time_certainty: str
    inferred: str | None
    from_source: str | None
    to_source: str | None


class RecordLine(msgspec.Struct, frozen=True):
    """A record that shows a finding."""

    partition: int
    offset: int
    source: str | None


class FindingLine(msgspec.Struct, frozen=True):
    """A finding as JSON tells it: null where it is about none in particular."""

    code: str
    severity: str
    message: str
    clique: str | None
    node: str | None
    domain: str | None
    index: int | None
    time: str
    records: list[RecordLine]
    certainty: str
    inferred: str | None


class Document(msgspec.Struct, frozen=True):
    """The one object that `--json` prints."""

    records: int
    begin: str | None
    end: str | None
    domains: dict[str, str]
    doubtful: str | None
    holdings: list[HoldingLine]
    findings: list[FindingLine]


def document(audit: Audit, now_ms: int) -> Document:
    """Give the JSON form. Times are judged as of `now_ms`."""
    return Document(
        audit.records,
        rfc3339(audit.begin_ms) if audit.records else None,
        rfc3339(audit.end_ms) if audit.records else None,
        audit.names,
        doubtful(audit, now_ms),
        [_holding(one, now_ms) for one in audit.holdings],
        [_finding(one) for one in audit.findings],
    )


def _holding(one: Holding, now_ms: int) -> HoldingLine:
    end = one.end
    moments = [one.begin, *([end] if end else [])]
    doubts = {reason: None for moment in moments for reason in (moment.dated, doubt(moment.time_ms, now_ms)) if reason}
    reasons = [*one.inferred, *(f"its times: {reason}" for reason in doubts)]
    return HoldingLine(
        one.clique,
        one.domain,
        one.node,
        one.index,
        rfc3339(one.begin.time_ms),
        rfc3339(end.time_ms) if end else None,
        None if one.first_version is None else str(one.first_version),
        None if one.end_version is None else str(one.end_version),
        one.begin.position.partition,
        one.begin.position.offset,
        end.position.offset if end else None,
        one.begin.cause,
        end.cause if end else None,
        "inferred" if one.inferred else "observed",
        "inferred" if doubts else "observed",
        "; ".join(reasons) or None,
        one.begin.source or None,
        (end.source or None) if end else None,
    )


def _finding(one: Finding) -> FindingLine:
    return FindingLine(
        one.code,
        one.severity,
        one.message,
        one.clique or None,
        one.node or None,
        one.domain or None,
        one.index,
        rfc3339(one.time_ms),
        [_record(record) for record in one.records],
        "inferred" if one.inferred else "observed",
        one.inferred or None,
    )


def _record(record: Evidence) -> RecordLine:
    return RecordLine(record.position.partition, record.position.offset, record.source or None)


def as_csv(audit: Audit, now_ms: int) -> str:
    """Give the holdings as CSV with a line of names. Times are judged as of `now_ms`.

    The names in an imported history may be anything: a cell that a spreadsheet would take for a formula is defused.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HoldingLine.__struct_fields__)
    for one in audit.holdings:
        writer.writerow(map(_cell, msgspec.structs.astuple(_holding(one, now_ms))))
    return text.getvalue()


def _cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def show(audit: Audit, now_ms: int, console: Console) -> None:
    """Print the tables for people: holdings by clique and domain, then findings. Times are judged as of `now_ms`."""
    _print(console, _heading(audit))
    doubt = doubtful(audit, now_ms)
    if doubt is not None:
        _print(console, wrapped(f"{DOUBT} {doubt}", console.width))
    if not audit.holdings:
        _print(console, "\nno holdings: no record of the log shows one of what is asked for")
    for (clique, domain), holdings in groupby(audit.holdings, key=lambda one: (one.clique, one.domain)):
        _print(console, f"\nclique {safe(clique)}\ndomain {_name(audit, domain)}")
        _table(HOLDING_COLUMNS, [_row(one, audit.begin_ms, now_ms) for one in holdings], console, apart=1)
    _print(console, f"\n{counted(len(audit.findings), 'finding') if audit.findings else 'no findings'}")
    if audit.findings:
        _table(FINDING_COLUMNS, [_finding_row(one, audit.begin_ms) for one in audit.findings], console)


def _print(console: Console, text: str, style: str = "") -> None:
    """Print it as it is: the names in an imported history may hold markup."""
    console.print(Text(text, style), soft_wrap=True, highlight=False)


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], console: Console, *, apart: int | None = None) -> None:
    head, *body = lines(names, rows, console.width, apart=apart)
    _print(console, head, "bold")
    _print(console, "\n".join(body))


def _heading(audit: Audit) -> str:
    if not audit.records:
        return "0 records: the log is empty"
    return f"{counted(audit.records, 'record')}, {rfc3339(audit.begin_ms)} to {rfc3339(audit.end_ms)} (UTC)"


def doubtful(audit: Audit, now_ms: int) -> str | None:
    """Say what of a history's times cannot be; None if all can."""
    doubts = [one for one in (doubt(audit.begin_ms, now_ms), doubt(audit.end_ms, now_ms)) if one]
    return f"there are times {' and '.join(dict.fromkeys(doubts))}" if audit.records and doubts else None


def _name(audit: Audit, domain: str) -> str:
    name = audit.names.get(domain)
    return safe(f"{name} ({domain})" if name else domain)


def _row(one: Holding, begin_ms: int, now_ms: int) -> tuple[str, ...]:
    return (
        f"{one.index:>5}",
        safe(one.node),
        _clock(one.begin.time_ms, now_ms),
        relative(one.begin.time_ms, begin_ms),
        _clock(one.end.time_ms, now_ms) if one.end else "held",
        safe("; ".join(_why(one))),
    )


def _clock(time_ms: int, now_ms: int) -> str:
    return clock(time_ms) + (DOUBT if doubt(time_ms, now_ms) else "")


def _why(one: Holding) -> Iterator[str]:
    yield short(one.end.cause if one.end else one.begin.cause)
    if one.inferred:
        yield "inferred, " + ", ".join(one.inferred)


def _finding_row(one: Finding, begin_ms: int) -> tuple[str, ...]:
    places = " ".join(str(record.position) for record in one.records)
    certainty = f" Inferred: {one.inferred}." if one.inferred else ""
    return relative(one.time_ms, begin_ms), one.code, safe(f"{short(one.message)}.{certainty} Records {places}")


def short(text: str) -> str:
    """Give the text with service accounts by their name alone, and that of the daemons as "a daemon"."""
    return SERVICE_ACCOUNT.sub("", text).replace(DAEMON_SERVICE_ACCOUNT, "a daemon")

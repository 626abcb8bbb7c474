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
from rich.markup import escape
from rich.table import Table

from controller.history.auditing import Audit
from controller.moments import clock, relative, rfc3339
from controller.terminal import safe
from kube.names import DAEMON_SERVICE_ACCOUNT
from projections.audit.finding import Evidence, Finding
from projections.audit.holdings import Holding

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
    holdings: list[HoldingLine]
    findings: list[FindingLine]


def document(audit: Audit) -> Document:
    """Give the JSON form."""
    return Document(
        audit.records,
        rfc3339(audit.begin_ms) if audit.records else None,
        rfc3339(audit.end_ms) if audit.records else None,
        audit.names,
        [_holding(one) for one in audit.holdings],
        [_finding(one) for one in audit.findings],
    )


def _holding(one: Holding) -> HoldingLine:
    end = one.end
    is_dated = one.begin.dated or (end.dated if end else "")
    reasons = [*one.inferred, *([f"its times: {is_dated}"] if is_dated else [])]
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
        "inferred" if is_dated else "observed",
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


def as_csv(audit: Audit) -> str:
    """Give the holdings as CSV with a line of names."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HoldingLine.__struct_fields__)
    writer.writerows(msgspec.structs.astuple(_holding(one)) for one in audit.holdings)
    return text.getvalue()


def show(audit: Audit, console: Console) -> None:
    """Print the tables for people: holdings by clique and domain, then findings."""
    console.print(_heading(audit), highlight=False)
    for (clique, domain), holdings in groupby(audit.holdings, key=lambda one: (one.clique, one.domain)):
        console.print(f"\nclique {_escape(clique)}\ndomain {_name(audit, domain)}", highlight=False, soft_wrap=True)
        console.print(_table(list(holdings), audit.begin_ms))
    console.print(f"\n{len(audit.findings) or 'no'} finding{'' if len(audit.findings) == 1 else 's'}", highlight=False)
    if audit.findings:
        console.print(_findings(audit.findings, audit.begin_ms))


def _heading(audit: Audit) -> str:
    if not audit.records:
        return "0 records: the log is empty"
    return f"{audit.records} records, {rfc3339(audit.begin_ms)} to {rfc3339(audit.end_ms)} (UTC)"


def _name(audit: Audit, domain: str) -> str:
    name = audit.names.get(domain)
    return _escape(f"{name} ({domain})" if name else domain)


def _table(holdings: Sequence[Holding], begin_ms: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("index", justify="right", no_wrap=True)
    table.add_column("node", overflow="fold")
    table.add_column("from (UTC)", no_wrap=True)
    table.add_column("after", no_wrap=True)
    table.add_column("to", no_wrap=True)
    table.add_column("why", overflow="fold")
    for one in holdings:
        table.add_row(
            str(one.index),
            _escape(one.node),
            clock(one.begin.time_ms),
            relative(one.begin.time_ms, begin_ms),
            clock(one.end.time_ms) if one.end else "held",
            _escape("; ".join(_why(one))),
        )
    return table


def _why(one: Holding) -> Iterator[str]:
    yield short(one.end.cause if one.end else one.begin.cause)
    if one.inferred:
        yield "inferred, " + ", ".join(one.inferred)


def _findings(findings: Sequence[Finding], begin_ms: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("after", no_wrap=True)
    table.add_column("code", no_wrap=True)
    table.add_column("what", overflow="fold")
    for one in findings:
        places = " ".join(str(record.position) for record in one.records)
        certainty = f" Inferred: {one.inferred}." if one.inferred else ""
        table.add_row(
            relative(one.time_ms, begin_ms), one.code, _escape(f"{short(one.message)}.{certainty} Records {places}")
        )
    return table


def short(text: str) -> str:
    """Give the text with service accounts by their name alone, and that of the daemons as "a daemon"."""
    return SERVICE_ACCOUNT.sub("", text).replace(DAEMON_SERVICE_ACCOUNT, "a daemon")


def _escape(text: str) -> str:
    """Give the text as it stands: the names in an imported history may hold markup, and what a terminal obeys."""
    return escape(safe(text))

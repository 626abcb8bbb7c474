"""A record as people read it: what it says, where it comes from, and what it changed."""

from typing import Any

import msgspec

from eventlog.events import CdcSeen, Row
from projections.audit.change import Change, RowChange


class RecordView(msgspec.Struct, frozen=True, omit_defaults=True):
    """One record. `fields` are the event's, those that say nothing left out; `rows` those of a clique object.

    `source`, `writer`, `inferred` and `dated` are the provenance of an imported record, empty for one of our own.
    `effect` has a sentence for each row that the record changed.
    """

    position: str
    key: str
    time_ms: int
    type: str
    fields: list[tuple[str, str]]
    rows: list[Row] = []
    effect: list[str] = []
    source: str = ""
    writer: str = ""
    inferred: str = ""
    dated: str = ""


def view(change: Change) -> RecordView:
    """Give the record for people."""
    event = change.event
    told: dict[str, Any] = msgspec.to_builtins(event)
    fields = [(name, _text(told[name])) for name in told if name not in {"type", "provenance", "rows"}]
    return RecordView(
        str(change.position),
        change.key,
        change.time_ms,
        told["type"],
        fields,
        list(event.rows) if isinstance(event, CdcSeen) else [],
        [_effect(row) for row in change.rows],
        change.source,
        change.writer,
        change.inferred,
        change.dated,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _effect(row: RowChange) -> str:
    if row.before is None:
        return f"row of node {row.node} came: {_row(row.after)}"
    if row.after is None:
        return f"row of node {row.node} went: it had {_row(row.before)}"
    return f"row of node {row.node}: {_row(row.after)}; before: {_row(row.before)}"


def _row(row: Row | None) -> str:
    if row is None:
        return ""
    index = "no index" if row.index is None else f"index {row.index}"
    return f"{index}, {row.ip or 'no address'}, {row.status}"

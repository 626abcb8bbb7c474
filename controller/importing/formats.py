"""Formats: what an input is, told from its content."""

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from controller.importing.audit_log import AuditLog
from controller.importing.capture import Capture
from controller.importing.snapshot import Snapshot
from controller.importing.told import UNDECODABLE, Objects, Told
from controller.importing.watch_stream import WatchStream
from controller.importing.wrapping import unwrapped


class Format(Protocol):
    """Reads the lines of one kind of input; `timed` says whether its lines state when something was so."""

    timed: bool

    def read(self, line: bytes, source: str) -> Sequence[Told]:
        """Give what the line tells; `source` names it. Raises NotUnderstood."""


class FormatName(StrEnum):
    """The formats that an import reads."""

    AUDIT = "audit"
    CAPTURE = "capture"
    SNAPSHOT = "snapshot"
    WATCH = "watch"


class Shape(StrEnum):
    """How the objects lie in an input: one a line, or as JSON or YAML over many."""

    LINES = "lines"
    JSON = "json"
    YAML = "yaml"


class _Probe(msgspec.Struct):
    """What tells the formats apart."""

    kind: msgspec.Raw = msgspec.Raw(b"")
    apiVersion: msgspec.Raw = msgspec.Raw(b"")  # noqa: N815 - as it is written
    type: msgspec.Raw = msgspec.Raw(b"")
    object: msgspec.Raw = msgspec.Raw(b"")
    told: msgspec.Raw = msgspec.Raw(b"")


_YAML = re.compile(rb"\A(#[^\n]*\n|---[^\n]*\n|\s*\n)*(- )?(apiVersion|kind|items|metadata):")
_WATCH_TYPES = {b'"ADDED"', b'"MODIFIED"', b'"DELETED"', b'"BOOKMARK"', b'"ERROR"'}


def shape_of(head: bytes) -> Shape | None:
    """Give the shape of an input by how it begins; None if it is of none. A cut off last line does not matter."""
    if any(recognise(line) for line in head.splitlines() if line.strip()):
        return Shape.LINES
    if head.lstrip()[:1] in {b"{", b"["}:
        return Shape.JSON
    return Shape.YAML if _YAML.match(head) else None


def recognise(line: bytes) -> FormatName | None:
    """Give the format of an input by one of its lines or objects; None if it is of none."""
    try:
        probe = msgspec.json.decode(line, type=_Probe)
    except UNDECODABLE:
        return FormatName.AUDIT if _is_wrapped(line) else None
    if probe.told:
        return FormatName.CAPTURE
    if bytes(probe.type) in _WATCH_TYPES and probe.object:
        return FormatName.WATCH
    if bytes(probe.apiVersion).startswith(b'"audit.k8s.io/') or not probe.kind:
        return FormatName.AUDIT if probe.kind or _is_wrapped(line) else None
    return FormatName.SNAPSHOT if probe.apiVersion else None


def _is_wrapped(line: bytes) -> bool:
    """Say whether the line is an audit event in the wrapping of a service."""
    if b"audit.k8s.io" not in line and b"protoPayload" not in line:
        return False
    try:
        return any(recognise(one) is FormatName.AUDIT for one in unwrapped(line))
    except UNDECODABLE:
        return False


def reader(name: FormatName, objects: Objects) -> Format:
    """Make the reader of a format."""
    readers: dict[FormatName, Callable[[Objects], Format]] = {
        FormatName.AUDIT: AuditLog,
        FormatName.CAPTURE: Capture,
        FormatName.SNAPSHOT: Snapshot,
        FormatName.WATCH: WatchStream,
    }
    return readers[name](objects)

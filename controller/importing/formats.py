"""Formats: what an input is, told from its content."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from controller.importing.audit_log import AuditLog
from controller.importing.told import Objects, Told
from controller.importing.watch_stream import WatchStream


class Format(Protocol):
    """Reads the lines of one kind of input; `timed` says whether its lines state when something was so."""

    timed: bool

    def read(self, line: bytes, source: str) -> Sequence[Told]:
        """Give what the line tells; `source` names it. Raises NotUnderstood."""


class FormatName(StrEnum):
    """The formats that an import reads."""

    AUDIT = "audit"
    WATCH = "watch"


class _Probe(msgspec.Struct):
    """What tells the formats apart."""

    kind: str = ""
    apiVersion: str = ""  # noqa: N815 - as it is written
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"")


def recognise(line: bytes) -> FormatName | None:
    """Give the format of an input by one of its lines; None if it is of none."""
    try:
        probe = msgspec.json.decode(line, type=_Probe)
    except msgspec.DecodeError:
        return None
    if probe.kind == "Event" and probe.apiVersion.startswith("audit.k8s.io/"):
        return FormatName.AUDIT
    return FormatName.WATCH if probe.type and probe.object else None


def reader(name: FormatName, objects: Objects) -> Format:
    """Make the reader of a format."""
    match name:
        case FormatName.AUDIT:
            return AuditLog(objects)
        case FormatName.WATCH:
            return WatchStream(objects)

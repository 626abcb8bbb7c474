"""Imports and audits in this process, on the log in memory."""

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from controller.history.auditing import Audit, audit
from controller.importing import importer, inputs, reading
from controller.importing.merging import SKEW_MS
from eventlog.log import EventLog
from eventlog.memory import MemoryLog

RECORDINGS = Path(__file__).parents[1] / "recordings"
NAMES = ("peer-burst-90", "peer-churn-54")

Fact = tuple[str, str, int, int | None, int | None]
"""Clique, node, index, and the resourceVersions at which a holding began and ended."""


class Complaints:
    """Takes note of what an import says on its way."""

    def __init__(self) -> None:
        self.bytes = 0
        self.lines: list[tuple[str, str]] = []

    def advanced(self, count: int) -> None:
        self.bytes += count

    def complained(self, source: str, reason: str) -> None:
        self.lines.append((source, reason))


async def imported(paths: Sequence[Path], *, strict: bool = True, observer: Complaints | None = None) -> MemoryLog:
    log = MemoryLog(partitions=6)
    await import_into(log, paths, strict=strict, observer=observer or Complaints())
    return log


async def import_into(
    log: EventLog, paths: Sequence[Path | str], *, strict: bool = True, observer: reading.Observer
) -> importer.Imported:
    found = inputs.files([str(path) for path in paths])
    return await importer.run(reading.recognised(found, reading.Options(None, strict), observer), log, SKEW_MS)


async def audited(paths: Sequence[Path], *, strict: bool = True) -> Audit:
    return await audit(await imported(paths, strict=strict))


def truth(name: str) -> list[Fact]:
    held = json.loads((RECORDINGS / name / "holdings.json").read_text())
    return sorted(
        (one["clique"], one["node"], one["index"], int(one["from_rv"]), one["to_rv"] and int(one["to_rv"]))
        for one in held
    )


def facts(found: Audit, *, observed: bool = False) -> list[Fact]:
    """Give what the audit says; only what it says to be observed, if asked for."""
    return sorted(
        (one.clique, one.node, one.index, one.first_version, one.end_version)
        for one in found.holdings
        if not (observed and one.inferred)
    )


def audit_log(name: str) -> Path:
    return RECORDINGS / name / "audit.jsonl.gz"


def watches(name: str) -> list[Path]:
    return sorted((RECORDINGS / name).glob("*.kubectl-watch.json.gz"))


def lines(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines(keepends=True)


def edited(path: Path, change: Callable[[dict[str, object]], object]) -> bytes:
    """Give the lines of a recording after a change of each; what becomes None is left out."""
    changed = [change(msgspec.json.decode(line)) for line in lines(path)]
    return b"".join(msgspec.json.encode(one) + b"\n" for one in changed if one is not None)

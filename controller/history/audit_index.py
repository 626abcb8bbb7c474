"""The index of a large log: what its audit gave, kept until the log or the program is another one.

Problem: an audit folds the whole log, which takes a minute for a million records, and people ask again and again, of
one node after the other. Invariant: an index is used only for the very records that it was made of, and by the very
rules; it holds nothing that the log does not, so losing it costs time only. It lies in the user's cache folder, because
a log is only read, and may be where nobody can write.
"""

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec

import eventlog
import projections
from controller.history import auditing
from controller.history.auditing import Audit
from eventlog.log import EventLog
from eventlog.record import GENESIS, chain

LEAST_RECORDS = 50_000
"""Records from which on an index is kept: a smaller log is folded in about two seconds."""
KEPT = 20
"""Indices that are kept, the newest ones."""


def folder() -> Path:
    """Give where indices are kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "cliquelog" / "audits"


async def key_of(log: EventLog, stamp: str) -> str:
    """Give what tells this log, as long as it is now, and these rules from all others. Raises LogError.

    Not all records are read for it: that what lies between the first and the last is the same, the `stamp` of the
    log's place tells.
    """
    total = hashlib.sha256(f"{_program()} {stamp}".encode())
    for partition in range(log.partitions):
        beginning, end = await log.beginning_offset(partition), await log.end_offset(partition)
        total.update(f"{beginning}/{end}".encode())
        for offset in {beginning, end - 1} if end > beginning else ():
            for record in await log.read(partition, offset, limit=1, timeout_s=0.0):
                total.update(chain(GENESIS, record))
    return total.hexdigest()


def _program() -> str:
    """Give a digest of the code that makes the state and the findings: a mended rule must not be answered from old."""
    total = hashlib.sha256()
    for package in (projections, eventlog):
        for path in sorted(Path(str(package.__file__)).parent.rglob("*.py")):
            total.update(path.read_bytes())
    total.update(Path(auditing.__file__).read_bytes())
    return total.hexdigest()


def load(key: str) -> Audit | None:
    """Give the audit that was kept under the key; None if there is none that can be read."""
    try:
        return msgspec.msgpack.decode((folder() / key).read_bytes(), type=Audit)
    except (OSError, msgspec.DecodeError):
        return None


def save(key: str, audit: Audit) -> None:
    """Keep the audit, and only the newest ones; where that cannot be done, the next one takes its time again."""
    with suppress(OSError):
        folder().mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder(), delete=False) as file:
            file.write(msgspec.msgpack.encode(audit))
        Path(file.name).replace(folder() / key)
        newest = sorted(folder().iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in newest[KEPT:]:
            path.unlink(missing_ok=True)

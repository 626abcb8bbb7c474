"""How fast one core reads the SQLite log back: records alone, and with decoding and the hash chain.

python -m bench.read [FOLDER] [RECORDS]    the log is made in FOLDER (default: the current one) and removed
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.events import formation
from bench.machine import describe
from eventlog.codec import decode
from eventlog.record import GENESIS, Record, chain
from eventlog.sqlite import SqliteLog

LIMIT = 1_000


async def fill(path: Path, records: int) -> None:
    """Make a log of so many records."""
    log = await SqliteLog.open(path)
    entries = list(formation(records))
    for start in range(0, records, 10_000):
        await log.append(entries[start : start + 10_000])
    await log.close()


async def measure(path: Path, what: str, work: Callable[[Sequence[Record]], None]) -> None:
    """Read every partition from its beginning to its end, do the work on each answer, and print the pace."""
    log = await SqliteLog.open_readonly(path)
    count = 0
    began, cpu = time.perf_counter(), time.process_time()
    for partition in range(log.partitions):
        offset = 0
        while records := await log.read(partition, offset, limit=LIMIT, timeout_s=0):
            work(records)
            count += len(records)
            offset = records[-1].offset + 1
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    await log.close()
    print(f"{what:<24} {count:>10,} {count / took:>12,.0f} {took / count * 1e6:>12.2f} {cpu / count * 1e6:>14.2f}")


def nothing(_: Sequence[Record]) -> None:
    """Leave the records alone."""


def decoded(records: Sequence[Record]) -> None:
    """Decode each record's event."""
    for record in records:
        decode(record)


def chained(records: Sequence[Record]) -> None:
    """Take each record into a hash chain."""
    head = GENESIS
    for record in records:
        head = chain(head, record)


def both(records: Sequence[Record]) -> None:
    """Decode each record's event and take it into a hash chain."""
    head = GENESIS
    for record in records:
        decode(record)
        head = chain(head, record)


async def main(folder: Path, records: int) -> None:
    """Make the log and read it in each way."""
    path = folder / "log.sqlite"
    await fill(path, records)
    print(describe(folder))
    print(f"{path.stat().st_size / 1e6:,.0f} MB, reads of {LIMIT} records")
    print(f"{'':<24} {'records':>10} {'records/s':>12} {'us/record':>12} {'CPU us/record':>14}")
    for what, work in (
        ("read", nothing),
        ("read, decode", decoded),
        ("read, chain", chained),
        ("read, decode, chain", both),
    ):
        await measure(path, what, work)


if __name__ == "__main__":
    arguments = [*sys.argv[1:], "."][:1] + [*sys.argv[2:], "500000"][:1]
    with tempfile.TemporaryDirectory(prefix="bench-", dir=arguments[0]) as made:
        asyncio.run(main(Path(made), int(arguments[1])))

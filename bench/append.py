"""How fast the SQLite log appends with acknowledgement, that is with each answer after a sync to disk."""

import asyncio
import statistics
import time
from pathlib import Path

from bench.tables import Table
from bench.workload import Shape, entries
from eventlog.log import EventLog
from eventlog.record import Entry
from eventlog.sqlite import SqliteLog

SETTINGS = ((1, 1), (8, 1), (64, 1), (1, 100), (8, 100))
"""Appenders at once, and records per append."""

COLUMNS = ("appenders", "batch", "appends/s", "records/s", "p50 ms", "p99 ms", "max ms")


async def measure(folder: Path, shape: Shape, seconds: float) -> Table:
    """Let appenders append for so many seconds per setting, each batch after the acknowledgement of the one before."""
    supply = list(entries(shape, 20_000))
    rows = [await _setting(folder, supply, appenders, batch, seconds) for appenders, batch in SETTINGS]
    return Table(
        "Append with acknowledgement (SQLite, WAL, synchronous=FULL, group commit)",
        COLUMNS,
        tuple(rows),
    )


async def _setting(
    folder: Path, supply: list[Entry], appenders: int, batch: int, seconds: float
) -> tuple[int | float, ...]:
    log = await SqliteLog.open(folder / f"{appenders}x{batch}.sqlite")
    try:
        return await setting(log, supply, appenders, batch, seconds)
    finally:
        await log.close()


async def setting(
    log: EventLog, supply: list[Entry], appenders: int, batch: int, seconds: float
) -> tuple[int | float, ...]:
    """Measure one setting on a log, and give its row of the table."""
    delays: list[float] = []
    end = time.perf_counter() + seconds

    async def appender(number: int) -> None:
        place = number * 1_000
        while time.perf_counter() < end or not delays:
            group = [supply[(place + step) % len(supply)] for step in range(batch)]
            place += batch
            began = time.perf_counter()
            await log.append(group)
            delays.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(appender(number) for number in range(appenders)))
    took = time.perf_counter() - began
    cuts = statistics.quantiles(delays, n=100) if len(delays) > 1 else delays * 99
    pace = round(len(delays) / took)
    return appenders, batch, pace, pace * batch, cuts[49] * 1e3, cuts[98] * 1e3, max(delays) * 1e3

"""How fast the SQLite log appends with acknowledgement, that is with each answer after a sync to disk.

python -m bench.append [FOLDER]    the log is made in FOLDER (default: a new one in the current folder) and removed
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.events import formation
from bench.machine import describe
from eventlog.sqlite import SqliteLog

SECONDS = 3.0


async def measure(folder: Path, appenders: int, batch: int) -> None:
    """Let so many appenders each append batch after batch, and print what came of it."""
    log = await SqliteLog.open(folder / f"{appenders}x{batch}.sqlite")
    supply = list(formation(20_000))
    delays: list[float] = []
    end = time.perf_counter() + SECONDS

    async def appender(number: int) -> None:
        place = number * 1_000
        while time.perf_counter() < end:
            entries = [supply[(place + step) % len(supply)] for step in range(batch)]
            place += batch
            began = time.perf_counter()
            await log.append(entries)
            delays.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(appender(number) for number in range(appenders)))
    took = time.perf_counter() - began
    cuts = statistics.quantiles(delays, n=100)
    print(
        f"{appenders:>9} {batch:>6} {len(delays) / took:>12,.0f} {len(delays) * batch / took:>12,.0f} "
        f"{cuts[49] * 1e3:>8.2f} {cuts[98] * 1e3:>8.2f} {max(delays) * 1e3:>8.1f} {log.wal_bytes / 1e6:>8.1f}"
    )
    await log.close()


async def main(folder: Path) -> None:
    """Measure each setting in turn."""
    print(describe(folder))
    heads = f"{'p50 ms':>8} {'p99 ms':>8} {'max ms':>8} {'WAL MB':>8}"
    print(f"{'appenders':>9} {'batch':>6} {'appends/s':>12} {'records/s':>12} {heads}")
    for appenders, batch in ((1, 1), (8, 1), (64, 1), (1, 100), (8, 100)):
        await measure(folder, appenders, batch)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="bench-", dir=sys.argv[1] if len(sys.argv) > 1 else ".") as made:
        asyncio.run(main(Path(made)))

"""How fast one core folds a log from SQLite, and where the time goes.

The whole is what the controller does: reads of `SqliteLog`, then `PartitionFold.apply` for each record. The stages are
measured on their own as well, over the same records held in memory. They need not add up to the whole, which also
changes threads between reading and folding and keeps less in the processor's caches.
"""

import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from itertools import islice
from operator import itemgetter
from pathlib import Path

from bench.tables import Table
from bench.workload import Shape, entries
from controller.engines.consumer import ConsumerConfig
from eventlog.codec import decode
from eventlog.record import GENESIS, Record, chain
from eventlog.sqlite import SqliteLog
from projections.clique import CliqueState
from projections.fold import Aggregate, apply, is_clique
from projections.partition import PartitionFold, digest

ROUNDS = 3
"""Every stage is measured so often, and its best round counts: the others tell more of the machine's other work."""
CHUNK = 10_000
"""Records per append while the log is made."""


class FoldsDiffer(Exception):
    """What was folded is not what the workload means, so its figures would say nothing."""


async def fill(path: Path, shape: Shape, records: int) -> None:
    """Make a log of so many records."""
    log = await SqliteLog.open(path)
    try:
        supply = entries(shape, records)
        while chunk := list(islice(supply, CHUNK)):
            await log.append(chunk)
    finally:
        await log.close()


async def measure(path: Path) -> tuple[Table, Table]:
    """Fold the log, measure the stages, and give a table of the stages and one of `apply` by event type.

    Raises FoldsDiffer.
    """
    records, *best = await _read(path)
    reading = (best[0], best[1])
    for _ in range(ROUNDS - 1):
        reading = min(reading, (await _read(path))[1:])
    folded = [await _fold(path) for _ in range(ROUNDS)]
    folds, seconds, cpu = min(folded, key=itemgetter(1))
    if len({digest(each) for each, *_ in folded}) > 1:
        raise FoldsDiffer("two folds of one log differ: a defect of the fold; run `cliquelog verify` on the log")
    if refused := sum(_inadmissible(state) for fold in folds for state in fold.aggregates.values()):
        raise FoldsDiffer(f"{refused} decisions of the workload were not admissible: mend bench/workload.py")
    rounds = [_apply_by_type(records) for _ in range(ROUNDS)]
    by_type = {name: min(seconds[name] for seconds, _ in rounds) for name in rounds[0][0]}
    counts = rounds[0][1]
    applying = sum(by_type.values())
    rows: list[tuple[str, float, float]] = [
        ("read", *reading),
        ("decode", *min(_decode(records) for _ in range(ROUNDS))),
        ("hash chain", *min(_chain(records) for _ in range(ROUNDS))),
        ("apply", applying, applying),
        ("whole: read and fold", seconds, cpu),
    ]
    count, size = len(records), sum(len(record.value) for record in records)
    stages = Table(
        f"Fold from SQLite on one core: {count:,} records, {size / count:,.0f} bytes each (goal 100,000/s)",
        ("stage", "records/s", "us/record", "CPU us/record"),
        tuple((name, round(count / s), s / count * 1e6, cpu / count * 1e6) for name, s, cpu in rows),
        (f"digest {digest(folds)[:16]} in each of {ROUNDS} rounds, of which the best counts",),
    )
    return stages, _types(by_type, counts)


async def read_all(log: SqliteLog) -> AsyncGenerator[Sequence[Record], None]:
    """Give all records of all partitions, in batches as the consumer reads them."""
    for partition in range(log.partitions):
        offset = 0
        while records := await log.read(partition, offset, limit=ConsumerConfig().batch, timeout_s=0):
            offset = records[-1].offset + 1
            yield records


async def _read(path: Path) -> tuple[list[Record], float, float]:
    log = await SqliteLog.open_readonly(path)
    kept: list[Record] = []
    began, cpu = time.perf_counter(), time.process_time()
    try:
        async with aclosing(read_all(log)) as batches:
            async for records in batches:
                kept.extend(records)
    finally:
        await log.close()
    return kept, time.perf_counter() - began, time.process_time() - cpu


async def _fold(path: Path) -> tuple[list[PartitionFold], float, float]:
    log = await SqliteLog.open_readonly(path)
    folds = [PartitionFold() for _ in range(log.partitions)]
    began, cpu = time.perf_counter(), time.process_time()
    try:
        async with aclosing(read_all(log)) as batches:
            async for records in batches:
                fold = folds[records[0].partition]
                for record in records:
                    fold.apply(record)
    finally:
        await log.close()
    return folds, time.perf_counter() - began, time.process_time() - cpu


def _decode(records: Sequence[Record]) -> tuple[float, float]:
    began, cpu = time.perf_counter(), time.process_time()
    for record in records:
        decode(record)
    return time.perf_counter() - began, time.process_time() - cpu


def _chain(records: Sequence[Record]) -> tuple[float, float]:
    head = GENESIS
    began, cpu = time.perf_counter(), time.process_time()
    for record in records:
        head = chain(head, record)
    return time.perf_counter() - began, time.process_time() - cpu


def _apply_by_type(records: Sequence[Record]) -> tuple[dict[str, float], Counter[str]]:
    """Give the seconds spent in `apply`, and the number of records, by event type and kind of key."""
    states: dict[str, Aggregate] = {}
    seconds: dict[str, float] = {}
    counts: Counter[str] = Counter()
    for record in records:
        event, key = decode(record), record.key
        before = states.get(key)
        began = time.perf_counter()
        states[key] = apply(before, key, event)
        took = time.perf_counter() - began
        name = f"{record.headers.event_type} ({'clique' if is_clique(key) else 'domain'})"
        seconds[name] = seconds.get(name, 0.0) + took
        counts[name] += 1
    return seconds, counts


def _types(seconds: dict[str, float], counts: Counter[str]) -> Table:
    total = sum(seconds.values())
    names = sorted((name for name in seconds if seconds[name] >= total / 200), key=lambda name: -seconds[name])
    return Table(
        "apply by event type and kind of key (those of half a percent and more)",
        ("event", "records", "us each", "% of apply"),
        tuple((name, counts[name], seconds[name] / counts[name] * 1e6, seconds[name] / total * 100) for name in names),
    )


def _inadmissible(state: Aggregate) -> int:
    return state.inadmissible if isinstance(state, CliqueState) else 0

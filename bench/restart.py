"""How long a controller takes from its start until its state is back: `PartitionConsumer.restore` of all partitions.

Four cases. `none`: no snapshot, the whole log is folded. `clean stop`: a snapshot of each partition's end. `as kept`:
each partition's snapshot is where the consumer takes it, every `snapshot_records` records, so a killed controller has
the rest to fold. `longest tail`: each was about to take its next one, the worst moment to be killed. `seed` is what
follows a restore: the normaliser is told what the folded state knows. The file is in the page cache throughout.
"""

import gc
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from bench.fold import FoldsDiffer
from bench.tables import Cell, Table
from controller.appender import Appender
from controller.engines.consumer import ConsumerConfig, PartitionConsumer
from controller.metrics import Metrics
from controller.observing.normaliser import Normaliser
from controller.observing.seeding import observed
from eventlog.log import EventLog, SnapshotStore
from eventlog.sqlite import SqliteLog, SqliteSnapshots
from kube.clock import SystemClock
from projections.partition import PartitionFold, digest
from projections.settings import Settings

Taken = Callable[[int], int]
"""From a partition's end: the offset that its snapshot was taken at; 0 for none."""


async def measure(path: Path, every: int = ConsumerConfig().snapshot_records) -> Table:
    """Restore a log that has no snapshots yet in each case, and give the table.

    Raises FoldsDiffer if the cases end in different states.
    """
    cases: Mapping[str, Taken] = {
        # In this order each partition's snapshots get newer: an older one would not replace a newer one.
        "none": lambda _: 0,
        "longest tail": lambda end: max(0, end - every + 1),
        "as kept": lambda end: end // every * every,
        "clean stop": lambda end: end,
    }
    rows: list[tuple[Cell, ...]] = []
    digests: set[str] = set()
    saves: list[Save] = []
    for name, taken in cases.items():
        saves += await _save_snapshots(path, taken)
        figures, state = await _restore(path)
        rows.append((name, *figures))
        digests.add(state)
    if len(digests) > 1:
        raise FoldsDiffer("restores of one log end in different states: run `cliquelog verify` on it")
    return Table(
        f"Restart, all partitions, a snapshot every {every:,} records of a partition (goal 2 s at 1,000,000 records)",
        ("snapshots", "log", "folded", "MB", "restore s", "CPU s", "seed s"),
        tuple(rows),
        (f"digest {digests.pop()[:16]} in every case; MB: the snapshots' size", *_largest(saves)),
    )


Save = tuple[int, float, float]
"""A snapshot's bytes, the seconds that its encoding took, and those until it was durable."""


async def _save_snapshots(path: Path, taken: Taken) -> list[Save]:
    log = await SqliteLog.open(path)
    snapshots = SqliteSnapshots(log)
    saves = []
    try:
        for partition in range(log.partitions):
            at = taken(await log.end_offset(partition))
            fold = PartitionFold()
            while fold.next_offset < at:
                for record in await log.read(partition, fold.next_offset, limit=at - fold.next_offset, timeout_s=0):
                    fold.apply(record)
            if at:
                began = time.perf_counter()
                state = fold.snapshot()
                encoded = time.perf_counter()
                await snapshots.save(partition, at, state)
                saves.append((len(state), encoded - began, time.perf_counter() - encoded))
    finally:
        await log.close()
    return saves


def _largest(saves: list[Save]) -> list[str]:
    if not saves:
        return []
    size, encoding, saving = max(saves)
    return [f"largest snapshot {size / 1e6:.2f} MB: encoded in {encoding * 1e3:.1f} ms, saved in {saving * 1e3:.1f} ms"]


async def _restore(path: Path) -> tuple[tuple[Cell, ...], str]:
    """Restore as the controller does, and give the log's records, those folded, MB, the times, and the digest."""
    log = await SqliteLog.open_readonly(path)
    snapshots = SqliteSnapshots(log)
    consumers = [new_consumer(partition, log, snapshots) for partition in range(log.partitions)]
    try:
        found = [await snapshots.load(partition) for partition in range(log.partitions)]
        gc.collect()
        began, cpu = time.perf_counter(), time.process_time()
        for consumer in consumers:
            await consumer.restore()
        restored, cpu = time.perf_counter(), time.process_time() - cpu
        _seed(consumers)
        seeded = time.perf_counter()
    finally:
        await log.close()
    records = sum(consumer.next_offset for consumer in consumers)
    size = sum(len(one.state) for one in found if one is not None)
    tail = records - sum(one.next_offset for one in found if one is not None)
    state = digest([PartitionFold(aggregates=dict(consumer.aggregates)) for consumer in consumers])
    return (records, tail, size / 1e6, restored - began, cpu, seeded - restored), state


def _seed(consumers: list[PartitionConsumer]) -> None:
    normaliser = Normaliser()
    aggregates = [item for consumer in consumers for item in consumer.aggregates.items()]
    for key, state in sorted(aggregates, key=lambda item: ("." in item[0], item[0])):
        normaliser.seed(key, observed(key, state))


def new_consumer(partition: int, log: EventLog, snapshots: SnapshotStore) -> PartitionConsumer:
    """Make a consumer that wants nothing of anybody, to be restored."""
    logger, metrics = structlog.get_logger(), Metrics()
    appender = Appender(log, SystemClock(), "bench", metrics, logger, retry_s=1.0)
    return PartitionConsumer(
        partition,
        log=log,
        source=log,
        snapshots=snapshots,
        appender=appender,
        want=lambda *_: None,
        settings=Settings(namespace="bench"),
        config=ConsumerConfig(),
        metrics=metrics,
        logger=logger,
    )

"""The log on Kafka: appends with acknowledgement, the time until a reader has them, and the restore of all partitions.

The broker is the one that `CLIQUELOG_KAFKA` names, else one that is started for this on the same machine, so that it
and the client share its cores. One broker means one replica: what replication costs is not in these figures.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from uuid import uuid4

from bench.append import COLUMNS, SETTINGS, setting
from bench.real_parts import broker_of
from bench.restart import new_consumer
from bench.tables import Cell, Table
from bench.workload import Shape, entries
from eventlog.kafka import KafkaLog, KafkaPlace, KafkaSettings, KafkaSnapshots
from eventlog.partitioner import partition_for
from tests.integration.broker.logs import Strangers, make_log

PARTITIONS = 24
READ_LIMIT = 2_000
FILL_BATCH = 2_000


async def measure(folder: Path, shape: Shape, seconds: float, records: int) -> list[Table]:
    """Measure on a fresh log; `records` is how many are restored."""
    async with broker_of(folder) as servers:
        appends = [await _appends(servers, shape, seconds, linger_ms) for linger_ms in (0, 5)]
        return [*appends, await _delays(servers, seconds), await _restore(servers, shape, records)]


@asynccontextmanager
async def _fresh(servers: str, settings: KafkaSettings) -> AsyncIterator[KafkaLog]:
    name = f"cliquelog-bench-{uuid4().hex[:12]}"
    place = KafkaPlace(tuple(servers.split(",")), name, f"{name}.snapshots")
    await make_log(place, PARTITIONS)
    log = await KafkaLog.open(place, settings, partitions=PARTITIONS, foreign=Strangers())
    try:
        yield log
    finally:
        await log.close()


async def _appends(servers: str, shape: Shape, seconds: float, linger_ms: int) -> Table:
    supply = list(entries(shape, 20_000))
    async with _fresh(servers, KafkaSettings(linger_ms=linger_ms)) as log:
        await setting(log, supply, 8, 10, min(1.0, seconds))  # The broker's first requests are its compiler's.
        rows = [await setting(log, supply, appenders, batch, seconds) for appenders, batch in SETTINGS]
    return Table(
        f"Append with acknowledgement (Kafka, idempotent, acks=all, linger.ms={linger_ms})", COLUMNS, tuple(rows)
    )


async def _delays(servers: str, seconds: float) -> Table:
    """Time from an append's call until a read that waits has the record: what a decision takes to have effect."""
    supply = list(entries(Shape(1, 1), 50))
    delays: list[float] = []
    async with _fresh(servers, KafkaSettings()) as log:
        entry = supply[0]
        partition = partition_for(entry.key, PARTITIONS)
        offset = await log.end_offset(partition)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or not delays:
            reading = asyncio.create_task(log.read(partition, offset, limit=READ_LIMIT, timeout_s=30.0))
            await asyncio.sleep(0.01)
            began = time.perf_counter()
            await log.append([entry])
            offset = (await reading)[-1].offset + 1
            delays.append(time.perf_counter() - began)
    cuts = statistics.quantiles(delays, n=100) if len(delays) > 1 else delays * 99
    row = (len(delays), cuts[49] * 1e3, cuts[98] * 1e3, max(delays) * 1e3)
    return Table("From append to a waiting read (Kafka)", ("records", "p50 ms", "p99 ms", "max ms"), (row,))


async def _restore(servers: str, shape: Shape, records: int) -> Table:
    rows: list[tuple[Cell, ...]] = []
    async with _fresh(servers, KafkaSettings()) as filled:
        supply = entries(shape, records)
        while batch := list(islice(supply, FILL_BATCH)):
            await filled.append(batch)
        for name, work in (("read", _read), ("read and fold (PartitionConsumer.restore)", _fold)):
            # As after a restart. A reader that was at the end has a fetch under way there that must come back first.
            log = await KafkaLog.open(filled.place, KafkaSettings(), partitions=PARTITIONS, foreign=Strangers())
            wall, cpu = time.perf_counter(), time.process_time()
            for partition in range(PARTITIONS):
                await work(log, partition)
            took, busy = time.perf_counter() - wall, time.process_time() - cpu
            await log.close()
            rows.append((name, records, took, busy, round(records / took), took / records * 1e6))
    return Table(
        f"Restore of {PARTITIONS} partitions one after the other, without snapshots (Kafka)",
        ("", "records", "s", "CPU s", "records/s", "us/record"),
        tuple(rows),
        ("each connects its readers first; the broker's files are in the page cache",),
    )


async def _read(log: KafkaLog, partition: int) -> None:
    offset, end = await log.beginning_offset(partition), await log.end_offset(partition)
    while offset < end:
        offset = (await log.read(partition, offset, limit=READ_LIMIT, timeout_s=0.0))[-1].offset + 1


async def _fold(log: KafkaLog, partition: int) -> None:
    await new_consumer(partition, log, KafkaSnapshots(log)).restore()

"""Logs on Kafka, as the commands open, make and check them.

A module of its own, imported only where a place says `kafka:`: the client library takes a tenth of a second to load,
which a log in a file need not pay.
"""

from collections.abc import Callable
from pathlib import Path

from eventlog.kafka import KafkaLog, KafkaSnapshots, parse, topics
from eventlog.kafka.driver import Cluster
from eventlog.kafka.settings import read
from eventlog.kafka.topics import Wanted
from eventlog.log import EventLog, SnapshotStore
from eventlog.record import Position


async def open_for_writing(
    place: str, partitions: int | None, config: Path | None, foreign: Callable[[Position, str], None]
) -> tuple[EventLog, SnapshotStore]:
    """Open a log that `topics create` made. Raises LogError."""
    log = await KafkaLog.open(parse(place), read(config), partitions=partitions, foreign=foreign)
    return log, KafkaSnapshots(log)


async def open_readonly(
    place: str, config: Path | None, foreign: Callable[[Position, str], None]
) -> tuple[EventLog, SnapshotStore]:
    """Open a log for reading only. Raises LogError."""
    log = await KafkaLog.open_readonly(parse(place), read(config), foreign=foreign)
    return log, KafkaSnapshots(log)


async def open_to_copy(place: str, config: Path | None, foreign: Callable[[Position, str], None]) -> EventLog:
    """Open a log for reading, with the partitions that it was made with. Raises LogError."""
    return await KafkaLog.open_as_made(parse(place), read(config), foreign=foreign)


async def open_or_make(
    place: str, config: Path | None, wanted: Wanted, foreign: Callable[[Position, str], None]
) -> EventLog:
    """Open a log for appending, after its topics are made if they are not there. Raises LogError."""
    await create(place, config, wanted)
    log, _ = await open_for_writing(place, wanted.partitions, config, foreign)
    return log


async def create(place: str, config: Path | None, wanted: Wanted) -> tuple[bool, topics.Report]:
    """Make a log's topics; give whether anything had to be made, and what is there now. Raises LogError."""
    where = parse(place)
    cluster = await Cluster.open(where, read(config))
    try:
        return await topics.create(cluster, where, wanted), await topics.report(cluster, where)
    finally:
        await cluster.close()


async def check(place: str, config: Path | None) -> topics.Report:
    """Look at a log's topics. Raises LogError."""
    where = parse(place)
    cluster = await Cluster.open(where, read(config))
    try:
        return await topics.report(cluster, where)
    finally:
        await cluster.close()

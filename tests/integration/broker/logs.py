"""Logs on a test broker."""

from eventlog.kafka import KafkaPlace, KafkaSettings
from eventlog.kafka.driver import Cluster
from eventlog.kafka.topics import Wanted, create


async def make_log(place: KafkaPlace, partitions: int) -> None:
    """Make a log as `cliquelog topics create` does, on one broker."""
    cluster = await Cluster.open(place, KafkaSettings())
    try:
        await create(cluster, place, Wanted(partitions, replication=1, min_insync=1))
    finally:
        await cluster.close()

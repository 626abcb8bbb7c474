"""Logs on a test broker, and what others do to their topics behind a log's back."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from eventlog.kafka import KafkaLog, KafkaPlace, KafkaSettings
from eventlog.kafka.driver import Cluster
from eventlog.kafka.topics import Wanted, create
from eventlog.record import Position


class Strangers(dict[Position, str]):
    """What a log told of records that are none of its own."""

    def __call__(self, position: Position, reason: str) -> None:
        """Take note."""
        self[position] = reason


async def make_log(place: KafkaPlace, partitions: int) -> None:
    """Make a log as `cliquelog topics create` does, on one broker."""
    cluster = await Cluster.open(place, KafkaSettings())
    try:
        await create(cluster, place, Wanted(partitions, replication=1, min_insync=1))
    finally:
        await cluster.close()


@asynccontextmanager
async def opened(place: KafkaPlace, settings: KafkaSettings | None = None) -> AsyncIterator[KafkaLog]:
    """Open a log for the time of the block."""
    log = await KafkaLog.open(place, settings or KafkaSettings(), partitions=None, foreign=Strangers())
    try:
        yield log
    finally:
        await log.close()


@asynccontextmanager
async def admin(place: KafkaPlace) -> AsyncIterator[AIOKafkaAdminClient]:
    """Administer the brokers."""
    client = AIOKafkaAdminClient(bootstrap_servers=list(place.servers))
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def make_topic(place: KafkaPlace, name: str, partitions: int, config: Mapping[str, str]) -> None:
    """Make a topic that nobody of ours knows."""
    async with admin(place) as client:
        await client.create_topics([NewTopic(name, partitions, 1, topic_configs=dict(config))])


async def delete_topic(place: KafkaPlace, name: str) -> None:
    """Delete a topic."""
    async with admin(place) as client:
        await client.delete_topics([name])


async def set_config(place: KafkaPlace, name: str, config: Mapping[str, str]) -> None:
    """Replace a topic's settings."""
    async with admin(place) as client:
        await client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, dict(config))])


async def add_partitions(place: KafkaPlace, name: str, partitions: int) -> None:
    """Give a topic more partitions."""
    async with admin(place) as client:
        await client.create_partitions({name: NewPartitions(partitions)})


async def delete_records(place: KafkaPlace, partition: int, before: int) -> None:
    """Delete the records of the log below an offset."""
    async with admin(place) as client:
        await client.delete_records({TopicPartition(place.topic, partition): RecordsToDelete(before)})


async def put(
    place: KafkaPlace,
    topic: str,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    headers: Mapping[str, bytes],
) -> int:
    """Put a record into a topic as any program may, and give its offset."""
    producer = AIOKafkaProducer(bootstrap_servers=list(place.servers))
    await producer.start()
    try:
        done = await producer.send_and_wait(
            topic, value=value, key=key, partition=partition, headers=list(headers.items())
        )
        return int(done.offset)
    finally:
        await producer.stop()

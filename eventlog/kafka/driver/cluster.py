"""The brokers as one log uses them: its topics, their offsets, and the makers of readers and producers.

A broker answers the requests of one connection one after the other, and a fetch that waits for records holds up those
behind it. So each partition that is read has a reader with a connection of its own, and questions about offsets go
over another.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    KafkaError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    for_code,
)

from eventlog.kafka.driver import group
from eventlog.kafka.driver.connecting import forbidden, reach, reason, security
from eventlog.kafka.driver.messages import MESSAGE_BYTES, Message, OutOfRange, TopicDescription
from eventlog.kafka.driver.producer import Producer, discard
from eventlog.kafka.driver.reader import Reader, start, stop
from eventlog.kafka.place import KafkaPlace
from eventlog.kafka.settings import KafkaSettings
from eventlog.log import LogUnavailable

_BATCH_BYTES = 256 << 10
_FETCH_WAIT_MS = 500
_RETRY_MS = 250
_CREATION_MENDS: Mapping[type[KafkaError], str] = {
    ClusterAuthorizationFailedError: "allow this user Create on it",
    InvalidReplicationFactorError: "give a --replication-factor of no more than the brokers, or start more",
    InvalidTopicError: "give another topic",
    TopicAuthorizationFailedError: "allow this user Create on it",
}


class Cluster:
    """The brokers, as one log uses them. Made by `open`."""

    def __init__(self, place: KafkaPlace, settings: KafkaSettings) -> None:
        self._place = place
        self._settings = settings
        self._request_s = settings.request_ms / 1000
        self._asking = self._consumer()

    @classmethod
    async def open(cls, place: KafkaPlace, settings: KafkaSettings) -> "Cluster":
        """Connect. Raises LogUnavailable if no broker answers, LogUnreadable if it does not let this client in."""
        # Its retries log several lines a second and connection; what they mean leaves here as errors.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        await reach(place, settings)
        cluster = cls(place, settings)
        async with cluster._reported("connect"):
            await start(cluster._asking)
        return cluster

    async def close(self) -> None:
        """Disconnect."""
        await stop(self._asking)

    @property
    def patience_s(self) -> float:
        """How long to wait for records that must be there."""
        return self._settings.delivery_ms / 1000

    # Topics

    async def describe(self, *names: str) -> list[TopicDescription | None]:
        """Describe topics; None for one that is not there, or that this user may not see."""
        async with self._admin() as admin:
            # All topics: to ask for one by name would make it, where brokers make topics on demand.
            listed = {topic["topic"]: topic for topic in await admin.describe_topics() if topic["partitions"]}
            there = [name for name in names if name in listed]
            config = await self._config(admin, there) if there else {}
        return [
            TopicDescription(
                name,
                len(listed[name]["partitions"]),
                min(len(partition["replicas"]) for partition in listed[name]["partitions"]),
                config[name],
            )
            if name in listed
            else None
            for name in names
        ]

    async def create_topics(self, *wanted: TopicDescription) -> None:
        """Make topics, all of them or none; those of the names that are there already are left as they are."""
        topics = [NewTopic(one.name, one.partitions, one.replication, topic_configs=dict(one.config)) for one in wanted]
        async with self._admin() as admin:
            for validate_only in (True, False):
                answer = await admin.create_topics(topics, validate_only=validate_only)
                for name, code, *message in answer.topic_errors:
                    error = for_code(code)
                    if code and error is not TopicAlreadyExistsError:
                        told = ((message[0] if message else "") or error.description).rstrip(".")
                        mend = _CREATION_MENDS.get(error, "correct that, or ask who looks after the brokers")
                        raise LogUnavailable(f"the brokers did not make topic {name}: {told}; {mend}")

    async def _config(self, admin: AIOKafkaAdminClient, names: Sequence[str]) -> dict[str, dict[str, str]]:
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
        found = {}
        for answer in await admin.describe_configs(resources):
            for code, message, _, name, entries in answer.resources:
                if code:
                    raise LogUnavailable(
                        f"the settings of topic {name} cannot be read: {message or for_code(code).description}; "
                        "allow this user DescribeConfigs on it"
                    )
                found[name] = {str(entry[0]): str(entry[1] or "") for entry in entries}
        return found

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        admin = AIOKafkaAdminClient(**self._common())
        try:
            async with self._reported("ask for topics"):
                await admin.start()
                yield admin
        finally:
            await admin.close()

    # Offsets

    async def beginning(self, topic: str, partition: int) -> int:
        """Give the offset of the oldest record that is still there. Raises LogUnavailable."""
        return await self._offset(self._asking.beginning_offsets, topic, partition)

    async def end(self, topic: str, partition: int) -> int:
        """Give the offset after the last record that may be read. Raises LogUnavailable."""
        return await self._offset(self._asking.end_offsets, topic, partition)

    async def _offset(self, ask: Any, topic: str, partition: int) -> int:  # noqa: ANN401 - aiokafka has no types
        place = TopicPartition(topic, partition)
        async with self._reported(f"ask for offsets of {topic} {partition}"):
            return int((await ask([place]))[place])

    # Records

    async def reader(self, topic: str, partition: int) -> "Reader":
        """Connect a reader of one partition. Raises LogUnavailable."""
        consumer = self._consumer()
        try:
            async with self._reported(f"read {topic} {partition}"):
                await start(consumer)
        except BaseException:
            await stop(consumer)
            raise
        return Reader(consumer, TopicPartition(topic, partition))

    async def producer(self, topic: str, partitions: int) -> "Producer":
        """Connect a producer to a topic that must have so many partitions. Raises LogUnavailable."""
        producer = AIOKafkaProducer(
            **self._common(),
            acks="all",
            enable_idempotence=True,
            linger_ms=self._settings.linger_ms,
            max_batch_size=_BATCH_BYTES,
            max_request_size=MESSAGE_BYTES,
            metadata_max_age_ms=self._settings.metadata_age_ms,
        )
        try:
            async with self._reported("connect a producer"), asyncio.timeout(2 * self._request_s):
                await producer.start()
        except BaseException:
            await discard(producer)
            raise
        return Producer(producer, topic, partitions, self._settings.delivery_ms / 1000)

    def member(self, name: str, instance: str | None) -> AIOKafkaConsumer:
        """Make a member of a consumer group, for the event loop that this is called in; it is not connected yet."""
        return group.member(self._common(), self._settings, name, instance)

    def _consumer(self) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            **self._common(),
            auto_offset_reset="none",
            enable_auto_commit=False,
            fetch_max_wait_ms=_FETCH_WAIT_MS,
            metadata_max_age_ms=self._settings.metadata_age_ms,
        )

    def _common(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": list(self._place.servers),
            "retry_backoff_ms": _RETRY_MS,
            **security(self._settings),
        }

    @asynccontextmanager
    async def _reported(self, what: str) -> AsyncIterator[None]:
        """Raise what the library raises as an error of the port."""
        servers = ",".join(self._place.servers)
        try:
            yield
        except (TopicAuthorizationFailedError, ClusterAuthorizationFailedError) as error:
            raise forbidden(self._settings, servers, error) from error
        except (TimeoutError, KafkaError, OSError) as error:
            raise LogUnavailable(
                f"the Kafka brokers at {servers} cannot be used (to {what}: {reason(error)}); check that they run"
            ) from error


async def read_all(cluster: Cluster, topic: str, partition: int, offset: int, end: int) -> list[Message]:
    """Read a short part of a partition, over a connection for this once. Raises LogUnavailable."""
    if offset >= end:
        return []
    reader = await cluster.reader(topic, partition)
    found: list[Message] = []
    try:
        while offset < end:
            messages, reached = await reader.read(offset, end - offset, cluster.patience_s)
            if reached == offset:
                raise LogUnavailable(f"the Kafka brokers give no record of {topic} partition {partition}; check them")
            found += messages
            offset = reached
        return found
    except OutOfRange:
        # Compaction or a deletion was quicker; what is gone now counts as not there.
        return found
    finally:
        await reader.close()

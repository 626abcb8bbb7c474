"""Sends records, and tells apart what was refused and what may have arrived."""

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    InvalidTimestampError,
    KafkaError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
)

from eventlog.kafka.driver.connecting import reason
from eventlog.kafka.driver.messages import MESSAGE_BYTES, Message, SendRefused, SendUncertain, changed_partitions
from eventlog.log import InvalidRequest, LogError, LogUnavailable

_REFUSALS = (
    ClusterAuthorizationFailedError,
    InvalidTimestampError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
)
"""Answers to a send that say that nothing was appended."""


class Producer:
    """Sends to one topic, in order, each record once: idempotent, acknowledged by all replicas in sync.

    It tries again for ever. So after `SendUncertain` what was sent may still arrive; the next send waits for that.
    After `SendRefused` or a failure the library's count of records has a gap: the producer must be replaced.
    """

    def __init__(self, producer: AIOKafkaProducer, topic: str, partitions: int, delivery_s: float) -> None:
        """`partitions` is how many the topic must have."""
        self._producer = producer
        self._topic = topic
        self._partitions = partitions
        self._delivery_s = delivery_s
        self._late: set[asyncio.Future[Any]] = set()
        self.spent = False

    async def send(self, messages: Sequence[Message]) -> list[int]:
        """Append the messages and give their offsets. Raises SendRefused if none was appended, SendUncertain."""
        self._refuse_changed_topic()
        await self._settle()
        futures: list[asyncio.Future[Any]] = []
        errors: list[BaseException] = []
        try:
            async with asyncio.timeout(self._delivery_s):
                for message in messages:
                    futures.append(await self._enqueued(message))  # noqa: PERF401 - those before a failure count too
        except (TimeoutError, KafkaError) as error:
            errors.append(error)
        if futures:
            _, late = await asyncio.wait(futures, timeout=self._delivery_s)
            if late:
                self._late |= late
                raise SendUncertain(f"no acknowledgement in {self._delivery_s:.0f} s")
        errors = [error for error in (future.exception() for future in futures) if error is not None] + errors
        if not errors:
            return self._offsets(futures)
        self.spent = True
        appended = sum(future.exception() is None for future in futures)
        if not appended and all(isinstance(error, _REFUSALS) for error in errors):
            raise SendRefused(self._refusal(errors[0]))
        raise SendUncertain(reason(errors[0]))

    def _refuse_changed_topic(self) -> None:
        known = self._producer.client.cluster.partitions_for_topic(self._topic)
        if known is not None and len(known) != self._partitions:
            raise SendRefused(changed_partitions(self._topic, self._partitions, len(known)))

    async def _settle(self) -> None:
        """Wait for what earlier sends left behind, so that at most one copy of a record is on its way."""
        if not self._late:
            return
        await asyncio.wait(self._late, timeout=self._delivery_s)
        settled = {future for future in self._late if future.done()}
        self._late -= settled
        # A failure among them left a gap.
        self.spent = self.spent or any(future.exception() is not None for future in settled)
        if self._late:
            told = f"the Kafka brokers have not taken {len(self._late)} earlier records for topic {self._topic} yet"
            raise SendRefused(LogUnavailable(f"{told}; check that they run"))

    async def _enqueued(self, message: Message) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = await self._producer.send(
            self._topic,
            value=message.value,
            key=message.key,
            partition=message.partition,
            timestamp_ms=message.timestamp_ms,
            headers=list(message.headers),
        )
        return future

    def _offsets(self, futures: Sequence["asyncio.Future[Any]"]) -> list[int]:
        offsets = [int(future.result().offset) for future in futures]
        if min(offsets) < 0:
            # A broker that remembers the records as there, but no longer where.
            raise SendUncertain("the brokers had the records already")
        return offsets

    def _refusal(self, error: BaseException) -> LogError:
        told = f"the brokers refuse the records for topic {self._topic}: {reason(error)}"
        match error:
            case MessageSizeTooLargeError() | RecordListTooLargeError():
                return InvalidRequest(f"{told}; set max.message.bytes={MESSAGE_BYTES} on the topic")
            case InvalidTimestampError():
                return LogUnavailable(f"{told}; set this machine's clock, or the brokers'")
            case _:
                return LogUnavailable(f"{told}; allow this user Write on the topic")

    @property
    def owes(self) -> bool:
        """Whether records of earlier sends may still arrive."""
        return any(not future.done() for future in self._late)

    async def discard(self) -> None:
        """Disconnect at once; what is not acknowledged is not sent again."""
        await discard(self._producer)

    async def close(self) -> None:
        """Disconnect, once what was sent is acknowledged or its time is over."""
        try:
            async with asyncio.timeout(0.0 if self._late else self._delivery_s):
                await self._producer.stop()
        except (TimeoutError, KafkaError):
            await discard(self._producer)


async def discard(producer: AIOKafkaProducer) -> None:
    """Close a producer's connections without waiting for what it still holds."""
    sender = producer._sender  # noqa: SLF001 - `stop` alone waits for brokers that are away, for ever
    if sender.sender_task is not None and not sender.sender_task.done():
        sender.sender_task.cancel()
        await asyncio.wait([sender.sender_task])
    producer._closed = True  # noqa: SLF001 - else its end is reported as forgotten
    await producer.client.close()

"""Appends to one topic through a producer that is replaced when it is spent."""

import asyncio
from collections.abc import Sequence

from eventlog.kafka.driver import Cluster, Message, Producer, SendRefused, SendUncertain
from eventlog.log import AppendOutcomeUnknown


class Sender:
    """Sends records to one topic, each append a task that ends even if its caller goes away."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        """Connect nothing yet: a log that is only read has no producer."""
        self._cluster = cluster
        self._topic = topic
        self._partitions = partitions
        self._producer: Producer | None = None
        self._replacing = asyncio.Lock()
        self._under_way: set[asyncio.Task[list[int]]] = set()

    async def send(self, messages: Sequence[Message]) -> list[int]:
        """Append the messages and give their offsets.

        Raises LogUnavailable or InvalidRequest if none was appended, AppendOutcomeUnknown if that is not certain.
        """
        task = asyncio.create_task(self._send(messages), name="log-append")
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        # Shielded: records of which some were handed over already must not be left half sent.
        return await asyncio.shield(task)

    def _ended(self, task: "asyncio.Task[list[int]]") -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            # Seen, also where nobody waits for it any more.
            task.exception()

    async def _send(self, messages: Sequence[Message]) -> list[int]:
        producer = await self._ready()
        try:
            return await producer.send(messages)
        except SendRefused as refusal:
            raise refusal.error from refusal
        except SendUncertain as uncertain:
            raise AppendOutcomeUnknown(
                f"it is not known whether the records are in topic {self._topic}: {uncertain}; append them again"
            ) from uncertain

    async def _ready(self) -> Producer:
        async with self._replacing:
            if self._producer is not None and self._producer.spent:
                spent, self._producer = self._producer, None
                await spent.close()
            if self._producer is None:
                self._producer = await self._cluster.producer(self._topic, self._partitions)
            return self._producer

    async def settle(self, timeout_s: float) -> None:
        """Wait for the appends under way; what is not acknowledged in time is given up, and its producer with it."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=timeout_s)
        left = list(self._under_way)
        if self._producer is not None and (left or self._producer.owes):
            spent, self._producer = self._producer, None
            await spent.discard()
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def close(self) -> None:
        """Wait for the appends under way, and disconnect."""
        if self._under_way:
            await asyncio.wait(self._under_way)
        if self._producer is not None:
            await self._producer.close()

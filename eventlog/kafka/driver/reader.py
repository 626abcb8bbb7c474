"""Reads one partition over a connection of its own, from any offset, without a consumer group."""

import asyncio
import time

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import ConsumerStoppedError, CorruptRecordException, KafkaError, OffsetOutOfRangeError

from eventlog.kafka.driver.connecting import reason
from eventlog.kafka.driver.messages import Message, OutOfRange
from eventlog.log import LogUnavailable, LogUnreadable


async def start(consumer: AIOKafkaConsumer) -> None:
    """Start a consumer, and let its tasks begin: to stop one before they do raises CancelledError."""
    await consumer.start()
    await asyncio.sleep(0)


async def stop(consumer: AIOKafkaConsumer) -> None:
    """Stop a consumer, in a task of its own.

    Where the library waits to try a fetch again, its `stop` cancels that and lets the CancelledError out; here it would
    look as if the caller was cancelled. What `stop` then left undone is to close the connections.
    """
    stopping = asyncio.create_task(consumer.stop(), name="consumer-stop")
    await asyncio.wait([stopping])
    if stopping.cancelled():
        await consumer._client.close()  # noqa: SLF001 - see above
    else:
        stopping.result()


class Reader:
    """Reads one partition, from anywhere."""

    def __init__(self, consumer: AIOKafkaConsumer, place: TopicPartition) -> None:
        self._consumer = consumer
        self._place = place
        self._began = time.time()
        self._at: int | None = None
        self._sought_ms: int | None = None

    @property
    def end(self) -> int | None:
        """The partition's end as of the last answer; None before the first, and before the first after a leap.

        What was fetched ahead and not read holds up further fetches, so the end that came with it may be old.
        """
        if self._at is None or self._answered_ms == self._sought_ms:
            return None
        end: int | None = self._consumer.highwater(self._place)
        return end

    @property
    def _answered_ms(self) -> int | None:
        answered_ms: int | None = self._consumer.last_poll_timestamp(self._place)
        return answered_ms

    @property
    def silent_s(self) -> float:
        """Seconds since the brokers last answered a fetch, by the wall clock."""
        answered_ms = self._answered_ms if self._at is not None else None
        return time.time() - max(self._began, (answered_ms or 0) / 1000)

    async def read(self, offset: int, limit: int, timeout_s: float) -> tuple[list[Message], int]:
        """Give records from `offset` on, as they come within the time, and the offset at which to go on.

        The latter may be larger than `offset` without a record: transaction markers, and what compaction removed.
        Raises OutOfRange; LogUnreadable for records that are damaged or forbidden. A reader that is closed meanwhile
        gives nothing.
        """
        if self._at is None:
            self._consumer.assign([self._place])
        if offset != self._at:
            self._consumer.seek(self._place, offset)
            self._at = offset
            self._sought_ms = self._answered_ms
        try:
            found = await self._consumer.getmany(self._place, timeout_ms=int(timeout_s * 1000), max_records=limit)
            self._at = int(await self._consumer.position(self._place))
        except ConsumerStoppedError:
            return [], offset
        except OffsetOutOfRangeError as error:
            raise OutOfRange from error
        except CorruptRecordException as error:
            raise LogUnreadable(f"{self._where} is damaged near offset {offset}: {reason(error)}") from error
        except KafkaError as error:
            raise LogUnavailable(f"{self._where} cannot be read: {reason(error)}") from error
        messages = [
            Message(one.partition, one.offset, one.timestamp, one.key, one.value, one.headers)
            for one in found.get(self._place, ())
        ]
        return messages, self._at

    @property
    def _where(self) -> str:
        return f"topic {self._place.topic} partition {self._place.partition}"

    async def close(self) -> None:
        """Disconnect; a read that waits ends."""
        await stop(self._consumer)

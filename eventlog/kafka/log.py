"""The log in a Kafka topic.

What it relies on: an append is acknowledged by all replicas in sync, and the producer is idempotent, so within one
producer's life a record is appended once. The partition of a record is stated, never left to the client's default. The
number of partitions is that which was recorded when the log was made: a topic can be given more, and then keys would
move.

Reads need no consumer group. A read below a partition's end takes as long as the brokers need, however short its time
is: an empty answer there would be taken for the end.
"""

import asyncio
from collections.abc import Callable, Sequence

from eventlog.kafka import topics
from eventlog.kafka.driver import Cluster, Message, OutOfRange, Reader
from eventlog.kafka.form import message_of, record_of
from eventlog.kafka.place import KafkaPlace
from eventlog.kafka.sender import Sender
from eventlog.kafka.settings import KafkaSettings
from eventlog.log import InvalidRequest, LogUnavailable, LogUnreadable, OffsetOutOfRange
from eventlog.partitioner import partition_for
from eventlog.record import Entry, Position, Record, refusal

_TURN_S = 0.25
"""How long one of several reads of one partition waits before it lets the next one have its turn."""
_SILENCE_S = 15.0
"""A reader that the brokers have not answered for so long is replaced: its library may have given up unseen."""

Foreign = Callable[[Position, str], None]
"""Is told of a record that is none of the log's, and why."""


class KafkaLog:
    """An `EventLog` in a topic. Made by `open`; belongs to the event loop that it was opened in."""

    def __init__(
        self, cluster: Cluster, place: KafkaPlace, partitions: int, settings: KafkaSettings, foreign: Foreign
    ) -> None:
        self._cluster = cluster
        self._place = place
        self._foreign = foreign
        self._patience_s = settings.delivery_ms / 1000
        self._cursors = [_Cursor(cluster, place.topic, partition) for partition in range(partitions)]
        self._sender = Sender(cluster, place.topic, partitions)
        # Another one: a snapshot of megabytes must not hold up appends.
        self._snapshots = Sender(cluster, place.snapshots, partitions)
        self._closed = False

    @classmethod
    async def open(
        cls, place: KafkaPlace, settings: KafkaSettings, *, partitions: int | None, foreign: Foreign
    ) -> "KafkaLog":
        """Open the log that `cliquelog topics create` made, for appending and reading.

        `partitions` None takes what is there, another number than the log has is refused. `foreign` is told of each
        record that is none of the log's, when it is read. Raises LogUnavailable, and LogUnreadable for topics that are
        not there, not a log, or not set up so that its promises hold.
        """
        return await cls._open(place, settings, partitions, foreign, topics.examine)

    @classmethod
    async def open_readonly(cls, place: KafkaPlace, settings: KafkaSettings, *, foreign: Foreign) -> "KafkaLog":
        """Open the log for reading, also where its topics are not set up as appending needs them."""
        return await cls._open(place, settings, None, foreign, topics.recorded_partitions)

    @classmethod
    async def open_as_made(cls, place: KafkaPlace, settings: KafkaSettings, *, foreign: Foreign) -> "KafkaLog":
        """Open the log for reading, also where its topic was given more partitions since: with those it was made with.

        `foreign` is told of all that is in the others.
        """
        log = await cls._open(place, settings, None, foreign, topics.partitions_as_made)
        try:
            async for position in topics.added_since(log.cluster, place, log.partitions):
                foreign(position, "its partition was added to the topic")
        except BaseException:
            await log.close()
            raise
        return log

    @classmethod
    async def _open(
        cls,
        place: KafkaPlace,
        settings: KafkaSettings,
        partitions: int | None,
        foreign: Foreign,
        look: topics.Look,
    ) -> "KafkaLog":
        cluster = await Cluster.open(place, settings)
        try:
            there = await look(cluster, place)
            if partitions not in (None, there):
                raise LogUnreadable(
                    f"the log in {place} has {there} partitions, and {partitions} were asked for; leave that out"
                )
        except BaseException:
            await cluster.close()
            raise
        return cls(cluster, place, there, settings, foreign)

    @property
    def topic(self) -> str:
        """The log's name."""
        return self._place.topic

    @property
    def place(self) -> KafkaPlace:
        """Where the log is."""
        return self._place

    @property
    def cluster(self) -> Cluster:
        """The brokers; for `KafkaSnapshots`."""
        return self._cluster

    @property
    def partitions(self) -> int:
        """How many partitions the log has."""
        return len(self._cursors)

    async def append(self, entries: Sequence[Entry]) -> Sequence[Position]:
        """Append the entries; see `EventLog.append`. A cancelled append is carried out all the same."""
        self._refuse_if_closed()
        for entry in entries:
            if reason := refusal(entry):
                raise InvalidRequest(reason)
        if not entries:
            return []
        messages = [message_of(entry, partition_for(entry.key, self.partitions)) for entry in entries]
        offsets = await self._sender.send(messages)
        return [Position(message.partition, offset) for message, offset in zip(messages, offsets, strict=True)]

    async def read(self, partition: int, offset: int, *, limit: int, timeout_s: float) -> Sequence[Record]:
        """Give records from `offset` on; see `EventLog.read`. Raises LogUnavailable too."""
        self._refuse_if_closed()
        cursor = self._cursor(partition)
        if limit < 1:
            raise InvalidRequest(f"a read with limit {limit} asks for nothing; ask for 1 record or more")
        if offset < 0:
            raise await self._out_of_range(partition, offset)
        now = asyncio.get_running_loop().time
        deadline, patience = now() + timeout_s, now() + max(timeout_s, self._patience_s)
        while True:
            try:
                messages, next_offset, end = await cursor.read(offset, limit, min(_TURN_S, max(0.0, deadline - now())))
            except OutOfRange as error:
                raise await self._out_of_range(partition, offset) from error
            if self._closed:
                return []
            if records := self._ours(messages):
                return records
            offset = next_offset
            if offset >= end and now() >= deadline:
                return []
            if offset < end and now() >= patience:
                raise LogUnavailable(
                    f"the Kafka brokers give no record of {self.topic} partition {partition} at offset {offset}, "
                    f"though it ends at {end}; check that they run"
                )

    async def beginning_offset(self, partition: int) -> int:
        """Give the offset of the partition's first record. Raises LogUnavailable."""
        self._refuse_if_closed()
        self._cursor(partition)
        return await self._cluster.beginning(self.topic, partition)

    async def end_offset(self, partition: int) -> int:
        """Give the offset after the partition's last record. Raises LogUnavailable."""
        self._refuse_if_closed()
        self._cursor(partition)
        return await self._cluster.end(self.topic, partition)

    async def send_snapshot(self, message: Message) -> int:
        """Append a snapshot to its topic and give its offset; for `KafkaSnapshots`."""
        self._refuse_if_closed()
        return (await self._snapshots.send([message]))[0]

    async def close(self) -> None:
        """End the reads that wait, wait for the appends under way, and disconnect."""
        if self._closed:
            return
        self._closed = True
        for cursor in self._cursors:
            await cursor.close()
        await self._sender.close()
        await self._snapshots.close()
        await self._cluster.close()

    def record(self, message: Message) -> Record | None:
        """Give the record that the message is; of one that is none `foreign` is told."""
        record = record_of(self.topic, self.partitions, message)
        if isinstance(record, Record):
            return record
        self._foreign(Position(message.partition, message.offset), record)
        return None

    def _ours(self, messages: Sequence[Message]) -> list[Record]:
        return [record for message in messages if (record := self.record(message)) is not None]

    async def _out_of_range(self, partition: int, offset: int) -> OffsetOutOfRange | LogUnreadable:
        beginning = await self._cluster.beginning(self.topic, partition)
        if offset < beginning:
            return OffsetOutOfRange(
                f"partition {partition} of topic {self.topic} begins at offset {beginning}, and {offset} was asked "
                "for: the records between are gone; bring them back, or make a new log with `cliquelog topics create`"
            )
        end = await self._cluster.end(self.topic, partition)
        return LogUnreadable(
            f"partition {partition} of topic {self.topic} ends at offset {end}, and records up to {offset} were there "
            "before: acknowledged records are lost, or the topic was made anew; bring them back, or make a new log "
            "with `cliquelog topics create`"
        )

    def _cursor(self, partition: int) -> "_Cursor":
        if not 0 <= partition < self.partitions:
            raise InvalidRequest(f"there is no partition {partition}: the log has {self.partitions}, counted from 0")
        return self._cursors[partition]

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise InvalidRequest("the log is closed; open it again to use it")


class _Cursor:
    """The reader of one partition, connected when it is first needed; reads take turns."""

    def __init__(self, cluster: Cluster, topic: str, partition: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partition = partition
        self._turn = asyncio.Lock()
        self._reader: Reader | None = None
        self._closed = False

    async def read(self, offset: int, limit: int, timeout_s: float) -> tuple[list[Message], int, int]:
        """Give what comes within the time, the offset at which to go on, and the partition's end as far as known."""
        async with self._turn:
            reader = await self._connected()
            if reader is None:
                return [], offset, 0
            messages, next_offset = await reader.read(offset, limit, timeout_s)
            if messages or self._closed:
                return messages, next_offset, next_offset
            end = reader.end
            if end is None:
                end = await self._cluster.end(self._topic, self._partition)
            if next_offset < end:
                messages, next_offset = await reader.read(next_offset, limit, _TURN_S)
            return messages, next_offset, end

    async def _connected(self) -> Reader | None:
        if self._reader is not None and self._reader.silent_s > _SILENCE_S:
            silent, self._reader = self._reader, None
            await silent.close()
        if self._reader is None and not self._closed:
            self._reader = await self._cluster.reader(self._topic, self._partition)
        return self._reader

    async def close(self) -> None:
        """Disconnect; a read that waits ends."""
        self._closed = True
        if self._reader is not None:
            await self._reader.close()
        async with self._turn:
            # One that was being connected just now.
            if self._reader is not None:
                await self._reader.close()

"""The one place that speaks to Faust: a worker of a consumer group, which delivers records of the partitions it has.

Problem: Faust decides by committed offsets where a partition goes on, and loses its place in more than one way when
partitions move. Here it decides nothing: it tells which partitions are ours, and delivers what is appended to them. Who
listens knows up to where it has read and seeks there before a partition goes live (failure case C15); what is delivered
twice or not at all, it notices by the offsets. There are no tables, no exactly-once mode, no commits of Faust's own.

Faust runs its Kafka consumer in a thread with a loop of its own; what is called here runs in the loop of the caller.
"""

import asyncio
import logging
from collections.abc import AsyncIterable, Iterable, Mapping
from typing import Any, NoReturn, Protocol

import faust
from faust.transport.drivers import aiokafka as transport
from faust.types import TP
from mode import CrashingSupervisor
from mode.threads import WorkerThread

from eventlog.kafka.driver import Message, group
from eventlog.kafka.driver.connecting import reason
from eventlog.kafka.log import KafkaLog
from eventlog.log import LogError, LogUnavailable
from eventlog.record import Record

BUFFER = 1_000
"""Messages that wait for their agent, in each partition."""
CHECK_S = 1.0
STOP_S = 10.0
"""How long a worker may take to leave its group."""
THREAD_S = 3.0
"""How long its thread may take to end after that."""
NEVER_S = 1e9


class Listener(Protocol):
    """Is told of partitions and messages. It must neither block nor raise."""

    def revoked(self) -> None:
        """Take note that a rebalance has begun: for the time being no partition is ours."""

    def assigned(self, partitions: frozenset[int]) -> None:
        """Take note of the partitions that are ours now; none delivers before `GroupWorker.go_live`."""

    def deliver(self, partition: int, offset: int, record: Record | None) -> None:
        """Take what is at this offset of a partition that is live; None for what is no record of the log."""


class GroupWorker:
    """A Faust app with one agent, run in the caller's loop. Made for one life."""

    def __init__(self, log: KafkaLog, name: str, instance: str | None, listener: Listener) -> None:
        """Make the app; nothing is connected yet. `name` is the group's, `instance` that of a static member."""
        logging.getLogger("faust").setLevel(logging.CRITICAL)
        logging.getLogger("mode").setLevel(logging.CRITICAL)
        self.log = log
        self.name = name
        self.instance = instance
        self._listener = listener
        self._live: dict[int, int] = {}
        self._app = _App(self)
        self._app.on_partitions_revoked.connect(self._on_revoked, weak=False)
        self._app.on_partitions_assigned.connect(self._on_assigned, weak=False)
        source = self._app.topic(
            log.topic, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw", acks=False
        )
        self._app.agent(source, name="partition", isolated_partitions=True)(self._deliver)

    async def run(self) -> NoReturn:
        """Work until cancelled.

        Raises LogUnavailable if the group cannot be joined, or when the worker crashes; InstanceTaken.
        """
        starting = asyncio.create_task(self._app.start(), name="faust")
        try:
            while not self._app.should_stop:
                await asyncio.wait([starting], timeout=CHECK_S)
                if starting.done():
                    starting.result()
                    await asyncio.sleep(CHECK_S)
                self._app.check()
            self._app.check()  # What ended it may have come from there.
            raise self._failed(self._app.crash_reason)
        except LogError:
            raise
        except Exception as error:
            raise self._failed(error) from error
        finally:
            starting.cancel()
            await asyncio.wait([starting])

    def _failed(self, error: BaseException | None) -> LogUnavailable:
        told = "it ended" if error is None else reason(error)
        return LogUnavailable(f"the Faust worker of group {self.name} failed: {told}; start the process again")

    async def stop(self) -> None:
        """Leave the group. Raises TimeoutError if that takes too long."""
        async with asyncio.timeout(STOP_S):
            await self._app.stop()

    async def go_live(self, partition: int, offset: int) -> None:
        """Deliver the partition's messages from `offset` on, if it is still ours."""
        self._live[partition] = offset
        await self._app.go_live({partition: offset})

    def hold(self, partition: int) -> None:
        """Deliver no more of the partition until it goes live again."""
        self._live.pop(partition, None)
        self._app.hold(partition)

    def end(self, partition: int) -> int:
        """Give the partition's end as far as this worker knows it, else 0; it may be later by now."""
        return self._app.end(partition)

    @property
    def live(self) -> Mapping[int, int]:
        """By live partition: where it would go on."""
        return self._live

    async def commit(self, offsets: Mapping[int, int]) -> bool:
        """Commit where reading would go on, by partition; say whether the brokers took it, as in no rebalance."""
        return await self._app.commit_offsets(offsets)

    async def _on_revoked(self, _app: Any, revoked: Iterable[TP], **_: Any) -> None:  # noqa: ANN401 - Faust's signal
        del revoked  # The protocol is the eager one: it is all of them.
        self._live.clear()
        self._listener.revoked()

    async def _on_assigned(self, _app: Any, assigned: Iterable[TP], **_: Any) -> None:  # noqa: ANN401 - Faust's signal
        self._listener.assigned(frozenset(place.partition for place in assigned))

    async def _deliver(self, stream: Any) -> None:  # noqa: ANN401 - Faust's streams
        events: AsyncIterable[Any] = stream.events()
        async for event in events:
            found = event.message
            headers = tuple(found.headers.items() if isinstance(found.headers, Mapping) else found.headers or ())
            timestamp_ms = round(found.timestamp * 1000)
            message = Message(found.partition, found.offset, timestamp_ms, found.key, found.value, headers)
            if found.partition in self._live:
                self._live[found.partition] = found.offset + 1
            self._listener.deliver(found.partition, found.offset, self.log.record(message))


class _App(faust.App):  # type: ignore[misc]  # Faust's classes count as untyped here
    """An app that reads through our consumer, keeps no folders, and starts no producer and no web server."""

    def __init__(self, worker: GroupWorker) -> None:
        self.worker = worker
        super().__init__(
            worker.name,
            broker="aiokafka://placeholder.invalid",
            web_enabled=False,
            topic_allow_declare=False,
            topic_disable_leader=True,
            stream_buffer_maxsize=BUFFER,
            stream_wait_empty=False,
            broker_commit_interval=NEVER_S,
            broker_commit_livelock_soft_timeout=NEVER_S,
            agent_supervisor=CrashingSupervisor,
        )
        self.boot_strategy.enable_kafka_producer = False
        self.boot_strategy.enable_sensors = False

    def _new_transport(self) -> Any:  # noqa: ANN401
        return _Transport(self.conf.broker_consumer, self)

    def _create_directories(self) -> None:
        """Make none: there are no tables."""

    async def go_live(self, offsets: Mapping[int, int]) -> None:
        """Seek, and only then let the partitions deliver."""
        places = {TP(self.worker.log.topic, partition): offset for partition, offset in offsets.items()}
        await self.consumer.move(places)
        self.consumer.resume_partitions({place for place in places if place.partition in self.worker.live})

    def hold(self, partition: int) -> None:
        """Let a partition deliver no more."""
        self.consumer.pause_partitions({TP(self.worker.log.topic, partition)})

    def end(self, partition: int) -> int:
        """Give a partition's end as of the last fetch, else 0."""
        return 0 if self._consumer is None else self._consumer.thread.end(partition)

    async def commit_offsets(self, offsets: Mapping[int, int]) -> bool:
        taken: bool = await self.consumer.thread.commit_offsets(dict(offsets))
        return taken

    def check(self) -> None:
        """Raise what keeps this member out of its group."""
        if self._consumer is not None:
            self._consumer.thread.check()


class _Daemon(WorkerThread):  # type: ignore[misc]
    """A thread that no exit of the process waits for, and no stop for ever (failure case C21)."""

    def __init__(self, service: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(service, **kwargs)
        self.daemon = True

    def stop(self) -> None:
        """Wait for its end; that blocks the caller's loop, so not for long."""
        self.is_stopped.wait(THREAD_S)


class _Thread(transport.AIOKafkaConsumerThread):  # type: ignore[misc]
    """The consumer's thread, with the connection that the rest of the log has."""

    Worker = _Daemon

    def _create_worker_consumer(self, transport: Any) -> Any:  # noqa: ANN401, ARG002
        worker = self.app.worker
        return worker.log.cluster.member(worker.name, worker.instance)

    async def commit_offsets(self, offsets: dict[int, int]) -> bool:
        taken: bool = await self.call_thread(group.commit, self._ensure_consumer(), self.app.worker.log.topic, offsets)
        return taken

    def end(self, partition: int) -> int:
        return 0 if self._consumer is None else group.end(self._consumer, self.app.worker.log.topic, partition)

    async def seek_all(self, offsets: Mapping[int, int]) -> None:
        await self.call_thread(self._seek_all, offsets)

    async def _seek_all(self, offsets: Mapping[int, int]) -> None:
        for partition, offset in offsets.items():
            group.seek(self._ensure_consumer(), self.app.worker.log.topic, partition, offset)

    def check(self) -> None:
        if self._consumer is not None:
            group.check(self._consumer, self.app.worker.name)

    def on_crash(self, msg: str, *fmt: Any, **kwargs: Any) -> None:  # noqa: ANN401
        """Print nothing: the crash ends the app, and `GroupWorker.run` says so."""


class _Consumer(transport.Consumer):  # type: ignore[misc]
    """A consumer that goes on where the listener is, whatever is committed."""

    def _new_consumer_thread(self) -> _Thread:
        return _Thread(self, loop=self.loop, beacon=self.beacon)

    @property
    def thread(self) -> _Thread:
        """The thread, by the type that it has here."""
        thread: _Thread = self._thread
        return thread

    async def perform_seek(self) -> None:
        """Seek the live partitions to where they go on; the others wait. Faust asks for it before records flow."""
        live = self.app.worker.live
        self.pause_partitions({place for place in self.assignment() if place.partition not in live})
        await self.move({TP(self.app.worker.log.topic, partition): offset for partition, offset in live.items()})

    async def move(self, places: Mapping[TP, int]) -> None:
        """Seek, and forget what was read before."""
        await self.thread.seek_all({place.partition: offset for place, offset in places.items()})
        for place, offset in places.items():
            self._read_offset[place] = offset or None


class _Transport(transport.Transport):  # type: ignore[misc]
    Consumer = _Consumer

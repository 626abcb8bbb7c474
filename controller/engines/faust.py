"""The engine on Faust: processes alike share the partitions of a log on Kafka, and one of them observes for all.

A partition that comes is restored by a direct read (a Faust agent delivers much slower than the log can be read), and
only then goes live. One that goes is let go of at once: what it wants is withdrawn, and it appends nothing more. One
that stays through a rebalance keeps its state and reads on.

When may a process act on a partition? Its state may be old: after an hour in which nobody ran, the log ends an hour
ago. So the log must hold the view of somebody who observes now. Whoever leads marks each partition once its first lists
are in the log (`ViewCompleted`), and a process acts on a partition whose last mark is of the present leader. It takes
for that one whom it has seen renew the Lease and whose Lease has not run out. Without a Lease each process observes,
and acts on what its own lists have brought.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import NoReturn

from structlog.typing import FilteringBoundLogger

from controller.appender import Appender
from controller.config import GroupConfig
from controller.engines.company import Company
from controller.engines.consumer import PartitionConsumer
from controller.engines.engine import Look, MakeConsumer
from controller.engines.feed import Feed
from controller.engines.saving import save_all
from controller.engines.stall import Patience, StallDetector
from controller.exits import CONFIGURATION, Failure
from controller.metrics import Metrics
from controller.observing.live_reads import LiveReads
from controller.observing.normaliser import Normaliser
from controller.observing.seeding import observed
from controller.parts import start
from eventlog.events import ClaimTemplateSeen, ViewCompleted
from eventlog.kafka import InstanceTaken, KafkaLog
from eventlog.kafka.worker import GroupWorker, Listener
from eventlog.log import EventLog, LogUnavailable
from eventlog.partitioner import partition_for
from eventlog.record import Record
from kube.clock import Clock
from projections.domain import DomainState
from projections.effects import Target
from projections.fold import VIEW_PREFIX, Aggregate
from projections.partition import PartitionFold
from projections.visibility import ViewState

RETRY_S = 0.5
MARKED_S = 5.0
"""How often who leads looks whether the partitions still hold its mark."""
COMMIT_S = 30.0
"""How often what is folded is committed, for people who look at the group; nothing is read from it."""


def view_keys(partitions: int) -> list[str]:
    """Give for each partition a key of the log that lies in it."""
    keys: dict[int, str] = {}
    number = 0
    while len(keys) < partitions:
        key = f"{VIEW_PREFIX}{number}"
        keys.setdefault(partition_for(key, partitions), key)
        number += 1
    return [keys[partition] for partition in range(partitions)]


def worker_of(log: EventLog, group: GroupConfig) -> Callable[[Listener], GroupWorker]:
    """Give what makes the worker. Raises Failure for a log that no group can share."""
    if not isinstance(log, KafkaLog):
        raise Failure(
            "--engine faust needs a log on Kafka: give --log kafka://..., or leave --engine out", CONFIGURATION
        )
    return lambda listener: GroupWorker(log, group.name, group.instance, listener)


class FaustEngine:
    """Runs the consumers of the partitions that a Faust worker is assigned."""

    is_shared = True

    def __init__(
        self,
        *,
        log: EventLog,
        make: MakeConsumer,
        look: Look,
        make_worker: Callable[[Listener], GroupWorker],
        leader: Callable[[], str] | None,
        identity: str,
        group: str,
        patience: Patience,
        appender: Appender,
        metrics: Metrics,
        clock: Clock,
        logger: FilteringBoundLogger,
    ) -> None:
        """`leader` gives who leads now, empty if nobody; None where there is no Lease."""
        self._log = log
        self._make = make
        self._look = look
        self._worker = make_worker(self)
        self._feed = Feed(log, self._worker)
        self._leader = leader
        self._identity = identity
        self._appender = appender
        self._metrics = metrics
        self._clock = clock
        self._logger = logger
        self._keys = view_keys(log.partitions)
        self._company = Company(log, look, group, clock, metrics, logger)
        self._stalls = StallDetector(log, self._positions, self._is_writing, clock, metrics, patience)
        self._held: dict[int, PartitionConsumer] = {}
        self._assigned: frozenset[int] | None = None
        self._tending: dict[int, asyncio.Task[None]] = {}
        self._live: set[int] = set()
        self._whole: set[int] = set()
        self._own_ends: Mapping[int, int] | None = None
        self._marked_at: Mapping[int, int] = {}
        self._group: asyncio.TaskGroup | None = None
        self._is_over = False

    # What the worker tells

    def revoked(self) -> None:
        """Stop acting, on all partitions; which are kept is known when they are assigned."""
        if self._is_over:
            return
        self._assigned = None
        self._metrics.rebalanced()
        self._let_go(frozenset(self._held))
        self._feed.clear()

    def assigned(self, partitions: frozenset[int]) -> None:
        """Tend the partitions that are ours now, and give up the state of the others."""
        if self._is_over:
            return
        self._assigned = partitions
        lost = [self._held.pop(partition) for partition in sorted(self._held.keys() - partitions)]
        new = sorted(partitions - self._held.keys())
        self._whole &= partitions
        for partition in new:
            self._held[partition] = self._make(partition, self._feed)
        self._metrics.partitions(len(partitions))
        self._logger.info("partitions assigned", partitions=sorted(partitions), new=new, lost=len(lost))
        if self._group is None:
            return
        for partition in sorted(partitions):
            tending = partial(self._tend, partition, self._held[partition])
            self._tending[partition] = start(self._group, tending, f"partition {partition}")
        for consumer in lost:
            start(self._group, consumer.snapshot, "snapshot")

    def deliver(self, partition: int, offset: int, record: Record | None) -> None:
        """Give it on."""
        if record is not None and record.headers.controller != self._identity:
            self._company.heard(record.headers.controller)
        self._feed.deliver(partition, offset, record)

    def _let_go(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            if (task := self._tending.pop(partition, None)) is not None:
                task.cancel()
            self._live.discard(partition)
            self._held[partition].withdraw()

    async def _tend(self, partition: int, consumer: PartitionConsumer) -> None:
        """Bring the partition's state up to the log's end, let it go live, and run its consumer."""
        if partition in self._whole:
            await self._until_readable(consumer, consumer.catch_up)
        else:
            began = self._clock.monotonic()
            await self._until_readable(consumer, consumer.restore)
            self._whole.add(partition)
            self._metrics.restored(self._clock.monotonic() - began)
        await self._worker.go_live(partition, consumer.next_offset)
        self._live.add(partition)
        await consumer.run(lambda: self._may_act(partition, consumer))

    async def _until_readable(self, consumer: PartitionConsumer, read: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await read()
            except LogUnavailable as error:
                consumer.trouble = str(error)
                await self._clock.sleep(RETRY_S)
            else:
                consumer.trouble = None
                return

    # When it acts

    def _may_act(self, partition: int, consumer: PartitionConsumer) -> bool:
        if self._leader is None:
            ends = self._own_ends
            return ends is not None and consumer.next_offset >= ends.get(partition, 0)
        view = consumer.aggregates.get(self._keys[partition])
        return isinstance(view, ViewState) and view.observer != "" and view.observer == self._leader()

    def may_send(self) -> bool:
        """Say whether somebody observes now: a process that stood still for long finds out here first."""
        return self._leader is None or self._leader() != ""

    def _positions(self) -> Mapping[int, int] | None:
        """Give where each assigned partition goes on; None while no assignment is known."""
        if self._assigned is None:
            return None
        return {one: self._feed.reached(one, self._held[one].next_offset) for one in sorted(self._assigned)}

    def _is_writing(self, partition: int) -> bool:
        return (consumer := self._held.get(partition)) is not None and consumer.is_writing

    # The engine's port

    async def begin(self, group: asyncio.TaskGroup) -> None:
        """Join the group; the partitions come when they come."""
        self._group = group
        start(group, self._work, "worker")
        start(group, self._commit, "commit")
        start(group, self._stalls.run, "stalls")
        start(group, self._company.run, "company")
        start(group, self._stay_marked, "marks")

    async def _work(self) -> NoReturn:
        working = asyncio.create_task(self._worker.run(), name="faust worker")
        try:
            await asyncio.wait([working])
            working.result()
        except InstanceTaken as error:
            raise Failure(str(error), CONFIGURATION) from error
        finally:
            # Rebalances come until the group is left; nobody is there any more to tend what they bring.
            self._is_over = True
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    async def _commit(self) -> NoReturn:
        while True:
            await self._clock.sleep(COMMIT_S)
            offsets = {partition: self._held[partition].next_offset for partition in sorted(self._live)}
            if offsets and not await self._worker.commit(offsets):
                self._logger.info("offsets not committed", partitions=sorted(offsets))

    async def known(self) -> Iterable[tuple[str, Aggregate]]:
        """Fold the whole log, whoever has its partitions; brokers that are away are waited for. Raises LogError."""
        # All at once: a first read takes its time, and while a new leader looks, nobody observes.
        folds = await asyncio.gather(*map(self._look_until_readable, range(self._log.partitions)))
        return [known for fold in folds for known in fold.aggregates.items()]

    async def _look_until_readable(self, partition: int) -> PartitionFold:
        while True:
            try:
                return await self._look(partition)
            except LogUnavailable:
                # That must not end who has the Lease: the next would have it at once, and end as well.
                await self._clock.sleep(RETRY_S)

    async def view_complete(self, ends: Mapping[int, int]) -> None:
        """Mark all partitions with the view of this process; without a Lease, note it."""
        if self._leader is None:
            self._own_ends = dict(ends)
        else:
            await self._mark()
        self._logger.info("view complete", partitions=len(self._keys))

    async def _mark(self) -> None:
        marks = await self._appender.append([(key, ViewCompleted(self._identity)) for key in self._keys])
        self._marked_at = {mark.partition: mark.offset for mark in marks}

    async def _stay_marked(self) -> NoReturn:
        """Mark anew what a former leader has marked since: its append was under way when it lost the Lease.

        Nobody would act on such a partition before the next change of leaders.
        """
        while True:
            await self._clock.sleep(MARKED_S)
            if any(self._is_marked_by_another(one) for one in sorted(self._live)):
                self._logger.warning("another observer's mark came late, marking anew")
                await self._mark()

    def _is_marked_by_another(self, partition: int) -> bool:
        """Say whether this process leads, has marked the partition, and reads another's mark behind its own there."""
        if not self._marked_at or self._leader is None or self._leader() != self._identity:
            return False
        consumer = self._held[partition]
        is_read = consumer.next_offset > self._marked_at[partition]
        return is_read and not self._may_act(partition, consumer)

    async def observe(self, owner: str, target: Target, raw: bytes | None) -> None:
        """Append what a live read showed, as the aggregate knows the world that asked for it."""
        consumer = self._held.get(partition_for(owner, self._log.partitions))
        state = consumer.aggregates.get(owner) if consumer is not None else None
        if state is None:
            return  # The partition went; who has it now looks for itself.
        normaliser = Normaliser()
        normaliser.seed(owner, observed(owner, state))
        events = LiveReads(normaliser, self._logger).events(target, raw)
        if events:
            await self._appender.append(events)

    def taken_names(self) -> Iterable[ClaimTemplateSeen]:
        """Give those in the way of the domains in partitions that this process acts on."""
        states = [
            state
            for partition in sorted(self._live)
            if self._may_act(partition, self._held[partition])
            for state in self._held[partition].aggregates.values()
            if isinstance(state, DomainState)
        ]
        return [seen for state in states for seen in state.templates if not seen.owned]

    def count_rows(self) -> Counter[str]:
        """Count the rows of the partitions that are restored."""
        return sum((self._held[partition].count_rows() for partition in self._live), Counter())

    def trouble(self) -> str | None:
        """Give the first consumer's that has one, or the stall detector's: an idle consumer asks nobody."""
        held = (one.trouble for one in self._held.values() if one.trouble is not None)
        return next(held, self._stalls.trouble)

    def waits_for(self) -> str | None:
        """Say what is missing: partitions, their state, or somebody's view."""
        if self._assigned is None:
            return f"waiting for the partitions of group {self._worker.name}"
        if missing := sorted(self._assigned - self._live):
            return f"restoring {len(missing)} partitions, first {missing[0]}"
        if blind := [
            partition for partition in sorted(self._assigned) if not self._may_act(partition, self._held[partition])
        ]:
            return f"waiting for an observer's complete view of {len(blind)} partitions, first {blind[0]}"
        return None

    async def close(self) -> None:
        """Stop acting, save what is folded, and leave the group."""
        self._is_over = True
        self._let_go(frozenset(self._held))
        try:
            await save_all(self._held.values(), self._clock, self._logger)
        finally:
            await self._leave()

    async def _leave(self) -> None:
        try:
            await self._worker.stop()
        except TimeoutError:
            self._logger.warning("the worker did not leave its group in time", group=self._worker.name)

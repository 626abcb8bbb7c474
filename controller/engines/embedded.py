"""The embedded engine: one process with all partitions."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping

from structlog.typing import FilteringBoundLogger

from controller.engines.engine import MakeConsumer
from controller.observing.observer import Observer
from eventlog.log import EventLog
from kube.clock import Clock
from projections.fold import Aggregate

REACH_POLL_S = 0.01


class EmbeddedEngine:
    """Runs the consumers of all partitions; they act together, once the view of the cluster is complete."""

    is_shared = False

    def __init__(
        self, log: EventLog, make: MakeConsumer, observer: Observer, clock: Clock, logger: FilteringBoundLogger
    ) -> None:
        """`observer` is the one of this process: it knows all partitions too."""
        self._consumers = [make(partition, log) for partition in range(log.partitions)]
        self._clock = clock
        self._logger = logger
        self._began = 0.0
        self._acting = asyncio.Event()
        self.observe = observer.observe
        self.taken_names = observer.taken_names

    def may_send(self) -> bool:
        """Say yes: who may not lead any more ends."""
        return True

    async def known(self) -> Iterable[tuple[str, Aggregate]]:
        """Restore all partitions, and give what they know. Raises LogError."""
        self._began = self._clock.monotonic()
        for consumer in self._consumers:
            await consumer.restore()
        records = sum(consumer.next_offset for consumer in self._consumers)
        self._logger.info("restored", records=records, seconds=self._seconds())
        return [item for consumer in self._consumers for item in consumer.aggregates.items()]

    async def begin(self, group: asyncio.TaskGroup) -> None:
        """Fold on from where `known` ended."""
        for consumer in self._consumers:
            group.create_task(consumer.run(self._acting.is_set), name="consumer")

    async def view_complete(self, ends: Mapping[int, int]) -> None:
        """Act, once all that the first lists brought is folded."""
        upto = dict(ends)
        while any(self._consumers[partition].next_offset < end for partition, end in upto.items()):
            await self._clock.sleep(REACH_POLL_S)
        self._acting.set()
        self._logger.info("acting", seconds=self._seconds())

    def _seconds(self) -> float:
        return round(self._clock.monotonic() - self._began, 3)

    def count_rows(self) -> Counter[str]:
        """Count the rows of all partitions."""
        return sum((consumer.count_rows() for consumer in self._consumers), Counter())

    def trouble(self) -> str | None:
        """Give the first consumer's that has one."""
        return next((consumer.trouble for consumer in self._consumers if consumer.trouble is not None), None)

    def waits_for(self) -> str | None:
        """Wait for the first lists to be folded."""
        return None if self._acting.is_set() else "catching up with the log"

    async def close(self) -> None:
        """Save what is folded."""
        for consumer in self._consumers:
            await consumer.snapshot()

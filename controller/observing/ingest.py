"""Ingest: one queue from all reflectors, through the normaliser, into the log.

One task takes from the queue, so observations are appended in the order in which they were told, many in one append.
The queue is bounded: a log that is slow or not writable holds the reflectors up, and nothing is lost.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import Callable
from typing import NoReturn

import msgspec
from structlog.typing import FilteringBoundLogger

from controller.appender import Appender, at_any_time
from controller.observing.live_reads import LiveReads
from controller.observing.normaliser import Keyed, Normaliser
from kube import reflector
from kube.clock import Clock
from projections.effects import Target

QUEUE_MAX = 5000
"""Events told but not yet taken: one page of lists from each reflector and some watch events."""
BATCH_MAX = 400
"""Events normalised into one append: some 15 ms, during which the event loop does nothing else."""
GATHER_S = 0.02
"""Least time between two appends while they are small: each is a commit, and wakes up to all consumers. What comes
after a pause is appended at once."""


class LiveRead(msgspec.Struct, frozen=True):
    """An object as a live read showed it (None: it is not there), and who waits for it to be in the log."""

    target: Target
    raw: bytes | None
    recorded: asyncio.Future[None]


Told = reflector.ReflectorEvent | LiveRead


class Ingest:
    """Takes what is observed and appends it."""

    def __init__(
        self,
        normaliser: Normaliser,
        appender: Appender,
        clock: Clock,
        logger: FilteringBoundLogger,
        ensure: Callable[[], None] = at_any_time,
    ) -> None:
        """`normaliser` is seeded already.

        `ensure` raises once another process may observe: what it does not know of, it never takes back.
        """
        self._normaliser = normaliser
        self._reads = LiveReads(normaliser, logger)
        self._appender = appender
        self._ensure = ensure
        self._clock = clock
        self._queue: asyncio.Queue[Told] = asyncio.Queue(QUEUE_MAX)
        self._complete: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.ends: dict[int, int] = {}
        """By partition: the offset after the last record that this process appended."""

    async def sink(self, told: reflector.ReflectorEvent) -> None:
        """Take what a reflector tells."""
        await self._queue.put(told)

    async def observe(self, owner: str, target: Target, raw: bytes | None) -> None:
        """Record what a live read showed, for all whom it concerns; returns when it is in the log."""
        del owner  # The normaliser knows them all.
        recorded = asyncio.get_running_loop().create_future()
        await self._queue.put(LiveRead(target, raw, recorded))
        await recorded

    async def completed(self, plural: str) -> None:
        """Return once the first complete list of the kind is in the log."""
        await self._complete[plural].wait()

    def lists_complete(self, plurals: list[str]) -> list[str]:
        """Give those kinds of which no complete list is in the log yet."""
        return [plural for plural in plurals if not self._complete[plural].is_set()]

    async def run(self) -> NoReturn:
        """Append for ever."""
        again_at = -math.inf
        while True:
            batch = [await self._queue.get()]
            if (wait := again_at - self._clock.monotonic()) > 0 and self._queue.qsize() < BATCH_MAX:
                await self._clock.sleep(wait)
            again_at = self._clock.monotonic() + GATHER_S
            while len(batch) < BATCH_MAX and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            keyed = [event for told in batch for event in self._normalise(told)]
            if keyed:
                for position in await self._appender.append(keyed, self._ensure):
                    self.ends[position.partition] = position.offset + 1
            for told in batch:
                if isinstance(told, LiveRead):
                    if not told.recorded.done():
                        told.recorded.set_result(None)
                elif isinstance(told, reflector.RelistCompleted):
                    self._complete[told.selector.resource.plural].set()

    def _normalise(self, told: Told) -> list[Keyed]:
        if isinstance(told, LiveRead):
            return self._reads.events(told.target, told.raw)
        return self._normaliser.handle(told)

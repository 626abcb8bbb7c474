"""Ingest: one queue from all reflectors, through the normaliser, into the log.

One task takes from the queue, so observations are appended in the order in which they were told, many in one append.
The queue is bounded: a log that is slow or not writable holds the reflectors up, and nothing is lost.
"""

import asyncio
import math
from collections import defaultdict
from typing import NoReturn

import msgspec
from structlog.typing import FilteringBoundLogger

from controller import observations
from controller.consumer import Appender
from controller.normaliser import Keyed, Normaliser
from controller.requests import RESOURCES
from eventlog.events import ClaimTemplateSeen
from kube import objects, reflector
from kube.client import KubeClient, KubeError, NotFound
from kube.clock import Clock
from kube.names import CLAIM_TEMPLATES, DAEMON_PREFIX, DOMAIN_LABEL
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

    def __init__(self, normaliser: Normaliser, appender: Appender, clock: Clock, logger: FilteringBoundLogger) -> None:
        """`normaliser` is seeded already."""
        self._normaliser = normaliser
        self._appender = appender
        self._clock = clock
        self._logger = logger
        self._queue: asyncio.Queue[Told] = asyncio.Queue(QUEUE_MAX)
        self._complete: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.ends: dict[int, int] = {}
        """By partition: the offset after the last record that this process appended."""

    async def sink(self, told: reflector.ReflectorEvent) -> None:
        """Take what a reflector tells."""
        await self._queue.put(told)

    async def observe(self, target: Target, raw: bytes | None) -> None:
        """Record what a live read showed; returns when it is in the log."""
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
                for position in await self._appender.append(keyed):
                    self.ends[position.partition] = position.offset + 1
            for told in batch:
                if isinstance(told, LiveRead):
                    if not told.recorded.done():
                        told.recorded.set_result(None)
                elif isinstance(told, reflector.RelistCompleted):
                    self._complete[told.selector.resource.plural].set()

    def _normalise(self, told: Told) -> list[Keyed]:
        if isinstance(told, LiveRead):
            return self._normalise_read(told)
        return self._normaliser.handle(told)

    def _normalise_read(self, told: LiveRead) -> list[Keyed]:
        if told.raw is None:
            return self._normalise_absence(told.target)
        try:
            found = objects.object_decoder(RESOURCES[told.target.resource]).decode(told.raw)
        except msgspec.DecodeError as error:
            # Its reflector meets the same object and says what to mend; one object must not end the process.
            name = f"{told.target.namespace}/{told.target.name}"
            self._logger.warning("object not understood", resource=told.target.resource, name=name, cause=str(error))
            return []
        if isinstance(found, objects.ResourceClaimTemplate):
            return self._normalise_template(told.target, found)
        seen = observations.read(found)
        return self._normaliser.observe(seen) if seen is not None else []

    def _normalise_template(self, target: Target, found: objects.ResourceClaimTemplate) -> list[Keyed]:
        """Tell of a template as what it is to its own domain, and to all whose name it has taken."""
        meta = found.metadata
        events = self._freed(target, meta.uid)
        own = observations.read(found)
        if own is not None:
            events.extend(self._normaliser.observe(own))
        wanting = [(seen.uid, "Workload") for seen in self._normaliser.wanting_template(meta.namespace, meta.name)]
        if meta.name.startswith(DAEMON_PREFIX):
            wanting.append((meta.name.removeprefix(DAEMON_PREFIX), "Daemon"))
        for domain, purpose in wanting:
            if meta.labels.get(DOMAIN_LABEL) != domain:
                place = (meta.resource_version, meta.namespace, meta.name)
                taken = ClaimTemplateSeen(domain, purpose, meta.uid, *place, owned=False)
                events.extend(self._normaliser.observe(taken))
        return events

    def _normalise_absence(self, target: Target) -> list[Keyed]:
        """Take an absence for a deletion only where no watch would tell: for another's claim template (rule 4)."""
        return self._freed(target, "")

    def _freed(self, target: Target, uid: str) -> list[Keyed]:
        """Tell that those are gone that stood at this place in a domain's way, but for the one with this UID."""
        events = []
        for seen in self._normaliser.taken_names():
            if Target(CLAIM_TEMPLATES.plural, seen.namespace, seen.name) == target and seen.uid != uid:
                events.extend(self._normaliser.name_is_free(seen))
        return events

    async def look_after_taken_names(self, client: KubeClient, every_s: float) -> NoReturn:
        """Read the claim templates of others that stand in a domain's way, now and then: no watch tells of them."""
        while True:
            await self._clock.sleep(every_s)
            for seen in self._normaliser.taken_names():
                target = Target(CLAIM_TEMPLATES.plural, seen.namespace, seen.name)
                try:
                    raw = await client.get(CLAIM_TEMPLATES, seen.namespace, seen.name)
                except NotFound:
                    await self.observe(target, None)
                except KubeError as error:
                    self._logger.warning("claim template not read", name=seen.name, cause=str(error))
                else:
                    await self.observe(target, raw)

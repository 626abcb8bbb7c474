"""The observer: watches the cluster, and appends what it sees that is new.

It needs to know what the log knows, of all partitions: only then can it tell what went while nobody looked, and leave
out what is there already. So it is seeded before it looks. One observer is enough for a log; two cost double records.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping

from structlog.typing import FilteringBoundLogger

from controller.appender import Appender
from controller.metrics import Metrics
from controller.observing.doubts import settle_doubts
from controller.observing.ingest import Ingest
from controller.observing.normaliser import Normaliser
from controller.observing.seeding import observed
from controller.observing.views import Views
from controller.writing.applier import Observe
from eventlog.events import ClaimTemplateSeen
from kube.client import KubeClient, Selector
from kube.clock import Clock
from kube.reflector import Gap as ReflectorGap
from kube.reflector import Reflector, ReflectorEvent, RelistBegan
from projections.fold import Aggregate


class Observer:
    """Reflectors, normaliser and ingest of one process."""

    def __init__(
        self,
        selectors: tuple[list[Selector], list[Selector]],
        *,
        client: KubeClient,
        appender: Appender,
        metrics: Metrics,
        clock: Clock,
        rng: random.Random,
        logger: FilteringBoundLogger,
        recheck_s: float,
        ensure: Callable[[], None],
    ) -> None:
        """Make the parts; nothing is watched yet.

        Of the `selectors`, the first lists of the second ones prove what
        concerns the first. `recheck_s` is how often what no watch can prove is looked at again.
        `ensure` raises once this process may not observe any more.
        """
        self._selectors = selectors
        self._recheck_s = recheck_s
        self._client = client
        self._metrics = metrics
        self._clock = clock
        self._logger = logger
        self._views = Views(clock, rng, logger)
        self._normaliser = Normaliser()
        self._ingest = Ingest(self._normaliser, appender, clock, logger, ensure)
        self._reflectors: dict[str, Reflector] = {}

    @property
    def observe(self) -> Observe:
        """Gives live reads to the log, for all aggregates that they concern."""
        return self._ingest.observe

    def taken_names(self) -> Iterable[ClaimTemplateSeen]:
        """Give the claim templates of others that stand in a domain's way."""
        return self._normaliser.taken_names()

    @property
    def ends(self) -> Mapping[int, int]:
        """By partition: the offset after the last record that was observed."""
        return self._ingest.ends

    def seed(self, aggregates: Iterable[tuple[str, Aggregate]]) -> None:
        """Tell the normaliser what the log knows; the domains' own keys first, since they know most."""
        for key, state in sorted(aggregates, key=lambda item: ("." in item[0], item[0])):
            self._normaliser.seed(key, observed(key, state))

    async def watch(self, group: asyncio.TaskGroup) -> None:
        """Begin to watch; returns when the first complete lists of all kinds are in the log."""
        group.create_task(self._ingest.run(), name="ingest")
        for selectors in self._selectors:
            for selector in selectors:
                plural = selector.resource.plural
                self._reflectors[plural] = self._views.reflector(self._client, selector, self._tell)
                group.create_task(self._reflectors[plural].run(), name=f"reflector {plural}")
            for selector in selectors:
                await self._ingest.completed(selector.resource.plural)

    def look_after(self, group: asyncio.TaskGroup) -> None:
        """Begin to list anew, now and then, what is in doubt."""
        doubts = settle_doubts(self._normaliser.unproven, self._reflectors, self._clock, self._recheck_s)
        group.create_task(doubts, name="doubts")

    def missing(self) -> list[str]:
        """Give the kinds of which no complete list is in the log yet."""
        first, second = self._selectors
        return self._ingest.lists_complete([selector.resource.plural for selector in [*first, *second]])

    def trouble(self) -> str | None:
        """Say which kinds are out of view, in a sentence; None if there is none."""
        return self._views.trouble()

    async def _tell(self, told: ReflectorEvent) -> None:
        if isinstance(told, RelistBegan):
            self._metrics.relist(told.selector.resource.plural, "start" if told.cause == "start" else "gap")
        elif isinstance(told, ReflectorGap):
            self._metrics.gap(told.selector.resource.plural)
            self._logger.warning("watch gap", resource=told.selector.resource.plural, cause=told.cause)
        await self._ingest.sink(told)

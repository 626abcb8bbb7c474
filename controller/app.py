"""The composition root: makes the parts of a controller, runs them together, ends them in order.

One process, one log, one client. All long-lived tasks live in one task group: the first that fails ends the others and
with them the process, so that no half-dead controller looks healthy (failure case B9). SIGTERM ends it cleanly: what is
folded is saved, the Lease released, the log closed.
"""

import asyncio
import os
import random
from collections import Counter
from typing import TYPE_CHECKING

from structlog.typing import FilteringBoundLogger

from controller import manifests
from controller.applier import Applier
from controller.coalescer import Coalescer
from controller.config import RunConfig
from controller.consumer import Appender, PartitionConsumer
from controller.doubts import settle_doubts
from controller.exits import CONFIGURATION, Failure
from controller.http import StatusServer
from controller.ingest import Ingest
from controller.lease import Elector
from controller.live_why import LiveWhy
from controller.metrics import Metrics
from controller.normaliser import Normaliser
from controller.requests import Renderer
from controller.seeding import observed
from controller.views import Views
from eventlog.events import ControllerStarted
from eventlog.log import EventLog, SnapshotStore
from kube.client import KubeClient, Selector
from kube.clock import Clock
from kube.reflector import Gap as ReflectorGap
from kube.reflector import Reflector, ReflectorEvent, ReflectorSettings, RelistBegan
from kube.retry import Backoff, BackoffPolicy
from projections.effects import CreateClaimTemplate, CreateDaemonSet
from projections.fold import CONTROLLER_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

APPEND_RETRY_S = 0.5
REACH_POLL_S = 0.01


class Controller:
    """One controller over a log and a cluster; `run` is its life."""

    def __init__(
        self,
        config: RunConfig,
        *,
        log: EventLog,
        snapshots: SnapshotStore,
        client: KubeClient,
        clock: Clock,
        rng: random.Random,
        logger: FilteringBoundLogger,
    ) -> None:
        """Make the parts; nothing runs and nothing is sent yet."""
        self._config = config
        self._log = log
        self._client = client
        self._clock = clock
        self._rng = rng
        self._logger = logger
        self._metrics = Metrics()
        self._acting = asyncio.Event()
        self._views = Views(clock, logger)
        self._appender = Appender(
            log, clock=clock, identity=config.identity, metrics=self._metrics, logger=logger, retry_s=APPEND_RETRY_S
        )
        coalescer = Coalescer(config.pace, config.limits, rng)
        self._metrics.watch_queue(coalescer.depth)
        self._normaliser = Normaliser()
        self._ingest = Ingest(self._normaliser, self._appender, clock, logger)
        self._applier = Applier(
            coalescer=coalescer,
            client=client,
            clock=clock,
            render=Renderer(config.identity, self._manifest),
            observe=self._ingest.observe,
            metrics=self._metrics,
            log=logger,
            workers=config.workers,
        )
        self._consumers = [self._consumer(partition, snapshots) for partition in range(log.partitions)]
        self._metrics.watch_rows(self._count_rows)
        self._elector = Elector(client, clock, rng, logger, config.lease) if config.lease is not None else None

    def _count_rows(self) -> Counter[str]:
        return sum((consumer.count_rows() for consumer in self._consumers), Counter())

    def _consumer(self, partition: int, snapshots: SnapshotStore) -> PartitionConsumer:
        return PartitionConsumer(
            partition,
            log=self._log,
            snapshots=snapshots,
            appender=self._appender,
            want=self._applier.replace,
            settings=self._config.settings,
            config=self._config.consumer,
            metrics=self._metrics,
            logger=self._logger,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Live until `stop` is set. Raises ExceptionGroup of what a part raised, Failure if it cannot listen."""
        why = LiveWhy(self._log, self._applier.pending, self._clock, self._config.settings)
        server = StatusServer(self._not_alive, self._not_ready, self._metrics, why.answer)
        if self._config.listen is not None:
            await self._listen(server, *self._config.listen)
        life = asyncio.create_task(self._live(), name="life")
        stopped = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait({life, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if life.done():
                life.result()
        finally:
            # Whatever ended the wait: no part outlives this, and what is folded is saved.
            stopped.cancel()
            life.cancel()
            ended = (await asyncio.gather(life, return_exceptions=True))[0]
            try:
                await self._end()
            finally:
                await server.close()
        if isinstance(ended, Exception):
            raise ended

    async def _listen(self, server: StatusServer, host: str, port: int) -> None:
        """Start the server. Its errors alone are about the address: those of other parts mean something else."""
        try:
            bound = await server.start(host, port)
        except (OSError, UnicodeError) as error:
            await server.close()
            raise Failure(
                f"cannot listen on {host}:{port}: {_reason(error)}; give another --http-endpoint", CONFIGURATION
            ) from error
        self._logger.info("listening", host=host, port=bound)

    async def _live(self) -> None:
        """Run all parts; ends only when cancelled or when one of them fails."""
        async with asyncio.TaskGroup() as group:
            await self._start(group)

    async def _start(self, group: asyncio.TaskGroup) -> None:
        """Start the parts in order: lead, restore, watch, and act once the view is complete."""
        if self._elector is not None:
            await self._elector.acquire()
            group.create_task(self._elector.keep(), name="lease")
        self._metrics.leading(leads=True)
        began = self._clock.monotonic()
        for consumer in self._consumers:
            await consumer.restore()
        self._seed()
        records = sum(consumer.next_offset for consumer in self._consumers)
        self._logger.info("restored", records=records, seconds=round(self._clock.monotonic() - began, 3))
        started = ControllerStarted(self._config.identity, self._config.version, self._config.shown())
        await self._appender.append([(CONTROLLER_PREFIX + self._config.identity, started)])
        for consumer in self._consumers:
            group.create_task(consumer.run(self._acting), name="consumer")
        group.create_task(self._ingest.run(), name="ingest")
        reflectors: dict[str, Reflector] = {}
        for selectors in self._config.selectors():
            for selector in selectors:
                plural = selector.resource.plural
                reflectors[plural] = self._reflector(selector)
                group.create_task(reflectors[plural].run(), name=f"reflector {plural}")
            for selector in selectors:
                await self._ingest.completed(selector.resource.plural)
        await self._caught_up()
        self._acting.set()
        self._logger.info("acting", seconds=round(self._clock.monotonic() - began, 3))
        group.create_task(self._ingest.look_after_taken_names(self._client, self._config.recheck_s), name="names")
        group.create_task(
            settle_doubts(self._normaliser.unproven, reflectors, self._clock, self._config.recheck_s), name="doubts"
        )
        group.create_task(self._applier.run(), name="applier")

    def _seed(self) -> None:
        """Tell the normaliser what the log knows; the domains' own keys first, since they know most."""
        aggregates = [item for consumer in self._consumers for item in consumer.aggregates.items()]
        for key, state in sorted(aggregates, key=lambda item: ("." in item[0], item[0])):
            self._normaliser.seed(key, observed(key, state))

    async def _caught_up(self) -> None:
        """Return once all that the first lists brought is folded."""
        ends: Mapping[int, int] = dict(self._ingest.ends)
        while any(self._consumers[partition].next_offset < end for partition, end in ends.items()):
            await self._clock.sleep(REACH_POLL_S)

    def _reflector(self, selector: Selector) -> Reflector:
        return Reflector(
            self._client,
            selector,
            self._tell,
            clock=self._clock,
            backoff=Backoff(BackoffPolicy(), self._rng.random),
            random=self._rng.random,
            observer=self._views,
            settings=ReflectorSettings(),
        )

    async def _tell(self, told: ReflectorEvent) -> None:
        if isinstance(told, RelistBegan):
            self._metrics.relist(told.selector.resource.plural, "start" if told.cause == "start" else "gap")
        elif isinstance(told, ReflectorGap):
            self._metrics.gap(told.selector.resource.plural)
            self._logger.warning("watch gap", resource=told.selector.resource.plural, cause=told.cause)
        await self._ingest.sink(told)

    def _manifest(self, effect: CreateDaemonSet | CreateClaimTemplate) -> dict[str, object]:
        deployment = self._config.deployment
        if isinstance(effect, CreateDaemonSet):
            return manifests.daemon_set(deployment, effect.domain)
        if effect.purpose == "Daemon":
            return manifests.daemon_claim_template(effect.target.namespace, effect.domain)
        return manifests.workload_claim_template(
            effect.target.namespace, effect.target.name, effect.domain, effect.mode
        )

    def _not_alive(self) -> str | None:
        """Say why the process should be restarted: never; a part that fails ends it by itself."""
        return None

    def _not_ready(self) -> str | None:
        if self._appender.trouble is not None:
            return f"the log cannot be written: {self._appender.trouble}"
        unread = [consumer.trouble for consumer in self._consumers if consumer.trouble is not None]
        if unread:
            return f"the log cannot be read: {unread[0]}"
        if self._acting.is_set():
            return self._views.trouble()
        if self._elector is not None and self._elector.waits_for:
            return f"waiting for the Lease {self._elector.waits_for}"
        first, second = self._config.selectors()
        missing = self._ingest.lists_complete([selector.resource.plural for selector in [*first, *second]])
        if missing:
            return f"no complete list yet of: {', '.join(missing)}"
        return "catching up with the log"

    async def _end(self) -> None:
        """Save what is folded, and let the next leader in."""
        for consumer in self._consumers:
            await consumer.snapshot()
        if self._elector is not None:
            await self._elector.release()


def _reason(error: OSError | UnicodeError) -> str:
    """Say why an address is not to be had; asyncio's own text names the address a second time."""
    if isinstance(error, UnicodeError):
        return "no host has such a name"
    # A name that is not known has no errno of the system.
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)

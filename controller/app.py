"""The composition root: makes the parts of a controller, runs them together, ends them in order.

One process, one log, one client. All long-lived tasks live in one task group: the first that fails ends the others and
with them the process, so that no half-dead controller looks healthy (failure case B9). SIGTERM ends it cleanly: what is
folded is saved, the Lease released, the log closed.
"""

import asyncio
import os
import random
from collections.abc import Mapping
from typing import NoReturn

from structlog.typing import FilteringBoundLogger

from controller import places
from controller.appender import Appender, at_any_time
from controller.config import GroupConfig, RunConfig
from controller.engines.consumer import PartitionConsumer, Source
from controller.engines.embedded import EmbeddedEngine
from controller.engines.engine import Engine
from controller.exits import CONFIGURATION, Failure
from controller.history.live_why import LiveWhy
from controller.http import StatusServer
from controller.lease import Elector
from controller.metrics import Metrics
from controller.observing.live_reads import look_after_taken_names
from controller.observing.observer import Observer
from controller.writing import manifests
from controller.writing.applier import Applier
from controller.writing.coalescer import Coalescer
from controller.writing.requests import Renderer
from eventlog.events import ControllerStarted
from eventlog.log import EventLog, SnapshotStore
from kube.client import KubeClient
from kube.clock import Clock
from projections.effects import AnyEffect, CreateClaimTemplate, CreateDaemonSet, Target
from projections.fold import CONTROLLER_PREFIX

APPEND_RETRY_S = 0.5


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
        self._snapshots = snapshots
        self._client = client
        self._clock = clock
        self._logger = logger
        self._metrics = Metrics()
        self._appender = Appender(
            log, clock=clock, identity=config.identity, metrics=self._metrics, logger=logger, retry_s=APPEND_RETRY_S
        )
        self._elector = Elector(client, clock, rng, logger, config.lease) if config.lease is not None else None
        self._observer = Observer(
            config.selectors(),
            client=client,
            appender=self._appender,
            metrics=self._metrics,
            clock=clock,
            rng=rng,
            logger=logger,
            recheck_s=config.recheck_s,
            ensure=self._elector.ensure if self._elector is not None else at_any_time,
        )
        self._engine = self._make_engine()
        coalescer = Coalescer(config.pace, config.limits, rng)
        self._metrics.watch_queue(coalescer.depth)
        self._metrics.watch_rows(self._engine.count_rows)
        self._applier = Applier(
            coalescer=coalescer,
            client=client,
            clock=clock,
            render=Renderer(config.identity, self._manifest),
            observe=self._engine.observe,
            may_send=self._engine.may_send,
            metrics=self._metrics,
            log=logger,
            workers=config.workers,
        )

    def _make_engine(self) -> Engine:
        if self._config.group is not None:
            return self._make_faust_engine(self._config.group)

        return EmbeddedEngine(self._log, self._consumer, self._observer, self._clock, self._logger)

    def _want(self, owner: str, effects: Mapping[Target, AnyEffect], position: str) -> None:
        self._applier.replace(owner, effects, position)

    def _make_faust_engine(self, group: GroupConfig) -> Engine:
        from controller.engines import faust as faust_engine  # noqa: PLC0415 - Faust takes long to load, and may not be installed

        return faust_engine.FaustEngine(
            log=self._log,
            make=self._consumer,
            make_worker=faust_engine.worker_of(self._log, group),
            leader=self._elector.leader if self._elector is not None else None,
            identity=self._config.identity,
            group=group.name,
            patience=group.patience,
            appender=self._appender,
            metrics=self._metrics,
            clock=self._clock,
            logger=self._logger,
        )

    def _consumer(self, partition: int, source: Source) -> PartitionConsumer:
        return PartitionConsumer(
            partition,
            log=self._log,
            source=source,
            snapshots=self._snapshots,
            appender=self._appender,
            want=self._want,
            settings=self._config.settings,
            config=self._config.consumer,
            metrics=self._metrics,
            logger=self._logger,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Live until `stop` is set. Raises ExceptionGroup of what a part raised, Failure if it cannot listen."""
        why = LiveWhy(self._open_log, self._applier.pending, self._clock, self._config.settings)
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

    async def _open_log(self) -> EventLog:
        """Open the log once more, for reading only."""
        log, _ = await places.open_readonly(self._config.log, kafka_config=self._config.kafka_config)
        return log

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
        """Start the parts in order: what writes comes last, unless others observe for this process."""
        if self._engine.is_shared:
            await self._engine.begin(group)
            await self._say_who()
            self._write(group)
            await self._lead(group)
            self._observer.seed(await self._engine.known())
        else:
            await self._lead(group)
            self._observer.seed(await self._engine.known())
            await self._say_who()
            await self._engine.begin(group)
        await self._observer.watch(group)
        await self._engine.view_complete(self._observer.ends)
        if not self._engine.is_shared:
            self._write(group)
        self._observer.look_after(group)

    async def _say_who(self) -> None:
        started = ControllerStarted(self._config.identity, self._config.version, self._config.shown())
        await self._appender.append([(CONTROLLER_PREFIX + self._config.identity, started)])

    def _write(self, group: asyncio.TaskGroup) -> None:
        group.create_task(self._look_after_taken_names(), name="names")
        group.create_task(self._applier.run(), name="applier")

    async def _look_after_taken_names(self) -> NoReturn:
        engine = self._engine
        await look_after_taken_names(
            engine.taken_names, engine.observe, self._client, self._clock, self._logger, self._config.recheck_s
        )

    async def _lead(self, group: asyncio.TaskGroup) -> None:
        if self._elector is not None:
            await self._elector.acquire()
            group.create_task(self._elector.keep(), name="lease")
        self._metrics.leading(leads=True)

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
        if (unread := self._engine.trouble()) is not None:
            return f"the log cannot be read: {unread}"
        waiting = self._engine.waits_for()
        if waiting is None:
            return self._observer.trouble()
        leads = self._elector is None or not self._elector.waits_for
        if not leads and not self._engine.is_shared:
            return f"waiting for the Lease {self._elector.waits_for if self._elector is not None else ''}"
        if leads and (missing := self._observer.missing()):
            return f"no complete list yet of: {', '.join(missing)}"
        return waiting

    async def _end(self) -> None:
        """Save what is folded, and let the next leader in."""
        await self._engine.close()
        if self._elector is not None:
            await self._elector.release()


def _reason(error: OSError | UnicodeError) -> str:
    """Say why an address is not to be had; asyncio's own text names the address a second time."""
    if isinstance(error, UnicodeError):
        return "no host has such a name"
    # A name that is not known has no errno of the system.
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)

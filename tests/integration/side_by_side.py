"""Both engines side by side: given equal records, what each folds, decides and wants written.

Some records are there before the engine begins, so that it restores them; the others come while it runs, so that on
Faust they come through its agents.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import msgspec
import structlog

from controller.appender import Appender
from controller.config import GroupConfig
from controller.engines import faust as faust_engine
from controller.engines.consumer import ConsumerConfig, PartitionConsumer, Source
from controller.engines.embedded import EmbeddedEngine
from controller.engines.engine import Engine
from controller.engines.faust import FaustEngine
from controller.metrics import Metrics
from eventlog.events import ClaimTemplateSeen
from eventlog.kafka import KafkaPlace, KafkaSnapshots
from eventlog.log import EventLog, SnapshotStore
from eventlog.record import Entry
from eventlog.sqlite import SqliteLog, SqliteSnapshots
from kube.clock import SystemClock
from projections.effects import AnyEffect, Target
from projections.partition import digest
from projections.settings import Settings
from tests.integration.broker.logs import make_log, opened
from tests.integration.waiting import eventually

PARTITIONS = 4
CHUNK = 20


class _Parts:
    """What an engine needs, on one log; and what its consumers want, by owner."""

    def __init__(self, log: EventLog, snapshots: SnapshotStore) -> None:
        self.log = log
        self.snapshots = snapshots
        self.clock = SystemClock()
        self.logger = structlog.get_logger()
        self.metrics = Metrics()
        self.wanted: dict[str, Mapping[Target, AnyEffect]] = {}
        self.consumers: Mapping[int, PartitionConsumer] = {}
        self.appender = Appender(log, self.clock, "one", self.metrics, self.logger, retry_s=0.1)

    def make(self, partition: int, source: Source) -> PartitionConsumer:
        return PartitionConsumer(
            partition,
            log=self.log,
            source=source,
            snapshots=self.snapshots,
            appender=self.appender,
            want=self.want,
            settings=Settings("driver"),
            config=ConsumerConfig(batch=50, poll_s=0.2),
            metrics=self.metrics,
            logger=self.logger,
        )

    def want(self, owner: str, effects: Mapping[Target, AnyEffect], position: str) -> None:
        del position  # Offsets may differ.
        self.wanted[owner] = effects

    def faust(self) -> FaustEngine:
        group = GroupConfig(f"group-{uuid4().hex}", None)
        engine = FaustEngine(
            log=self.log,
            make=self.make,
            make_worker=faust_engine.worker_of(self.log, group),
            leader=None,
            identity="one",
            group=group.name,
            patience=group.patience,
            appender=self.appender,
            metrics=self.metrics,
            clock=self.clock,
            logger=self.logger,
        )
        self.consumers = engine._held
        return engine

    def embedded(self) -> EmbeddedEngine:
        engine = EmbeddedEngine(self.log, self.make, _NoObserver(), self.clock, self.logger)
        self.consumers = dict(enumerate(engine._consumers))
        return engine

    async def level(self) -> bool:
        """Say whether all partitions are folded to their ends."""
        if len(self.consumers) < self.log.partitions:
            return False
        return all([one.next_offset >= await self.log.end_offset(at) for at, one in self.consumers.items()])

    def state(self) -> str:
        return digest([self.consumers[partition]._fold for partition in sorted(self.consumers)])


class _NoObserver:
    """Nothing is written here, so nothing is in doubt."""

    async def observe(self, _owner: str, _target: Target, _raw: bytes | None) -> None:
        raise AssertionError("nobody reads anything")

    def taken_names(self) -> list[ClaimTemplateSeen]:
        return []


class Outcome(msgspec.Struct):
    """What came of a run. `folded`: the state before anybody acted."""

    folded: str
    decided: str
    wanted: dict[str, Mapping[Target, AnyEffect]]


async def _outcome(parts: _Parts, engine: Engine, before: Sequence[Entry], live: Sequence[Entry]) -> Outcome:
    """Let an engine restore some records, take in others while it runs, and act at last."""

    async def append(entries: Sequence[Entry]) -> None:
        for at in range(0, len(entries), CHUNK):
            await parts.log.append(entries[at : at + CHUNK])

    async def still() -> str | None:
        found = parts.state()
        await asyncio.sleep(0.5)
        return found if await parts.level() and found == parts.state() else None

    await append(before)
    async with asyncio.TaskGroup() as group:
        tasks = group.create_task(_held(engine))
        await eventually(parts.level, bool, "the partitions are restored")
        await append(live)
        await eventually(parts.level, bool, "all records are folded")
        folded = parts.state()
        assert parts.wanted == {} or all(not effects for effects in parts.wanted.values())
        ends = {partition: await parts.log.end_offset(partition) for partition in range(parts.log.partitions)}
        await engine.view_complete(ends)
        await eventually(still, lambda found: found is not None, "nothing is left to decide")
        decided, wanted = parts.state(), dict(parts.wanted)
        tasks.cancel()
    await engine.close()
    return Outcome(folded, decided, {owner: effects for owner, effects in wanted.items() if effects})


async def _held(engine: Engine) -> None:
    async with asyncio.TaskGroup() as group:
        if not engine.is_shared:
            await engine.known()
        await engine.begin(group)
        await asyncio.get_running_loop().create_future()


async def embedded(folder: Path, before: Sequence[Entry], live: Sequence[Entry]) -> Outcome:
    """Let the embedded engine work on SQLite."""
    log = await SqliteLog.open(str(folder / f"{uuid4().hex}.sqlite"), partitions=PARTITIONS)
    parts = _Parts(log, SqliteSnapshots(log))
    try:
        return await _outcome(parts, parts.embedded(), before, live)
    finally:
        await log.close()


async def faust(place: KafkaPlace, before: Sequence[Entry], live: Sequence[Entry]) -> Outcome:
    """Let the engine on Faust work on a new topic."""
    await make_log(place, PARTITIONS)
    async with opened(place) as log:
        parts = _Parts(log, KafkaSnapshots(log))
        return await _outcome(parts, parts.faust(), before, live)

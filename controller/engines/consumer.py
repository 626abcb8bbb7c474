"""The consumer of one partition: fold, propose, want.

    records --fold--> state --propose--> decisions, appended to the same partition
                      state --diff-----> effects, handed to the applier

Invariant: effects of a key are handed on only from a state in which nothing is left to propose, so that no write shows
an index which the log has not arbitrated yet (rule 1). Restoring, catching up and replaying are the same code (rule 9);
acting is what begins once the view of the cluster is complete.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn, Protocol

import msgspec
from structlog.typing import FilteringBoundLogger

from controller.appender import Appender
from eventlog.codec import UndecodableRecord
from eventlog.events import Decision
from eventlog.log import AppendOutcomeUnknown, EventLog, LogUnavailable, LogUnreadable, SnapshotStore
from eventlog.record import Position, Record
from projections.clique import CliqueState
from projections.desired import clique_effects, desired_rows
from projections.domain import DomainState
from projections.effects import AnyEffect, Target
from projections.fold import Aggregate
from projections.index import propose
from projections.lifecycle import domain_effects
from projections.partition import PartitionFold, restore
from projections.settings import Settings

NOT_ACTING_POLL_S = 0.1
"""How often a consumer that does not act yet looks whether it may."""
RESTORE_POLL_S = 1.0
RESTORE_SILENT_READS_MAX = 5
"""Reads without a record after which a restore takes what it has for the whole: the end of a partition may lie past the
last record that can be read (Kafka's markers), and a log may lag behind its end for a moment."""


class ConsumerConfig(msgspec.Struct, frozen=True):
    """Sizes and times of a consumer.

    `batch`: records read at once. `poll_s`: the longest wait for a record, of no other effect. `snapshot_records`:
    folded records between two snapshots of a partition. A controller that is killed has at most as many left to fold in
    each of its partitions: with 24 of them 120,000, so that a restart stays near two seconds (`docs/benchmarks.md`).
    `snapshot_bytes`: a large state waits longer, until there is a record for so many of its bytes. A domain's state
    grows with its nodes and so do its records: at a fixed distance the snapshots' cost would grow with the square.
    With 600 the distance begins to grow at 5,040 nodes (2.8 MB).
    """

    batch: int = 1000
    poll_s: float = 5.0
    snapshot_records: int = 5_000
    snapshot_bytes: int = 600


class FoldMetrics(Protocol):
    """What is counted of folding."""

    def folded(self, partition: int, records: int) -> None:
        """Count folded records."""

    def inadmissible(self, decision: str) -> None:
        """Count a decision that had no effect."""

    def undecodable(self, partition: int) -> None:
        """Count a record that is no event."""


class Source(Protocol):
    """Where the records come from that a consumer has not folded yet: the log, or what reads it on its behalf."""

    async def read(self, partition: int, offset: int, *, limit: int, timeout_s: float) -> Sequence[Record]:
        """Give records from `offset` on, without a gap; as `EventLog.read`."""


class Want(Protocol):
    """Takes what an aggregate wants, computed at a position (`Applier.replace`)."""

    def __call__(self, owner: str, effects: Mapping[Target, AnyEffect], position: str) -> None:
        """Replace all that `owner` wanted before."""


class PartitionConsumer:
    """Folds one partition and acts on it."""

    def __init__(
        self,
        partition: int,
        *,
        log: EventLog,
        source: Source,
        snapshots: SnapshotStore,
        appender: Appender,
        want: Want,
        settings: Settings,
        config: ConsumerConfig,
        metrics: FoldMetrics,
        logger: FilteringBoundLogger,
    ) -> None:
        """Start empty; `restore` comes first. It reads the log itself, `run` reads `source`."""
        self._partition = partition
        self._log = log
        self._source = source
        self._snapshots = snapshots
        self._appender = appender
        self._want = want
        self._settings = settings
        self._config = config
        self._metrics = metrics
        self._logger = logger
        self._fold = PartitionFold()
        self._snapshot_at = 0
        self._snapshot_size = 0
        self._appended_upto = 0
        self._wanting: set[str] = set()
        self.trouble: str | None = None

    @property
    def next_offset(self) -> int:
        """The offset of the first record that is not folded yet."""
        return self._fold.next_offset

    @property
    def aggregates(self) -> Mapping[str, Aggregate]:
        """The folded state by key."""
        return self._fold.aggregates

    def count_rows(self) -> Counter[str]:
        """Count the rows that the folded state wants, by status."""
        return Counter(
            row.status
            for state in self._fold.aggregates.values()
            if isinstance(state, CliqueState)
            for domain in state.domains
            for row in desired_rows(state, domain).values()
        )

    async def restore(self) -> None:
        """Load the newest snapshot and fold the rest of the partition. Raises LogError."""
        snapshot = await self._snapshots.load(self._partition)
        if snapshot is not None and (restored := restore(snapshot.state)) is not None:
            self._fold = restored
            self._snapshot_at, self._snapshot_size = restored.next_offset, len(snapshot.state)
        elif (beginning := await self._log.beginning_offset(self._partition)) > 0:
            # What follows is a part of the history; folded alone it would give indices away that are held.
            raise LogUnreadable(
                f"partition {self._partition}: the records below offset {beginning} are gone, and no snapshot that can "
                "be read holds what they said: bring them back, or start with a new log"
            )
        await self.catch_up()

    async def catch_up(self) -> None:
        """Fold up to the partition's end as of now, read from the log itself. Raises LogError."""
        end = await self._log.end_offset(self._partition)
        if self._fold.next_offset > end:
            raise LogUnreadable(
                f"partition {self._partition}: the snapshot goes up to {self._fold.next_offset} and the log ends "
                f"at {end}, so they are not of one log: bring the log back, or remove its snapshots"
            )
        silent = 0
        while self._fold.next_offset < end and silent < RESTORE_SILENT_READS_MAX:
            records = await self._read(self._log, RESTORE_POLL_S)
            silent = 0 if records else silent + 1
            self._take_in(records)

    async def run(self, may_act: Callable[[], bool]) -> NoReturn:
        """Fold for ever, and act while `may_act` says so. Raises LogError.

        What this consumer has appended is read back before it acts again: a log whose readers lag behind its writers
        must not make it append the same decisions over and over.
        """
        dirty: set[str] = set()
        acted = False
        while True:
            timeout_s = self._config.poll_s if acted else NOT_ACTING_POLL_S
            records = await self._read_on(timeout_s=0.0 if dirty and acted and self._is_level else timeout_s)
            dirty |= self._take_in(records)
            if not may_act():
                if acted:
                    self.withdraw()
                acted = False
            elif self._is_level and len(records) < self._config.batch:
                if not acted:
                    dirty, acted = set(self._fold.aggregates), True
                dirty = await self._act(dirty)
            if self._fold.next_offset - self._snapshot_at >= self._snapshot_distance:
                await self.snapshot()

    def withdraw(self) -> None:
        """Want nothing any more: what was handed on and is not sent yet is not sent."""
        for key in sorted(self._wanting):
            self._hand_on(key, (), self._position)

    @property
    def _is_level(self) -> bool:
        """Whether all that this consumer appended is folded."""
        return self._fold.next_offset >= self._appended_upto

    @property
    def _snapshot_distance(self) -> int:
        return max(self._config.snapshot_records, self._snapshot_size // self._config.snapshot_bytes)

    async def snapshot(self) -> None:
        """Save the folded state. A log that cannot be written now costs the snapshot only."""
        if self._fold.next_offset == self._snapshot_at:
            return
        state = self._fold.snapshot()
        self._snapshot_at, self._snapshot_size = self._fold.next_offset, len(state)
        try:
            await self._snapshots.save(self._partition, self._snapshot_at, state)
        except (LogUnavailable, AppendOutcomeUnknown) as error:
            self._logger.warning("snapshot not saved", partition=self._partition, cause=str(error))

    async def _read_on(self, timeout_s: float) -> Sequence[Record]:
        """Read, and try again while the log is not available; `trouble` says so meanwhile."""
        while True:
            try:
                records = await self._read(self._source, timeout_s)
            except LogUnavailable as error:
                if self.trouble is None:
                    self._logger.error("log not readable", partition=self._partition, cause=str(error))
                self.trouble = str(error)
                await self._appender.pause()
                continue
            self.trouble = None
            return records

    async def _read(self, source: Source, timeout_s: float) -> Sequence[Record]:
        return await source.read(self._partition, self._fold.next_offset, limit=self._config.batch, timeout_s=timeout_s)

    def _take_in(self, records: Iterable[Record]) -> set[str]:
        """Fold the records and give the keys that they touched."""
        touched = set()
        folded = 0
        for record in records:
            before = self._fold.aggregates.get(record.key)
            event = self._fold.apply(record)
            folded += 1
            if isinstance(event, UndecodableRecord):
                self._metrics.undecodable(self._partition)
                self._logger.error("record passed over", position=_position(record), cause=str(event))
                continue
            touched.add(record.key)
            if isinstance(event, Decision):
                self._explain(record, before)
        if folded:
            self._metrics.folded(self._partition, folded)
        return touched

    def _explain(self, record: Record, before: Aggregate | None) -> None:
        """Count and log a decision that had no effect."""
        after = self._fold.aggregates[record.key]
        counted = before.inadmissible if isinstance(before, CliqueState) else 0
        if isinstance(after, CliqueState) and after.inadmissible > counted:
            decision = record.headers.event_type
            self._metrics.inadmissible(decision)
            self._logger.info(
                "decision not admissible", decision=decision, position=_position(record), by=record.headers.controller
            )

    async def _act(self, keys: set[str]) -> set[str]:
        """Append what is due for these keys, and hand on the effects of those with nothing due; give the others."""
        position = self._position
        due: list[tuple[str, msgspec.Struct]] = []
        undecided = set()
        for key in sorted(keys):
            state = self._fold.aggregates[key]
            if isinstance(state, CliqueState):
                decisions = propose(state, self._settings)
                if decisions:
                    undecided.add(key)
                    due.extend((key, decision) for decision in decisions)
                else:
                    self._hand_on(key, clique_effects(state, key, self._settings), position)
            elif isinstance(state, DomainState):
                self._hand_on(key, domain_effects(state, self._settings), position)
        if due:
            positions = await self._appender.append(due)
            self._appended_upto = max(position.offset for position in positions) + 1
        return undecided

    @property
    def _position(self) -> str:
        return str(Position(self._partition, self._fold.next_offset - 1))

    def _hand_on(self, key: str, effects: Iterable[AnyEffect], position: str) -> None:
        wanted = {effect.target: effect for effect in effects}
        if wanted:
            self._wanting.add(key)
        else:
            self._wanting.discard(key)
        self._want(key, wanted, position)


def _position(record: Record) -> str:
    return str(Position(record.partition, record.offset))

"""Ablations of the log and of replay: what is durable, and where a restart goes on."""

from collections.abc import Awaitable, Callable, Iterable, Sequence

from controller import app
from controller.engines import consumer
from controller.engines.consumer import PartitionConsumer
from eventlog.log import AppendOutcomeUnknown, EventLog, LogUnavailable
from eventlog.partitioner import partition_for
from eventlog.record import Entry, Position, Record
from projections.partition import Folded, PartitionFold
from simulation.explore.ablations.ablation import Ablation, Swap
from simulation.explore.faulty_log import FaultyLog

Append = Callable[[EventLog, Sequence[Entry]], Awaitable[Sequence[Position]]]
Restore = Callable[[bytes], PartitionFold | None]


class TornSnapshots(PartitionConsumer):
    """Saves the offset of now with the state of before its newest records."""

    _before: PartitionFold | None = None

    def _take_in(self, records: Iterable[Record]) -> set[str]:
        self._before = PartitionFold(0, self._fold.head, self._fold.aggregates)
        return super()._take_in(records)

    async def snapshot(self) -> None:
        """Save a state that never was."""
        now = self._fold
        if self._before is not None:
            self._fold = PartitionFold(now.next_offset, now.head, self._before.aggregates)
        try:
            await super().snapshot()
        finally:
            self._fold = now


class LateFold(PartitionFold):
    """Goes on one record after the one where it should: the first of a key that it knows is left out."""

    _skipped = False

    def apply(self, record: Record) -> Folded:
        """Fold the record, unless it is the first."""
        if not self._skipped and record.offset >= self.next_offset and record.key in self.aggregates:
            self._skipped = True
            self.next_offset = record.offset + 1
            return None
        return super().apply(record)


def _skip(restore: Restore) -> Restore:
    def late(snapshot: bytes) -> PartitionFold | None:
        fold = restore(snapshot)
        return None if fold is None else LateFold(fold.next_offset, fold.head, fold.aggregates)

    return late


def _repeat(restore: Restore) -> Restore:
    def early(snapshot: bytes) -> PartitionFold | None:
        fold = restore(snapshot)
        return None if fold is None else PartitionFold(fold.next_offset - 1, fold.head, fold.aggregates)

    return early


def _give_up(append: Append) -> Append:
    """Take what may not be in the log for appended."""

    async def once(log: EventLog, entries: Sequence[Entry]) -> Sequence[Position]:
        try:
            return await append(log, entries)
        except (LogUnavailable, AppendOutcomeUnknown):
            return [Position(partition_for(entry.key, log.partitions), -1) for entry in entries]

    return once


ABLATIONS = (
    Ablation(
        "append-retry",
        "records whose append failed, or whose outcome is unknown, are dropped",
        "rule 12; C3: an observation is lost",
        (Swap(FaultyLog, "append", _give_up),),
    ),
    Ablation(
        "snapshot-atomicity",
        "a snapshot has the offset of one moment and the state of another",
        "rule 9; D-2: a state that never was is restored",
        (Swap(app, "PartitionConsumer", lambda _: TornSnapshots),),
    ),
    Ablation(
        "restart-offset",
        "a restart goes on one record after where its snapshot ends",
        "rule 9; C15: a record is left out",
        (Swap(consumer, "restore", _skip),),
    ),
    Ablation(
        "restart-twice",
        "a restart folds the last record of its snapshot once more",
        "rule 9: replay gives another state",
        (Swap(consumer, "restore", _repeat),),
    ),
)

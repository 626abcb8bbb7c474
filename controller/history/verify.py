"""The work of `cliquelog verify`: is a log whole, does it keep the rules, does folding it give one answer.

Three questions, each with its own findings: integrity (the engine's own check, offsets, decoding, partitions, and the
hash chain against the heads that the snapshots carry, and against those that were noted elsewhere), invariants (the
rules of design section 8 that a log alone can show, checked after each record), determinism (folded again, from a
snapshot of its middle, and spread over another number of partitions, the state is the same). A change of a record that
no snapshot and no note covers shows only in the head of its partition.
"""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from eventlog.codec import NewerSchema
from eventlog.integrity import PartitionReport
from eventlog.log import EventLog, Snapshot, SnapshotStore
from eventlog.partitioner import partition_for
from eventlog.reading import batches
from eventlog.record import Position, Record
from projections.clique import CliqueState
from projections.fold import Aggregate
from projections.invariants import WritesGoForward, indices_are_kept, indices_are_unique
from projections.partition import SNAPSHOT_VERSION, PartitionFold, digest, form_of, restore

BATCH = 5000


class Violation(msgspec.Struct, frozen=True):
    """A rule broken at a place in the log."""

    position: str
    key: str
    message: str


class Verdict(msgspec.Struct, frozen=True):
    """What `verify` found. `digest` is of the whole folded state; `heads` are the partitions' chains, in hex."""

    records: int
    partitions: int
    digest: str
    heads: dict[str, str]
    integrity: tuple[str, ...]
    violations: tuple[Violation, ...]
    determinism: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not (self.integrity or self.violations or self.determinism)


async def verify(
    log: EventLog, snapshots: SnapshotStore, reports: Sequence[PartitionReport], damage: Sequence[str]
) -> Verdict:
    """Fold the whole log again and again, and give the verdict.

    `reports` are those of `eventlog.integrity.check`, `damage` what else is known to be wrong. Raises LogError if the
    log cannot be read.
    """
    integrity = list(damage)
    folds, violations, determinism = [], [], []
    respread = _Respread(log.partitions + 1)
    for report in reports:
        integrity.extend(f"{one.partition}/{one.offset} {one.code}: {one.message}" for one in report.findings)
        if report.findings_count > len(report.findings):
            integrity.append(f"partition {report.partition}: {report.findings_count} findings in all")
        try:
            whole = await _fold_whole(log, report, await snapshots.load(report.partition))
            again = await _fold_again(log, report, whole.fold, respread)
        except NewerSchema:
            determinism.append(f"partition {report.partition} was not folded: it has records of a newer schema version")
            continue
        folds.append(whole.fold)
        integrity.extend(whole.misfits)
        violations.extend(whole.violations)
        determinism.extend(again)
    if len(folds) == len(reports) and respread.digest() != digest(folds):
        determinism.append(f"the state differs when the records are spread over {log.partitions + 1} partitions")
    return Verdict(
        records=sum(report.records for report in reports),
        partitions=len(reports),
        digest=digest(folds),
        heads={str(report.partition): report.head.hex() for report in reports if report.records},
        integrity=tuple(integrity),
        violations=tuple(violations),
        determinism=tuple(determinism),
    )


class _Respread:
    """The records of all partitions as a log with another number of them would have them."""

    def __init__(self, partitions: int) -> None:
        self._folds = [PartitionFold() for _ in range(partitions)]

    def apply(self, record: Record) -> None:
        partition = partition_for(record.key, len(self._folds))
        fold = self._folds[partition]
        fold.apply(replace(record, partition=partition, offset=fold.next_offset))

    def digest(self) -> str:
        return digest(self._folds)


class _Whole(msgspec.Struct, frozen=True):
    """A partition's fold, and what was found on the way."""

    fold: PartitionFold
    violations: list[Violation]
    misfits: list[str]


async def _fold_whole(log: EventLog, report: PartitionReport, snapshot: Snapshot | None) -> _Whole:
    """Fold the partition, check each clique after each of its records, and the snapshot where it was made."""
    fold = PartitionFold(report.beginning)
    violations: list[Violation] = []
    misfits = list(_beyond(report, snapshot))
    writes = WritesGoForward()
    is_comparable = snapshot is not None and report.beginning == 0
    compared = False
    if snapshot is not None and is_comparable and snapshot.next_offset == fold.next_offset:
        misfits.extend(_misfits(fold, snapshot))
        compared = True
    async for records in batches(log, report.partition, report.beginning, report.next_offset, limit=BATCH):
        for record in records:
            before = fold.aggregates.get(record.key)
            fold.apply(record)
            violations.extend(_violations(record, before, fold.aggregates.get(record.key), writes))
            if snapshot is not None and is_comparable and snapshot.next_offset == fold.next_offset:
                misfits.extend(_misfits(fold, snapshot))
                compared = True
    if snapshot is not None and is_comparable and not compared and snapshot.next_offset <= report.next_offset:
        misfits.append(f"partition {report.partition}: no record ends at {snapshot.next_offset}, where its snapshot is")
    return _Whole(fold, violations, misfits)


def _violations(
    record: Record, before: Aggregate | None, after: Aggregate | None, writes: WritesGoForward
) -> list[Violation]:
    if not isinstance(after, CliqueState):
        return []
    older = before if isinstance(before, CliqueState) else CliqueState()
    place = Position(record.partition, record.offset)
    messages = indices_are_unique(after) + indices_are_kept(older, after) + writes.take(place, older, after)
    return [Violation(str(place), record.key, message) for message in messages]


def _beyond(report: PartitionReport, snapshot: Snapshot | None) -> Iterator[str]:
    if snapshot is not None and snapshot.next_offset > report.next_offset:
        yield (
            f"partition {report.partition}: the log ends at offset {report.next_offset}, and its snapshot was made at "
            f"{snapshot.next_offset}: records are missing at the end"
        )


def _misfits(fold: PartitionFold, snapshot: Snapshot) -> Iterator[str]:
    """Compare with a snapshot that was made here; one of another form cannot be compared."""
    restored = restore(snapshot.state)
    if restored is None:
        if form_of(snapshot.state) in {None, SNAPSHOT_VERSION}:
            yield f"partition {snapshot.partition}: its snapshot at {snapshot.next_offset} is spoilt: it cannot be read"
        return
    if restored.head != fold.head:
        yield (
            f"partition {snapshot.partition}: the records below offset {snapshot.next_offset} are not those that its "
            "snapshot was made of: some were changed since"
        )
    elif digest([restored]) != digest([fold]):
        yield f"partition {snapshot.partition}: its snapshot at {snapshot.next_offset} is not the state of its records"


async def _fold_again(log: EventLog, report: PartitionReport, whole: PartitionFold, respread: _Respread) -> list[str]:
    """Fold a second time, through a snapshot of the middle, and compare; spread the records on the way."""
    fold = PartitionFold(report.beginning)
    middle = (report.beginning + report.next_offset) // 2
    resumed = False
    async for records in batches(log, report.partition, report.beginning, report.next_offset, limit=BATCH):
        for record in records:
            if record.offset >= middle and not resumed:
                restored = restore(fold.snapshot())
                if restored is None:
                    return [f"partition {report.partition}: its snapshot cannot be restored"]
                fold, resumed = restored, True
            fold.apply(record)
            respread.apply(record)
    if fold.head != whole.head or fold.head != report.head:
        return [f"partition {report.partition}: the hash chain differs when it is folded again"]
    if digest([fold]) != digest([whole]):
        return [f"partition {report.partition}: the state differs when it is folded again through a snapshot"]
    return []

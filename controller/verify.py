"""The work of `cliquelog verify`: is a log whole, does it keep the rules, does folding it give one answer.

Three questions, each with its own findings: integrity (offsets, decoding, partitions, the hash chain), invariants (the
rules of design section 8 that a log alone can show, checked after each record), determinism (folded twice, and once
from a snapshot of its middle, the state is the same).
"""

from collections.abc import Sequence

import msgspec

from eventlog.codec import UndecodableRecord
from eventlog.integrity import PartitionReport, check
from eventlog.log import EventLog
from eventlog.record import Position, Record
from projections.clique import CliqueState
from projections.invariants import indices_are_kept, indices_are_unique
from projections.partition import PartitionFold, digest, restore

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


async def verify(log: EventLog, *, dense: bool) -> Verdict:
    """Read the whole log and give the verdict. Raises LogError if it cannot be read."""
    reports = await check(log, dense=dense)
    integrity = [
        f"{one.partition}/{one.offset} {one.code}: {one.message}" for report in reports for one in report.findings
    ]
    folds, violations, determinism = [], [], []
    for report in reports:
        if any(one.code == "undecodable" for one in report.findings):
            determinism.append(f"partition {report.partition} was not folded: it has records that cannot be decoded")
            continue
        fold, found = await _fold_whole(log, report)
        folds.append(fold)
        violations.extend(found)
        determinism.extend(await _fold_again(log, report, fold))
    return Verdict(
        records=sum(report.records for report in reports),
        partitions=len(reports),
        digest=digest(folds),
        heads={str(report.partition): report.head.hex() for report in reports if report.records},
        integrity=tuple(integrity),
        violations=tuple(violations),
        determinism=tuple(determinism),
    )


async def _fold_whole(log: EventLog, report: PartitionReport) -> tuple[PartitionFold, list[Violation]]:
    """Fold the partition, and check each clique after each of its records."""
    fold = PartitionFold(report.beginning)
    violations: list[Violation] = []
    while records := await _batch(log, report, fold.next_offset):
        for record in records:
            before = fold.aggregates.get(record.key)
            try:
                fold.apply(record)
            except UndecodableRecord:
                break
            after = fold.aggregates[record.key]
            if isinstance(after, CliqueState):
                older = before if isinstance(before, CliqueState) else CliqueState()
                place = str(Position(record.partition, record.offset))
                messages = indices_are_unique(after) + indices_are_kept(older, after)
                violations.extend(Violation(place, record.key, message) for message in messages)
    return fold, violations


async def _fold_again(log: EventLog, report: PartitionReport, whole: PartitionFold) -> list[str]:
    """Fold a second time, through a snapshot of the middle, and compare."""
    fold = PartitionFold(report.beginning)
    middle = (report.beginning + report.next_offset) // 2
    resumed = False
    while records := await _batch(log, report, fold.next_offset):
        for record in records:
            if record.offset >= middle and not resumed:
                restored = restore(fold.snapshot())
                if restored is None:
                    return [f"partition {report.partition}: its snapshot cannot be restored"]
                fold, resumed = restored, True
            fold.apply(record)
    if fold.head != whole.head or fold.head != report.head:
        return [f"partition {report.partition}: the hash chain differs when it is folded again"]
    if digest([fold]) != digest([whole]):
        return [f"partition {report.partition}: the state differs when it is folded again through a snapshot"]
    return []


async def _batch(log: EventLog, report: PartitionReport, offset: int) -> Sequence[Record]:
    """Read on, up to where the report ended: a log that grows meanwhile is verified as of then."""
    if offset >= report.next_offset:
        return ()
    limit = min(BATCH, report.next_offset - offset)
    return await log.read(report.partition, offset, limit=limit, timeout_s=0.0)

"""The work of `cliquelog copy`: every record of one log into another, in its partition and order, and proof of it.

Problem: a copy takes long and is ended midway, and then nobody knows how far it was. What was done is therefore read
from the target itself: what stands there must be, record by record, how the source begins; the copy goes on behind it.
Nothing is appended before all partitions are compared, so a log of something else is left as it is. An append whose
outcome is unknown ends the copy: sent again, its records could be there twice.

Nobody locks the target meanwhile. So at the end both logs are read from their beginnings and folded, and the heads of
their hash chains and the digests of their states compared.
"""

import time
from collections.abc import Callable, Sequence

import msgspec

from eventlog import codec
from eventlog.log import AppendOutcomeUnknown, EventLog, LogUnavailable, LogUnreadable
from eventlog.partitioner import partition_for
from eventlog.reading import batches
from eventlog.record import Entry, Position, Record
from projections.partition import PartitionFold, digest

LIMIT = 500
"""Records that are held at once, which bounds the memory: an event has a kilobyte, and some have a megabyte."""

PHASES = ("compare", "copy", "verify")

Show = Callable[[str, int, int], None]
"""Is told of the phase, how many of its records are done, and how many there are, or a few less: offsets have gaps."""


class PartitionCopy(msgspec.Struct, frozen=True):
    """A partition of the copy: its records, the head of their hash chain, the digest of the state that they give."""

    partition: int
    records: int
    head: str
    digest: str


class Copied(msgspec.Struct, frozen=True):
    """What came of it. `records` are all of the target's, `there_already` those that the copy found there.

    `differences` are empty if the target is what the source was when the copy began.
    """

    records: int
    there_already: int
    seconds: float
    differences: tuple[str, ...]
    partitions: tuple[PartitionCopy, ...]


class _Part(msgspec.Struct):
    """How far one partition is: `offset` is the source's next record, `end` where the source ended at the start."""

    partition: int
    offset: int
    end: int
    records: int


async def copy(source: EventLog, target: EventLog, show: Show) -> Copied:
    """Copy all records that the source has now. Raises LogError, and then the same call goes on from there.

    LogUnreadable: the logs have other partitions, records of one of them are gone, or the target holds others.
    """
    began = time.perf_counter()
    if target.partitions != source.partitions:
        raise LogUnreadable(
            f"the log {target.topic} to copy to has {target.partitions} partitions and {source.topic} has "
            f"{source.partitions}, so that keys would change theirs; give another one, it is made as it must be"
        )
    parts = [await _whole(source, partition) for partition in range(source.partitions)]
    ends = [(await _whole(target, part.partition)).end for part in parts]
    told = _Told(show, "compare", sum(ends))
    for part, end in zip(parts, ends, strict=True):
        await _compare(source, target, part, end, told)
    there = sum(part.records for part in parts)
    told = _Told(show, "copy", sum(part.end - part.offset for part in parts))
    for part in parts:
        await _append_rest(source, target, part, told)
    told = _Told(show, "verify", sum(part.records for part in parts))
    copies: list[PartitionCopy] = []
    differences: list[str] = []
    for part in parts:
        copied, different = await _verify(source, target, part, told)
        copies.append(copied)
        differences.extend(different)
    total = sum(one.records for one in copies)
    return Copied(total, there, time.perf_counter() - began, tuple(differences), tuple(copies))


class _Told:
    """Adds up what is done of a phase."""

    def __init__(self, show: Show, phase: str, total: int) -> None:
        self._show = show
        self._phase = phase
        self._total = total
        self._done = 0
        self(0)

    def __call__(self, records: int) -> None:
        self._done += records
        self._show(self._phase, self._done, self._total)


async def _whole(log: EventLog, partition: int) -> _Part:
    """Begin with a partition. Raises LogUnreadable if its first records are gone: the rest gives another state."""
    beginning, end = await log.beginning_offset(partition), await log.end_offset(partition)
    if beginning > 0:
        raise LogUnreadable(
            f"partition {partition} of {log.topic} begins at offset {beginning}: the records before are gone, and "
            "without them a copy would be another history; bring them back, or take a whole log"
        )
    return _Part(partition, 0, end, 0)


async def _compare(source: EventLog, target: EventLog, part: _Part, target_end: int, told: _Told) -> None:
    """Move `part` behind what the target has of the partition already. Raises LogUnreadable if that is not its own."""
    async for copies in batches(target, part.partition, 0, target_end, limit=LIMIT):
        originals = await _next(source, part, len(copies))
        for original, copied in zip(originals, copies, strict=False):
            if _entry(original) != _entry(copied):
                raise _other(source, target, copied, f"{Position(part.partition, original.offset)} is another one")
        if len(originals) < len(copies):
            raise _other(source, target, copies[len(originals)], "has no such record")
        told(len(copies))


def _other(source: EventLog, target: EventLog, found: Record, told: str) -> LogUnreadable:
    place = Position(found.partition, found.offset)
    return LogUnreadable(
        f"the log {target.topic} holds records that are no copy of {source.topic}: at {place}, where {source.topic} "
        f"{told}; it was left as it is, give another one to copy to"
    )


async def _next(source: EventLog, part: _Part, count: int) -> list[Record]:
    """Take the next records of the source, fewer only at its end."""
    found: list[Record] = []
    while len(found) < count and part.offset < part.end:
        records = await source.read(part.partition, part.offset, limit=count - len(found), timeout_s=0.0)
        if not records:
            break
        found.extend(records)
        part.offset = records[-1].offset + 1
    part.records += len(found)
    return found


async def _append_rest(source: EventLog, target: EventLog, part: _Part, told: _Told) -> None:
    async for records in batches(source, part.partition, part.offset, part.end, limit=LIMIT):
        for record in records:
            _refuse_unfit(source, record)
        try:
            await target.append([_entry(record) for record in records])
        except (AppendOutcomeUnknown, LogUnavailable) as error:
            raise LogUnavailable(f"the copy has ended midway, the same command goes on from there: {error}") from error
        part.records += len(records)
        part.offset = records[-1].offset + 1
        told(len(records))


def _refuse_unfit(source: EventLog, record: Record) -> None:
    """Refuse what could not be checked in the copy, or would not be where it was."""
    if record.headers.schema_version > codec.SCHEMA_VERSION:
        codec.decode(record)  # Raises NewerSchema.
    right = partition_for(record.key, source.partitions)
    if right != record.partition:
        raise LogUnreadable(
            f"record {source.topic} {Position(record.partition, record.offset)} is in the wrong partition: its key "
            f"belongs to {right}; see `cliquelog verify`"
        )


def _entry(record: Record) -> Entry:
    return Entry(record.key, record.timestamp_ms, record.headers, record.value)


async def _verify(source: EventLog, target: EventLog, part: _Part, told: _Told) -> tuple[PartitionCopy, Sequence[str]]:
    """Fold the partition of both logs, and give that of the target with what it differs in."""
    its, _ = await _folded(source, part.partition, part.end)
    fold, records = await _folded(target, part.partition, await target.end_offset(part.partition))
    told(part.records)
    copied = PartitionCopy(part.partition, records, fold.head.hex(), digest([fold]))
    differences = []
    if records != part.records:
        differences.append(f"partition {part.partition}: {records} records where {part.records} were copied")
    elif fold.head != its.head:
        differences.append(f"partition {part.partition}: another hash chain, so another record or order")
    elif copied.digest != digest([its]):
        differences.append(f"partition {part.partition}: another state of equal records")
    return copied, differences


async def _folded(log: EventLog, partition: int, end: int) -> tuple[PartitionFold, int]:
    fold, count = PartitionFold(), 0
    async for records in batches(log, partition, 0, end, limit=LIMIT):
        for record in records:
            fold.apply(record)
        count += len(records)
    return fold, count

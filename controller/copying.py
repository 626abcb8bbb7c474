"""The work of `cliquelog copy`: every record of one log into another, in its partition and order, and proof of it.

Problem: a copy takes long and is ended midway, and then nobody knows how far it was. What was done is therefore read
from the target itself: what stands there must be, record by record, how the source begins; the copy goes on behind it.
Nothing is appended before all partitions are compared, so a log of something else is left as it is. An append whose
outcome is unknown ends the copy: sent again, its records could be there twice.

The source is read to its end before there need be a target: one that is refused must not leave an empty log behind.
That gives the heads of its hash chains and the digests of its states. Nobody locks the target meanwhile, so at the end
it is read from its beginning and folded, and compared with them.
"""

from collections.abc import Callable

import msgspec

from eventlog import codec
from eventlog.log import AppendOutcomeUnknown, EventLog, LogUnavailable, LogUnreadable
from eventlog.partitioner import partition_for
from eventlog.reading import batches
from eventlog.record import Entry, Position, Record
from projections.partition import PartitionFold, digest

LIMIT = 500
"""Records that are held at once, which bounds the memory: an event has a kilobyte, and some have a megabyte."""

Show = Callable[[str, int, int], None]
"""Is told of the phase, how many of its records are done, and how many there are, or a few less: offsets have gaps."""


class Side(msgspec.Struct, frozen=True):
    """One of the two logs, and its place as the user named it."""

    place: str
    log: EventLog


class PartitionCopy(msgspec.Struct, frozen=True):
    """A partition of one side: its records, the head of their hash chain, the digest of the state that they give."""

    partition: int
    records: int
    head: str
    digest: str


class Accepted(msgspec.Struct, frozen=True):
    """What the source is, partition by partition, up to the offsets where it ended when the copy began."""

    ends: tuple[int, ...]
    partitions: tuple[PartitionCopy, ...]


class Copied(msgspec.Struct, frozen=True):
    """What came of it: records that were copied, those that the copy found in the target, and all that it has now.

    `differences` are empty if the target is what the source was when the copy began.
    """

    copied: int
    there_already: int
    records: int
    differences: tuple[str, ...]
    partitions: tuple[PartitionCopy, ...]


class _Part(msgspec.Struct):
    """How far one partition is: `offset` is the source's next record, `end` where the source ended at the start."""

    partition: int
    offset: int
    end: int
    records: int


async def accept(source: Side, show: Show) -> Accepted:
    """Read and fold all that the source has now. Raises LogError for what cannot be copied.

    LogUnreadable: records are gone, or lie in the wrong partition; NewerSchema.
    """
    ends = [await _end_of_whole(source, partition) for partition in range(source.log.partitions)]
    told = _Told(show, "check", sum(ends))
    partitions = [await _folded(source, partition, end, told) for partition, end in enumerate(ends)]
    return Accepted(tuple(ends), tuple(partitions))


async def copy(source: Side, accepted: Accepted, target: Side, show: Show) -> Copied:
    """Copy all records that were accepted. Raises LogError, and then the same call goes on from there.

    LogUnreadable: the target has other partitions, lacks its first records, or holds others.
    """
    count, given = source.log.partitions, target.log.partitions
    if given != count:
        raise LogUnreadable(
            f"{target.place} has {given} partitions and {source.place} has {count}, so that keys would change theirs; "
            "give another one to copy to, it is made as it must be"
        )
    parts = [_Part(partition, 0, end, 0) for partition, end in enumerate(accepted.ends)]
    ends = [await _end_of_whole(target, part.partition) for part in parts]
    told = _Told(show, "compare", sum(ends))
    for part, end in zip(parts, ends, strict=True):
        await _compare(source, target, part, end, told)
    there = sum(part.records for part in parts)
    told = _Told(show, "copy", sum(part.end - part.offset for part in parts))
    for part in parts:
        await _append_rest(source, target, part, told)
    copied = sum(part.records for part in parts) - there
    ends = [await target.log.end_offset(part.partition) for part in parts]
    told = _Told(show, "verify", sum(ends))
    found = [await _folded(target, partition, end, told) for partition, end in enumerate(ends)]
    differences = [
        different
        for original, one in zip(accepted.partitions, found, strict=True)
        if (different := _difference(original, one)) is not None
    ]
    total = sum(one.records for one in found)
    return Copied(copied, there, total, tuple(differences), tuple(found))


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


async def _end_of_whole(side: Side, partition: int) -> int:
    """Give a partition's end. Raises LogUnreadable if its first records are gone: the rest gives another state."""
    beginning, end = await side.log.beginning_offset(partition), await side.log.end_offset(partition)
    if beginning > 0:
        raise LogUnreadable(
            f"partition {partition} of {side.place} begins at offset {beginning}: the records before are gone, and "
            "without them a copy would be another history; bring them back, or take a whole log"
        )
    return end


async def _folded(side: Side, partition: int, end: int, told: _Told) -> PartitionCopy:
    """Fold a partition up to an offset. Raises LogError for a record that could not be where it is in a copy."""
    fold, count = PartitionFold(), 0
    async for records in batches(side.log, partition, 0, end, limit=LIMIT):
        for record in records:
            _refuse_misplaced(side, record)
            try:
                fold.apply(record)
            except codec.NewerSchema as error:
                raise codec.NewerSchema(f"{side.place} cannot be copied or compared: {error}") from error
        count += len(records)
        told(len(records))
    return PartitionCopy(partition, count, fold.head.hex(), digest([fold]))


def _refuse_misplaced(side: Side, record: Record) -> None:
    right = partition_for(record.key, side.log.partitions)
    if right != record.partition:
        raise LogUnreadable(
            f"record {Position(record.partition, record.offset)} of {side.place} is in the wrong partition: its key "
            f"belongs to {right}; see `cliquelog verify`"
        )


async def _compare(source: Side, target: Side, part: _Part, target_end: int, told: _Told) -> None:
    """Move `part` behind what the target has of the partition already. Raises LogUnreadable if that is not its own."""
    async for copies in batches(target.log, part.partition, 0, target_end, limit=LIMIT):
        originals = await _next(source.log, part, len(copies))
        for original, copied in zip(originals, copies, strict=False):
            if _entry(original) != _entry(copied):
                raise _other(source, target, copied, f"{Position(part.partition, original.offset)} is another one")
        if len(originals) < len(copies):
            raise _other(source, target, copies[len(originals)], "there is no such record")
        told(len(copies))


def _other(source: Side, target: Side, found: Record, told: str) -> LogUnreadable:
    place = Position(found.partition, found.offset)
    return LogUnreadable(
        f"{target.place} holds records that are no copy of {source.place}: at {place}, where in {source.place} "
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


async def _append_rest(source: Side, target: Side, part: _Part, told: _Told) -> None:
    async for records in batches(source.log, part.partition, part.offset, part.end, limit=LIMIT):
        try:
            await target.log.append([_entry(record) for record in records])
        except (AppendOutcomeUnknown, LogUnavailable) as error:
            raise LogUnavailable(f"the copy has ended midway, the same command goes on from there: {error}") from error
        part.records += len(records)
        part.offset = records[-1].offset + 1
        told(len(records))


def _entry(record: Record) -> Entry:
    return Entry(record.key, record.timestamp_ms, record.headers, record.value)


def _difference(original: PartitionCopy, found: PartitionCopy) -> str | None:
    """Say what a partition of the target differs in; None if it is equal."""
    where = f"partition {found.partition}"
    if found.records != original.records:
        return f"{where}: {found.records} records where {original.records} were copied"
    if found.head != original.head:
        return f"{where}: another hash chain, so another record or order"
    if found.digest != original.digest:
        return f"{where}: another state of equal records"
    return None

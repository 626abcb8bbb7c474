"""Heads noted outside the log: what proves later that nothing before them was changed, and where something was.

Problem: who can write to a log's storage can change its records, and everything in it that would tell of that.
Invariant: a note holds, for each partition, the head of its hash chain after so many records, and three bytes of the
head after each record: the head says whether anything was changed, the first three bytes that differ say where. Once in
17 million cases they are the same by chance; then the place is told one record late, and the change all the same.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from eventlog.integrity import PRINT_BYTES, Finding, PartitionReport
from eventlog.log import EventLog

FORM = "cliquelog-heads/1"

Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class PartitionHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A partition as it was: `records` from offset `beginning` up to `next_offset`, `head` in hex.

    `prints` has three bytes for each record.
    """

    partition: Count
    beginning: Count
    next_offset: Count
    records: Count
    head: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    prints: bytes


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The heads of a log; `noted` is when, for people."""

    form: str
    topic: str
    noted: str
    partitions: tuple[PartitionHead, ...]


class UnfitNote(Exception):
    """A note that cannot be used; the message is a sentence that says why."""


def note(topic: str, noted: str, reports: Sequence[PartitionReport]) -> Note:
    """Note the heads as of now."""
    heads = (
        PartitionHead(one.partition, one.beginning, one.next_offset, one.records, one.head.hex(), one.prints)
        for one in reports
    )
    return Note(FORM, topic, noted, tuple(heads))


def encode(one: Note) -> bytes:
    """Give the note as JSON, a partition a line."""
    head, partitions = msgspec.json.encode(one).split(b'"partitions":[', 1)
    return head + b'"partitions":[\n' + partitions.replace(b"},{", b"},\n{") + b"\n"


def decode(content: bytes, partitions: int) -> Note:
    """Read a note of a log with so many partitions. Raises UnfitNote."""
    try:
        found = msgspec.json.decode(content, type=Note)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UnfitNote("it is no note of heads as --note writes them, or not all of it") from error
    if found.form != FORM:
        raise UnfitNote(f"it is a note of form {found.form[:40]!r}, and this program reads {FORM!r}")
    if [one.partition for one in found.partitions] != list(range(partitions)):
        raise UnfitNote(f"it is of a log with {len(found.partitions)} partitions, and this one has {partitions}")
    for one in found.partitions:
        if len(one.prints) != one.records * PRINT_BYTES:
            raise UnfitNote(f"it does not hold what it says of partition {one.partition}; it was cut off or changed")
    return found


def counts(one: Note) -> dict[int, int]:
    """Give by partition how many records were noted."""
    return {head.partition: head.records for head in one.partitions}


async def compare(log: EventLog, one: Note, reports: Sequence[PartitionReport], *, dense: bool) -> list[Finding]:
    """Give where the log is not what was noted; `reports` were made with the note's counts. Raises LogError.

    `dense` as for `check`: only then a gap in the offsets shows which record is missing.
    """
    found = [
        await _difference(log, head, report, dense=dense) for head, report in zip(one.partitions, reports, strict=True)
    ]
    return [finding for finding in found if finding is not None]


async def _difference(log: EventLog, noted: PartitionHead, report: PartitionReport, *, dense: bool) -> Finding | None:
    if noted.records and report.beginning != noted.beginning:
        gone = f"the records below offset {report.beginning} are gone, and what follows cannot be compared"
        return Finding(noted.partition, noted.beginning, "missing-since", f"{gone}: the note begins at this offset")
    if report.noted_head is not None and report.noted_head.hex() == noted.head:
        return None
    index = _first_difference(noted.prints, report.prints)
    if index >= report.records:
        missing = noted.records - report.records
        return Finding(
            noted.partition,
            report.next_offset,
            "missing-since",
            f"the log ends here, and {missing} more records were noted, up to offset {noted.next_offset - 1}",
        )
    was_dense = noted.next_offset - noted.beginning == noted.records
    offset = await _offset_of(log, report, index)
    if dense and was_dense and offset > noted.beginning + index:
        message = "the record that was noted here is missing"
        return Finding(noted.partition, noted.beginning + index, "missing-since", message)
    message = "this record is not the one that was noted here, so what follows it has another history"
    return Finding(noted.partition, offset, "changed-since", message)


def _first_difference(noted: bytes, now: bytes) -> int:
    """Give the index of the first record whose print differs; of the last one noted if only its head does."""
    last = len(noted) // PRINT_BYTES - 1
    return next((i for i in range(last) if _print(noted, i) != _print(now, i)), max(last, 0))


def _print(prints: bytes, index: int) -> bytes:
    return prints[index * PRINT_BYTES : (index + 1) * PRINT_BYTES]


async def _offset_of(log: EventLog, report: PartitionReport, index: int) -> int:
    """Give the offset of the partition's record of that number, from 0."""
    offset = report.beginning
    while True:
        records = await log.read(report.partition, offset, limit=min(5000, index + 1), timeout_s=0.0)
        if len(records) > index or not records:
            return records[index].offset if records else offset
        index -= len(records)
        offset = records[-1].offset + 1

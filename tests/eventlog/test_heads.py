"""Heads noted outside a log: whatever is done to the log afterwards, the note tells that, and where."""

import asyncio
import random
from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog import codec, heads
from eventlog.events import NodeSeen
from eventlog.integrity import Finding, PartitionReport, check
from eventlog.log import EventLog
from eventlog.memory import MemoryLog
from eventlog.record import Entry, Record

NOTED = "2026-11-29T10:00:00.000Z"


def entries(count: int, start: int = 0) -> list[Entry]:
    return [
        codec.entry(f"c.{n % 7}", NodeSeen(f"n{n}", "u", n), timestamp_ms=n, controller="t")
        for n in range(start, start + count)
    ]


class EditedLog(MemoryLog):
    """A log whose records were edited behind its back; offsets stay what they were."""

    def __init__(self, records: Sequence[Sequence[Record]]) -> None:
        super().__init__(partitions=len(records))
        self._edited = records

    async def read(self, partition: int, offset: int, *, limit: int, timeout_s: float) -> Sequence[Record]:
        del timeout_s
        return [one for one in self._edited[partition] if one.offset >= offset][:limit]

    async def end_offset(self, partition: int) -> int:
        records = self._edited[partition]
        return records[-1].offset + 1 if records else 0

    async def beginning_offset(self, partition: int) -> int:
        records = self._edited[partition]
        return records[0].offset if records else 0


async def all_of(log: EventLog) -> list[list[Record]]:
    return [list(await log.read(p, 0, limit=100_000, timeout_s=0)) for p in range(log.partitions)]


async def noted(log: EventLog) -> heads.Note:
    """Note the log's heads, and read the note back."""
    written = heads.encode(heads.note(log.topic, NOTED, await check(log, {}, dense=True)))
    return heads.decode(written, log.partitions)


async def compared(log: EventLog, note: heads.Note, *, dense: bool = True) -> list[Finding]:
    reports = await check(log, heads.counts(note), dense=dense)
    return await heads.compare(log, note, reports, dense=dense)


async def filled(count: int = 200, partitions: int = 3) -> MemoryLog:
    log = MemoryLog(partitions=partitions)
    await log.append(entries(count))
    return log


async def test_a_log_that_only_grew_is_what_was_noted() -> None:
    log = await filled()
    note = await noted(log)
    assert await compared(log, note) == []
    await log.append(entries(50, start=200))
    assert await compared(log, note) == []
    empty = MemoryLog(partitions=3)
    of_nothing = await noted(empty)
    await empty.append(entries(9))
    assert await compared(empty, of_nothing) == []


def changed(records: list[Record], at: int) -> list[Record]:
    return [*records[:at], msgspec.structs.replace(records[at], timestamp_ms=7_777_777), *records[at + 1 :]]


def removed(records: list[Record], at: int) -> list[Record]:
    return [*records[:at], *records[at + 1 :]]


@pytest.mark.parametrize(
    ("edit", "code"), [(changed, "changed-since"), (removed, "missing-since")], ids=["changed", "removed"]
)
async def test_a_record_that_was_changed_or_removed_is_named_wherever_it_was(
    edit: Callable[[list[Record], int], list[Record]], code: str
) -> None:
    log = await filled()
    note, whole = await noted(log), await all_of(log)
    await log.append(entries(30, start=200))
    grown = await all_of(log)
    for partition, records in enumerate(whole):
        for at in range(1, len(records)):
            edited = [edit(one, at) if number == partition else one for number, one in enumerate(grown)]
            (found,) = await compared(EditedLog(edited), note)
            assert (found.partition, found.offset, found.code) == (partition, at, code)


async def test_records_that_are_missing_at_the_end_are_counted() -> None:
    log = await filled()
    note, whole = await noted(log), await all_of(log)
    for left in range(len(whole[1])):
        (found,) = await compared(EditedLog([whole[0], whole[1][:left], whole[2]]), note)
        if left:
            assert (found.partition, found.offset, found.code) == (1, left, "missing-since")
            assert f"and {len(whole[1]) - left} more records were noted" in found.message


async def test_records_that_are_missing_at_the_beginning_are_told() -> None:
    log = await filled()
    note, whole = await noted(log), await all_of(log)
    (found,) = await compared(EditedLog([whole[0][5:], *whole[1:]]), note)
    assert (found.partition, found.offset, found.code) == (0, 0, "missing-since")
    assert "below offset 5 are gone" in found.message


async def test_records_that_were_appended_anew_after_some_were_cut_off_are_not_those_that_were_noted() -> None:
    log = await filled(partitions=1)
    note, (whole,) = await noted(log), await all_of(log)
    again = [msgspec.structs.replace(one, timestamp_ms=one.timestamp_ms + 1) for one in whole[150:]]
    (found,) = await compared(EditedLog([[*whole[:150], *again]]), note)
    assert (found.offset, found.code) == (150, "changed-since")


async def test_a_copy_on_an_engine_with_gaps_in_its_offsets_is_what_was_noted() -> None:
    log = await filled()
    note, whole = await noted(log), await all_of(log)
    spread = [[msgspec.structs.replace(one, offset=one.offset * 3) for one in records] for records in whole]
    assert await compared(EditedLog(spread), note, dense=False) == []
    for edit in (changed, removed):
        (found,) = await compared(EditedLog([edit(spread[0], 10), *spread[1:]]), note, dense=False)
        # Which record is missing, offsets with gaps do not tell: the first that is there instead is named.
        assert (found.partition, found.code) == (0, "changed-since")
        assert found.offset == (30 if edit is changed else 33)


async def test_the_place_is_told_also_when_only_the_whole_head_differs() -> None:
    """The last record's three bytes are the same by chance once in 17 million; the head itself differs."""
    log = await filled(partitions=1)
    note = await noted(log)
    (head,) = note.partitions
    other = msgspec.structs.replace(head, head="0" * 64)
    (found,) = await compared(log, msgspec.structs.replace(note, partitions=(other,)))
    assert (found.offset, found.code) == (199, "changed-since")


BAD = [
    (lambda _: b"", "it is no note of heads"),
    (lambda _: b"[1, 2]", "it is no note of heads"),
    (lambda c: c[: len(c) // 2], "it is no note of heads"),
    (lambda c: c.replace(b"cliquelog-heads/1", b"cliquelog-heads/9"), "of form 'cliquelog-heads/9'"),
    (lambda c: c.replace(b'"records":', b'"records":1', 1), "it was cut off or changed"),
    (lambda c: c.replace(b'"topic":', b'"more":1,"topic":', 1), "it is no note of heads"),
    (lambda _: b"[" * 100_000, "it is no note of heads"),
]


@pytest.mark.parametrize(("edit", "sentence"), BAD)
async def test_what_is_no_note_is_refused(edit: Callable[[bytes], bytes], sentence: str) -> None:
    log = await filled()
    content = heads.encode(await noted(log))
    with pytest.raises(heads.UnfitNote, match=sentence):
        heads.decode(edit(content), 3)


async def test_a_note_of_another_number_of_partitions_is_refused() -> None:
    content = heads.encode(await noted(await filled()))
    with pytest.raises(heads.UnfitNote, match="of a log with 3 partitions, and this one has 6"):
        heads.decode(content, 6)


@given(st.integers(0, 2**32), st.integers(1, 60))
def test_any_edit_is_told_at_or_before_the_first_record_that_it_touched(seed: int, count: int) -> None:
    async def tried() -> None:
        rng = random.Random(seed)
        log = await filled(count, partitions=1)
        note, (records,) = await noted(log), await all_of(log)
        at = rng.randrange(len(records))
        edited = list(records)
        rest = edited[at:]
        rng.shuffle(rest)
        kept = rest[: rng.randrange(len(rest) + 1)]
        edited = [*edited[:at], *(msgspec.structs.replace(one, offset=at + n) for n, one in enumerate(kept))]
        found = await compared(EditedLog([edited]), note)
        first = next((n for n, (a, b) in enumerate(zip(records, edited, strict=False)) if a.value != b.value), None)
        if first is None:
            first = len(edited)
        if first == len(records):
            assert found == []
        else:
            assert [one.offset for one in found] == [first]

    asyncio.run(tried())


def test_a_report_keeps_three_bytes_for_each_record() -> None:
    async def report() -> PartitionReport:
        (one,) = await check(await filled(partitions=1), {0: 5}, dense=True)
        return one

    one = asyncio.run(report())
    assert len(one.prints) == 3 * one.records
    assert one.head[:3] == one.prints[-3:]
    assert one.noted_head is not None
    assert one.noted_head[:3] == one.prints[12:15]

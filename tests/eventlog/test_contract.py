"""What every log and every snapshot store keeps: one suite, run on each adapter.

It states no more than Kafka can keep: offsets rise but may have gaps, order holds within a partition only.
"""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from eventlog.log import EventLog, InvalidRequest, OffsetOutOfRange, SnapshotStore
from eventlog.partitioner import partition_for
from eventlog.record import Entry, Headers, Position, Record

Make = Callable[..., Entry]
WAIT_S = 30.0
"""Longer than any wait that succeeds; a test that needs it fails."""


def content(record: Record | Entry) -> tuple[object, ...]:
    return record.key, record.timestamp_ms, record.headers, record.value


async def everything(log: EventLog, partition: int, limit: int = 100) -> list[Record]:
    found: list[Record] = []
    offset = await log.beginning_offset(partition)
    end = await log.end_offset(partition)
    while offset < end:
        records = await log.read(partition, offset, limit=limit, timeout_s=WAIT_S)
        assert records, "a read below the end gives records"
        found += records
        offset = records[-1].offset + 1
    return found


def in_partition(log: EventLog, entries: Sequence[Entry], partition: int) -> list[tuple[object, ...]]:
    return [content(entry) for entry in entries if partition_for(entry.key, log.partitions) == partition]


async def test_a_record_comes_back_whole_at_the_position_that_append_gave(log: EventLog) -> None:
    written = Entry(
        "c0ffee00.7", 1_712_345_678_901, Headers("cdc-seen", 3, "pod-ä/7"), b'{"type":"\xc3\xbc"}\n\x00\xff'
    )
    (position,) = await log.append([written])
    (record,) = await log.read(position.partition, position.offset, limit=1, timeout_s=WAIT_S)
    assert content(record) == content(written)
    assert (record.topic, record.partition, record.offset) == (log.topic, position.partition, position.offset)


async def test_an_entry_goes_to_the_partition_that_its_key_has_in_kafka(log: EventLog, entry: Make) -> None:
    entries = [entry(key=f"clique.{number}") for number in range(40)]
    positions = await log.append(entries)
    assert [position.partition for position in positions] == [partition_for(e.key, log.partitions) for e in entries]
    assert {position.partition for position in positions} == set(range(log.partitions))


async def test_records_of_a_partition_are_read_in_the_order_in_which_they_were_appended(
    log: EventLog, entry: Make
) -> None:
    entries = [entry(key=f"clique.{number % 7}", value=b"%d" % number) for number in range(200)]
    for start in range(0, len(entries), 13):
        await log.append(entries[start : start + 13])
    for partition in range(log.partitions):
        records = await everything(log, partition, limit=17)
        assert [content(record) for record in records] == in_partition(log, entries, partition)
        offsets = [record.offset for record in records]
        assert offsets == sorted(set(offsets))


async def test_appends_at_the_same_time_are_all_there_each_in_its_own_order(log: EventLog, entry: Make) -> None:
    groups = [[entry(value=b"%d/%d" % (group, number)) for number in range(5)] for group in range(30)]
    positions = await asyncio.gather(*(log.append(group) for group in groups))
    records = {
        Position(record.partition, record.offset): record for record in await everything(log, positions[0][0].partition)
    }
    assert len(records) == 150
    for group, places in zip(groups, positions, strict=True):
        assert [content(records[place]) for place in places] == [content(entry) for entry in group]
        assert list(places) == sorted(places)


async def test_an_append_of_nothing_gives_no_positions(log: EventLog) -> None:
    assert list(await log.append([])) == []


async def test_a_read_gives_no_more_than_its_limit(log: EventLog, entry: Make) -> None:
    positions = await log.append([entry(value=b"%d" % number) for number in range(10)])
    records = await log.read(positions[0].partition, positions[0].offset, limit=3, timeout_s=WAIT_S)
    assert [record.value for record in records] == [b"0", b"1", b"2"]


async def test_a_read_at_the_end_gives_an_empty_answer_when_its_time_is_over(log: EventLog, entry: Make) -> None:
    (position,) = await log.append([entry()])
    end = await log.end_offset(position.partition)
    assert list(await log.read(position.partition, end, limit=10, timeout_s=0.05)) == []
    assert list(await log.read(position.partition, end, limit=10, timeout_s=0)) == []


async def test_a_read_that_waits_is_woken_by_an_append(log: EventLog, entry: Make) -> None:
    partition = partition_for("clique.0", log.partitions)
    end = await log.end_offset(partition)
    waiting = asyncio.create_task(log.read(partition, end, limit=10, timeout_s=WAIT_S))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await log.append([entry(value=b"awaited")])
    assert [record.value for record in await waiting] == [b"awaited"]


async def test_every_one_of_many_waiting_reads_is_woken_by_the_append_to_its_partition(
    log: EventLog, entry: Make
) -> None:
    keys = {partition_for(f"clique.{number}", log.partitions): f"clique.{number}" for number in range(40)}
    ends = {partition: await log.end_offset(partition) for partition in keys}
    waiting = {
        partition: [asyncio.create_task(log.read(partition, end, limit=1, timeout_s=WAIT_S)) for _ in range(3)]
        for partition, end in ends.items()
    }
    await asyncio.sleep(0.05)
    for key in keys.values():
        await log.append([entry(key=key, value=key.encode())])
    for partition, reads in waiting.items():
        for records in await asyncio.gather(*reads):
            assert [record.key for record in records] == [keys[partition]]


async def test_a_cancelled_read_leaves_the_log_usable(log: EventLog, entry: Make) -> None:
    waiting = asyncio.create_task(log.read(0, await log.end_offset(0), limit=1, timeout_s=WAIT_S))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    (position,) = await log.append([entry(value=b"after")])
    (record,) = await log.read(position.partition, position.offset, limit=1, timeout_s=WAIT_S)
    assert record.value == b"after"


async def test_a_cancelled_append_takes_no_other_append_with_it(log: EventLog, entry: Make) -> None:
    appends = [asyncio.create_task(log.append([entry(value=b"%d" % number)])) for number in range(20)]
    await asyncio.sleep(0)
    for number in range(0, 20, 2):
        appends[number].cancel()
    results = await asyncio.gather(*appends, return_exceptions=True)
    stayed = [result for result in results if not isinstance(result, BaseException)]
    assert len(stayed) >= 10
    there = {record.offset for record in await everything(log, partition_for("clique.0", log.partitions))}
    assert {position.offset for positions in stayed for position in positions} <= there


async def test_a_read_below_the_beginning_is_refused(log: EventLog, entry: Make) -> None:
    (position,) = await log.append([entry()])
    below = await log.beginning_offset(position.partition) - 1
    with pytest.raises(OffsetOutOfRange, match="begins at offset"):
        await log.read(position.partition, below, limit=1, timeout_s=0)


async def test_in_an_empty_partition_beginning_and_end_are_one(log: EventLog) -> None:
    for partition in range(log.partitions):
        assert await log.beginning_offset(partition) == await log.end_offset(partition)


async def test_the_end_is_past_every_record_and_never_falls(log: EventLog, entry: Make) -> None:
    partition = partition_for("clique.0", log.partitions)
    ends = [await log.end_offset(partition)]
    for _ in range(5):
        (position,) = await log.append([entry()])
        ends.append(await log.end_offset(partition))
        assert ends[-1] > position.offset
    assert ends == sorted(ends)


@pytest.mark.parametrize(
    ("unfit", "reason"),
    [
        (Entry("a\0b", 1, Headers("node-seen", 1, "one"), b""), "key .* NUL"),
        (Entry("a", 1, Headers("node\0seen", 1, "one"), b""), "event type .* NUL"),
        (Entry("a", 1, Headers("node-seen", 1, "o\0ne"), b""), "controller .* NUL"),
        (Entry("a\ud800", 1, Headers("node-seen", 1, "one"), b""), "key .* surrogate"),
        (Entry("a", -1, Headers("node-seen", 1, "one"), b""), "timestamp -1"),
        (Entry("a", 1 << 63, Headers("node-seen", 1, "one"), b""), "timestamp 9223372036854775808"),
        (Entry("a", 1, Headers("node-seen", 0, "one"), b""), "schema version 0"),
    ],
    ids=["key", "type", "controller", "surrogate", "before-1970", "too-late", "version"],
)
async def test_an_unfit_entry_is_refused_together_with_the_rest_of_its_append(
    log: EventLog, entry: Make, unfit: Entry, reason: str
) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        await log.append([entry(), unfit])
    for partition in range(log.partitions):
        assert await everything(log, partition) == []
    assert len(await log.append([entry()])) == 1


@pytest.mark.parametrize("partition", [-1, 4])
async def test_a_partition_that_is_not_there_is_refused(log: EventLog, partition: int) -> None:
    with pytest.raises(InvalidRequest, match=f"no partition {partition}"):
        await log.read(partition, 0, limit=1, timeout_s=0)
    with pytest.raises(InvalidRequest, match=f"no partition {partition}"):
        await log.end_offset(partition)
    with pytest.raises(InvalidRequest, match=f"no partition {partition}"):
        await log.beginning_offset(partition)


async def test_a_read_of_no_records_is_refused(log: EventLog) -> None:
    with pytest.raises(InvalidRequest, match="limit 0"):
        await log.read(0, 0, limit=0, timeout_s=0)


async def test_close_waits_for_the_appends_under_way(log: EventLog, entry: Make) -> None:
    appends = [asyncio.create_task(log.append([entry(value=b"%d" % number)])) for number in range(50)]
    await asyncio.sleep(0)
    await log.close()
    positions = await asyncio.gather(*appends)
    assert len({position for places in positions for position in places}) == 50


async def test_close_ends_the_reads_that_wait(log: EventLog) -> None:
    waiting = asyncio.create_task(log.read(0, await log.end_offset(0), limit=1, timeout_s=WAIT_S))
    await asyncio.sleep(0.05)
    await log.close()
    assert list(await waiting) == []


async def test_a_closed_log_refuses_everything_but_another_close(log: EventLog, entry: Make) -> None:
    await log.close()
    await log.close()
    with pytest.raises(InvalidRequest, match="closed"):
        await log.append([entry()])
    with pytest.raises(InvalidRequest, match="closed"):
        await log.read(0, 0, limit=1, timeout_s=0)
    with pytest.raises(InvalidRequest, match="closed"):
        await log.end_offset(0)


async def test_a_partition_without_a_snapshot_has_none(snapshots: SnapshotStore) -> None:
    assert await snapshots.load(0) is None


async def test_a_snapshot_comes_back_as_it_was_saved(snapshots: SnapshotStore) -> None:
    state = bytes(range(256)) * 4096
    await snapshots.save(3, 1 << 39, state)
    found = await snapshots.load(3)
    assert found is not None
    assert (found.partition, found.next_offset, found.state) == (3, 1 << 39, state)
    assert await snapshots.load(2) is None


async def test_a_later_snapshot_replaces_the_one_before_and_no_other_partitions(snapshots: SnapshotStore) -> None:
    await snapshots.save(0, 10, b"zero")
    await snapshots.save(1, 20, b"old")
    await snapshots.save(1, 30, b"")
    zero, one = await snapshots.load(0), await snapshots.load(1)
    assert zero is not None
    assert one is not None
    assert (zero.next_offset, zero.state) == (10, b"zero")
    assert (one.next_offset, one.state) == (30, b"")


async def test_an_older_snapshot_does_not_replace_a_newer_one(snapshots: SnapshotStore) -> None:
    await snapshots.save(1, 30, b"newer")
    await snapshots.save(1, 29, b"older")
    await snapshots.save(0, 1, b"of another partition")
    found = await snapshots.load(1)
    assert found is not None
    assert (found.next_offset, found.state) == (30, b"newer")


async def test_a_snapshot_of_the_same_offset_replaces_the_one_before(snapshots: SnapshotStore) -> None:
    await snapshots.save(1, 30, b"of a form that nobody can read")
    await snapshots.save(1, 30, b"readable")
    found = await snapshots.load(1)
    assert found is not None
    assert (found.next_offset, found.state) == (30, b"readable")

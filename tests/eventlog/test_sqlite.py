"""What the SQLite log adds to the contract: its file, other openers of it, and a sentence for everything that fails."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from eventlog.log import InvalidRequest, LogUnavailable, LogUnreadable
from eventlog.partitioner import partition_for
from eventlog.record import Entry, Record
from eventlog.sqlite import SqliteLog, SqliteSnapshots
from eventlog.sqlite.driver import ROWS
from eventlog.sqlite.tail import LIMIT

Make = Callable[..., Entry]
Fill = Callable[..., Awaitable[None]]


def names(folder: Path) -> list[str]:
    return sorted(child.name for child in folder.iterdir())


async def test_a_log_outlives_its_process_with_its_records_and_snapshots(tmp_path: Path, entry: Make) -> None:
    path = tmp_path / "log.sqlite"
    log = await SqliteLog.open(path, partitions=4)
    (position,) = await log.append([entry(value=b"kept")])
    await SqliteSnapshots(log).save(2, 7, b"state")
    await log.close()
    assert names(tmp_path) == ["log.sqlite"], "a closed log is one file"
    log = await SqliteLog.open(path, partitions=4)
    (record,) = await log.read(position.partition, position.offset, limit=2, timeout_s=0)
    snapshot = await SqliteSnapshots(log).load(2)
    (following,) = await log.append([entry()])
    await log.close()
    assert record.value == b"kept"
    assert snapshot is not None
    assert snapshot.state == b"state"
    assert following.offset == position.offset + 1


@pytest.mark.parametrize("count", [ROWS - 1, ROWS, 2 * ROWS + 500])
async def test_an_append_of_many_records_gives_each_its_place(count: int, tmp_path: Path, entry: Make) -> None:
    log = await SqliteLog.open(tmp_path / "log.sqlite", partitions=4)
    other = await SqliteLog.open_readonly(tmp_path / "log.sqlite")
    entries = [entry(f"key-{number % 7}", value=b"%d" % number) for number in range(count)]
    positions = await log.append(entries)
    read = {partition: await other.read(partition, 0, limit=count, timeout_s=0) for partition in range(4)}
    await other.close()
    await log.close()
    assert sum(map(len, read.values())) == count
    for one, position in zip(entries, positions, strict=True):
        record = read[position.partition][position.offset]
        assert (record.offset, record.key, record.value) == (position.offset, one.key, one.value)


async def test_a_log_keeps_the_number_of_partitions_that_it_was_created_with(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    await (await SqliteLog.open(path, partitions=4)).close()
    with pytest.raises(LogUnreadable, match=r"has 4 partitions.*24 were asked for; ask for 4"):
        await SqliteLog.open(path)
    log = await SqliteLog.open(path, partitions=None)
    assert log.partitions == 4
    await log.close()


async def test_a_log_of_another_topic_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    await (await SqliteLog.open(path, topic="east")).close()
    with pytest.raises(LogUnreadable, match="is the log of topic 'east', not 'west'"):
        await SqliteLog.open(path, topic="west")


@pytest.mark.parametrize("partitions", [0, -1, (1 << 20) + 1])
async def test_a_number_of_partitions_that_cannot_be_is_refused(tmp_path: Path, partitions: int) -> None:
    with pytest.raises(InvalidRequest, match=f"cannot have {partitions} partitions"):
        await SqliteLog.open(tmp_path / "log.sqlite", partitions=partitions)
    assert names(tmp_path) == []


async def test_a_log_in_the_highest_partition_works(tmp_path: Path, entry: Make) -> None:
    log = await SqliteLog.open(tmp_path / "log.sqlite", partitions=1 << 20)
    entries = [entry(key=f"clique.{number}") for number in range(200)]
    positions = await log.append(entries)
    for one, position in zip(entries, positions, strict=True):
        records = await log.read(position.partition, position.offset, limit=5, timeout_s=0)
        assert [record.key for record in records] == [one.key]
    await log.close()


async def test_a_path_with_odd_characters_is_taken_as_it_is(tmp_path: Path, fill: Fill) -> None:
    path = tmp_path / "a b?mode=memory&x#%41ä" / "log?.sqlite"
    path.parent.mkdir()
    await fill(path)
    assert names(path.parent) == [path.name]


# --- other openers of the same file ---------------------------------------------------------------------------------


async def test_two_openers_append_to_one_file_without_gap_or_clash(tmp_path: Path, entry: Make) -> None:
    logs = [await SqliteLog.open(tmp_path / "log.sqlite", partitions=4) for _ in range(2)]
    appends = [log.append([entry(value=b"%d" % number)]) for number in range(100) for log in logs]
    positions = [position for (position,) in await asyncio.gather(*appends)]
    assert sorted(position.offset for position in positions) == list(range(200))
    for log in logs:
        await log.close()


async def test_a_read_that_waits_is_woken_by_an_append_of_another_opener(tmp_path: Path, entry: Make) -> None:
    ours, theirs = [await SqliteLog.open(tmp_path / "log.sqlite", partitions=4) for _ in range(2)]
    for number in range(3):
        waiting = asyncio.create_task(ours.read(partition_for("k", 4), number, limit=1, timeout_s=30))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await theirs.append([entry(key="k", value=b"theirs")])
        assert [record.value for record in await waiting] == [b"theirs"]
    await ours.close()
    await theirs.close()


async def test_a_reader_sees_new_headers_that_another_opener_brought(tmp_path: Path, entry: Make) -> None:
    ours, theirs = [await SqliteLog.open(tmp_path / "log.sqlite", partitions=1) for _ in range(2)]
    await ours.append([entry(controller="one")])
    assert len(await ours.read(0, 0, limit=9, timeout_s=0)) == 1
    await theirs.append([entry(controller="two")])
    assert [record.headers.controller for record in await ours.read(0, 1, limit=9, timeout_s=0)] == ["two"]
    await ours.close()
    await theirs.close()


async def test_an_appender_reads_the_records_that_another_opener_reads_from_the_file(
    tmp_path: Path, entry: Make
) -> None:
    """Its own come from memory, in part: others wrote in between, and the oldest are kept no more."""
    ours, theirs, reader = [await SqliteLog.open(tmp_path / "log.sqlite", partitions=1) for _ in range(3)]
    for turn in range(8):
        for log, count in ((ours, 150), (theirs, turn % 3)):
            await log.append([entry(value=b"%d %d" % (turn, number)) for number in range(count)])
    await ours.append([entry(value=b"%d" % number) for number in range(LIMIT + 1)])
    end = await reader.end_offset(0)
    stored = await all_records(reader, end)
    assert [record.offset for record in stored] == list(range(end))
    assert await all_records(ours, end) == stored
    assert await all_records(theirs, end) == stored
    for log in (ours, theirs, reader):
        await log.close()


async def all_records(log: SqliteLog, end: int) -> list[Record]:
    """Read as a consumer does, each time from after what it has; a read may give less than there is."""
    records: list[Record] = []
    while len(records) < end:
        more = await log.read(0, len(records), limit=70, timeout_s=0)
        assert more
        records.extend(more)
    return records


async def test_a_log_is_read_for_audit_while_a_writer_is_at_work_and_cannot_be_changed(
    tmp_path: Path, entry: Make
) -> None:
    writer = await SqliteLog.open(tmp_path / "log.sqlite", partitions=1)
    await writer.append([entry(value=b"first")])
    auditor = await SqliteLog.open_readonly(tmp_path / "log.sqlite")
    await writer.append([entry(value=b"second")])
    assert [record.value for record in await auditor.read(0, 0, limit=9, timeout_s=0)] == [b"first", b"second"]
    assert await auditor.damage() == []
    with pytest.raises(LogUnavailable, match="opened for reading only"):
        await auditor.append([entry()])
    await auditor.close()
    await writer.close()


async def test_a_lock_that_is_held_too_long_is_named_and_the_log_goes_on_after_it(tmp_path: Path, entry: Make) -> None:
    path = tmp_path / "log.sqlite"
    log = await SqliteLog.open(path, partitions=4, busy_timeout_s=0.1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LogUnavailable, match="is locked by another process"):
            await log.append([entry()])
        other.execute("ROLLBACK")
    assert len(await log.append([entry()])) == 1
    await log.close()


async def test_while_an_append_waits_for_a_lock_the_event_loop_and_readers_go_on(tmp_path: Path, entry: Make) -> None:
    path = tmp_path / "log.sqlite"
    log = await SqliteLog.open(path, partitions=1, busy_timeout_s=60)
    await log.append([entry(value=b"before")])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        append = asyncio.create_task(log.append([entry(value=b"after")]))
        for _ in range(20):
            await asyncio.sleep(0.005)
            assert [record.value for record in await log.read(0, 0, limit=9, timeout_s=0)] == [b"before"]
        assert not append.done()
        other.execute("ROLLBACK")
    assert [position.offset for position in await append] == [1]
    await log.close()


async def test_the_writer_syncs_each_commit_to_disk(tmp_path: Path) -> None:
    log = await SqliteLog.open(tmp_path / "log.sqlite")
    assert log._writer is not None
    settings = [
        log._writer._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")
    ]
    await log.close()
    assert settings == ["wal", 2], "2 is FULL"


async def test_appends_at_the_same_time_share_transactions(tmp_path: Path, entry: Make) -> None:
    log = await SqliteLog.open(tmp_path / "log.sqlite", partitions=1)
    before = log.wal_bytes
    await asyncio.gather(*(log.append([entry()]) for _ in range(500)))
    # A transaction writes one page at least.
    assert (log.wal_bytes - before) / 4096 < 100
    await log.close()


async def test_the_write_ahead_log_stays_bounded_and_shrinks_after_a_reader_held_on_to_it(
    tmp_path: Path, entry: Make
) -> None:
    path = tmp_path / "log.sqlite"
    log = await SqliteLog.open(path, partitions=1)
    mebibyte = entry(value=bytes(1 << 20))
    for _ in range(30):
        await log.append([mebibyte])
        assert log.wal_bytes < 18 << 20
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM record").fetchone()
        for _ in range(30):
            await log.append([mebibyte])
        assert log.wal_bytes > 18 << 20
        reader.execute("ROLLBACK")
    for _ in range(20):
        await log.append([mebibyte])
    assert log.wal_bytes < 18 << 20
    await log.close()


async def test_people_can_read_the_records_with_any_sqlite_tool(tmp_path: Path, fill: Fill) -> None:
    path = tmp_path / "log.sqlite"
    await fill(path, records=1)
    with closing(sqlite3.connect(path)) as shell:
        rows = shell.execute("SELECT partition, offset, key, timestamp, event_type, controller FROM records").fetchall()
    assert rows == [(partition_for("clique.0", 4), 0, "clique.0", "2023-11-14T22:13:20.000Z", "node-seen", "one")]

"""What the SQLite log adds to the contract: its file, other openers of it, and a sentence for everything that fails."""

import asyncio
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from eventlog import filesystem
from eventlog.log import AppendOutcomeUnknown, InvalidRequest, LogError, LogUnavailable, LogUnreadable
from eventlog.partitioner import partition_for
from eventlog.record import Entry
from eventlog.sqlite import SqliteLog, SqliteSnapshots
from eventlog.sqlite.driver import translated

Make = Callable[..., Entry]


async def fill(path: Path, entry: Make, records: int = 10) -> None:
    log = await SqliteLog.open(path, partitions=4)
    await log.append([entry(key=f"clique.{number}", value=b"%d" % number * 100) for number in range(records)])
    await log.close()


async def read_everything(path: Path) -> None:
    log = await SqliteLog.open_readonly(path)
    try:
        for partition in range(log.partitions):
            await log.read(partition, 0, limit=10_000, timeout_s=0)
    finally:
        await log.close()


def names(folder: Path) -> list[str]:
    return sorted(child.name for child in folder.iterdir())


@pytest.fixture
def ordinary_folder() -> Iterator[Path]:
    """A folder of an ordinary user, as whom the rest of the test runs: root is refused nothing."""
    folder = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    if root:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    yield folder
    if root:
        os.seteuid(0)
    folder.chmod(0o700)
    shutil.rmtree(folder)


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


async def test_a_path_with_odd_characters_is_taken_as_it_is(tmp_path: Path, entry: Make) -> None:
    path = tmp_path / "a b?mode=memory&x#%41ä" / "log?.sqlite"
    path.parent.mkdir()
    await fill(path, entry)
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
    assert [record.headers.controller for record in await ours.read(0, 0, limit=9, timeout_s=0)] == ["one", "two"]
    await ours.close()
    await theirs.close()


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
    log = await SqliteLog.open(path, partitions=1, busy_timeout_s=0.05)
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


async def test_people_can_read_the_records_with_any_sqlite_tool(tmp_path: Path, entry: Make) -> None:
    path = tmp_path / "log.sqlite"
    await fill(path, entry, records=1)
    with closing(sqlite3.connect(path)) as shell:
        rows = shell.execute("SELECT partition, offset, key, timestamp, event_type, controller FROM records").fetchall()
    assert rows == [(partition_for("clique.0", 4), 0, "clique.0", "2023-11-14T22:13:20.000Z", "node-seen", "one")]


# --- what fails says so ---------------------------------------------------------------------------------------------


async def test_a_file_that_is_not_sqlite_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("shopping list\n" * 100)
    for opening in (SqliteLog.open(path), SqliteLog.open_readonly(path)):
        with pytest.raises(LogUnreadable, match=r"notes.txt is not a SQLite file"):
            await opening
    assert path.read_text() == "shopping list\n" * 100
    assert names(tmp_path) == [path.name]


async def test_a_sqlite_file_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE record (x)")
    before = path.read_bytes()
    for opening in (SqliteLog.open(path), SqliteLog.open_readonly(path)):
        with pytest.raises(LogUnreadable, match=r"history.sqlite is a SQLite file of another program"):
            await opening
    assert path.read_bytes() == before


async def test_a_log_of_a_newer_format_is_refused(tmp_path: Path, entry: Make) -> None:
    path = tmp_path / "log.sqlite"
    await fill(path, entry)
    with closing(sqlite3.connect(path)) as newer:
        newer.execute("PRAGMA user_version = 2")
    for opening in (SqliteLog.open(path, partitions=4), SqliteLog.open_readonly(path)):
        with pytest.raises(LogUnreadable, match="has log format 2 and this program reads 1; use a newer cliquelog"):
            await opening


async def test_a_missing_log_is_not_created_for_those_who_only_want_to_read(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    for opening in (SqliteLog.open(path, create=False), SqliteLog.open_readonly(path)):
        with pytest.raises(LogUnreadable, match="there is no log at"):
            await opening
    assert names(tmp_path) == []
    path.touch()
    with pytest.raises(LogUnreadable, match="there is no log at"):
        await SqliteLog.open(path, create=False)
    with pytest.raises(LogUnreadable, match="empty SQLite file, not a log"):
        await SqliteLog.open_readonly(path)
    assert path.read_bytes() == b""


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "log.sqlite"
    for opening in (SqliteLog.open(path), SqliteLog.open_readonly(path)):
        with pytest.raises(LogUnreadable, match=r"there is no folder .*absent; create it"):
            await opening


async def test_a_folder_in_the_place_of_the_file_is_named(tmp_path: Path) -> None:
    for opening in (SqliteLog.open(tmp_path), SqliteLog.open_readonly(tmp_path)):
        with pytest.raises(LogUnreadable, match="is a folder, not a log"):
            await opening


async def test_a_damaged_page_is_found_by_the_check_and_by_a_read_that_meets_it(tmp_path: Path, entry: Make) -> None:
    path = tmp_path / "log.sqlite"
    await fill(path, entry, records=2_000)
    content = bytearray(path.read_bytes())
    for page in range(20, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xa5" * 64
    path.write_bytes(content)
    log = await SqliteLog.open_readonly(path)
    assert await log.damage() != []
    await log.close()
    with pytest.raises(LogUnreadable, match=r"log.sqlite is damaged .*; restore it from a copy"):
        await read_everything(path)


async def test_a_file_that_was_cut_short_is_reported_as_damaged(tmp_path: Path, entry: Make) -> None:
    path = tmp_path / "log.sqlite"
    await fill(path, entry, records=2_000)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(LogUnreadable, match=r"log.sqlite is damaged .*; restore it from a copy"):
        await read_everything(path)


async def test_records_that_name_missing_headers_are_reported_as_damage(tmp_path: Path, entry: Make) -> None:
    path = tmp_path / "log.sqlite"
    await fill(path, entry)
    with closing(sqlite3.connect(path)) as tool:
        tool.execute("DELETE FROM headers")
        tool.commit()
    log = await SqliteLog.open(path, partitions=None)
    with pytest.raises(LogUnreadable, match=r"records name headers \[1\], which are not there"):
        await log.read(partition_for("clique.0", 4), 0, limit=1, timeout_s=0)
    await log.close()


async def test_a_read_only_file_can_be_read_and_not_opened_for_appending(ordinary_folder: Path, entry: Make) -> None:
    path = ordinary_folder / "log.sqlite"
    await fill(path, entry)
    path.chmod(0o400)
    with pytest.raises(LogUnavailable, match=r"cannot be written .*; make the file and its folder writable"):
        await SqliteLog.open(path, partitions=None)
    log = await SqliteLog.open_readonly(path)
    assert len(await log.read(partition_for("clique.0", 4), 0, limit=1, timeout_s=0)) == 1
    await log.close()


async def test_a_read_only_folder_can_be_read_and_not_opened_for_appending(ordinary_folder: Path, entry: Make) -> None:
    path = ordinary_folder / "log.sqlite"
    await fill(path, entry)
    os.chmod(ordinary_folder, 0o500)  # noqa: PTH101 - pathlib's is taken for blocking
    with pytest.raises(LogError, match=r"log.sqlite cannot be .*folder"):
        await SqliteLog.open(path, partitions=None)
    with pytest.raises(LogUnreadable, match=r"cannot be opened .*; check the rights of the file and its folder"):
        await SqliteLog.open(ordinary_folder / "new.sqlite")
    log = await SqliteLog.open_readonly(path)
    assert len(await log.read(partition_for("clique.0", 4), 0, limit=1, timeout_s=0)) == 1
    await log.close()


async def test_a_file_that_may_not_be_read_is_named(ordinary_folder: Path, entry: Make) -> None:
    path = ordinary_folder / "log.sqlite"
    await fill(path, entry)
    path.chmod(0)
    for opening in (SqliteLog.open(path), SqliteLog.open_readonly(path)):
        with pytest.raises(LogUnreadable, match=r"log.sqlite cannot be opened .*; check the rights"):
            await opening


@pytest.mark.parametrize("replace", [False, True], ids=["deleted", "replaced"])
async def test_nothing_is_acknowledged_into_a_file_that_is_no_longer_at_its_path(
    tmp_path: Path, entry: Make, replace: bool
) -> None:
    path = tmp_path / "log.sqlite"
    log = await SqliteLog.open(path, partitions=4)
    path.rename(tmp_path / "aside")
    if replace:
        path.touch()
    with pytest.raises(LogUnavailable, match="was moved, deleted or replaced while open"):
        await log.append([entry()])
    with pytest.raises(LogUnavailable, match="was moved, deleted or replaced while open"):
        await SqliteSnapshots(log).save(0, 1, b"")
    (tmp_path / "aside").replace(path)
    assert len(await log.append([entry()])) == 1
    await log.close()


async def test_headers_of_a_transaction_that_failed_are_not_taken_for_stored(tmp_path: Path, entry: Make) -> None:
    log = await SqliteLog.open(tmp_path / "log.sqlite", partitions=1)
    assert log._writer is not None
    connection = log._writer._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LogUnavailable, match="cannot grow because the disk is full"):
        await log.append([entry(controller="new", value=bytes(100_000))])
    await log.append([entry(controller="other", value=b"small")])
    connection.execute("PRAGMA max_page_count = 1000000")
    await log.append([entry(controller="new")])
    records = await log.read(0, 0, limit=9, timeout_s=0)
    assert [(record.offset, record.headers.controller) for record in records] == [(0, "other"), (1, "new")]
    await log.close()


@pytest.mark.parametrize(
    ("code", "committing", "kind"),
    [
        (sqlite3.SQLITE_IOERR_FSYNC, True, AppendOutcomeUnknown),
        (sqlite3.SQLITE_IOERR_FSYNC, False, LogUnavailable),
        (sqlite3.SQLITE_IOERR_WRITE, True, LogUnavailable),
        (sqlite3.SQLITE_FULL, True, LogUnavailable),
        (sqlite3.SQLITE_CORRUPT_INDEX, True, LogUnreadable),
    ],
)
def test_only_a_failed_sync_leaves_the_outcome_of_a_commit_open(
    code: int, committing: bool, kind: type[LogError]
) -> None:
    error = sqlite3.OperationalError("as SQLite reports it")
    error.sqlite_errorcode = code
    with pytest.raises(LogError) as raised, translated(Path("log.sqlite"), committing=committing):
        raise error
    assert type(raised.value) is kind


def test_a_mistake_in_using_sqlite_is_not_taken_for_a_damaged_log() -> None:
    connection = sqlite3.connect(":memory:")
    connection.close()
    with pytest.raises(sqlite3.ProgrammingError), translated(Path("log.sqlite")):
        connection.execute("SELECT 1")


async def test_a_failure_while_looking_for_other_openers_appends_reaches_the_reads_that_wait(tmp_path: Path) -> None:
    log = await SqliteLog.open(tmp_path / "log.sqlite", partitions=1)
    waiting = [asyncio.create_task(log.read(0, 0, limit=1, timeout_s=30)) for _ in range(2)]
    await asyncio.sleep(0.05)
    log._reader._connection.close()
    for read in waiting:
        with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
            await read
    await log.close()


# --- file systems ---------------------------------------------------------------------------------------------------

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:40 / /data rw - nfs4 server:/export rw,vers=4.2
31 22 0:41 / /data/local rw shared:5 master:1 - xfs /dev/vdb rw
32 22 0:42 / /my\\040share rw - cifs //server/share rw
33 22 0:43 / /host rw - virtiofs host rw
34 22 0:44 / /buckets rw - fuse.s3fs s3fs rw
35 22 0:45 / /over rw - nfs server:/a rw
36 22 0:46 / /over rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/log.sqlite", "ext4"),
        ("/data/log.sqlite", "nfs4"),
        ("/database/log.sqlite", "ext4"),
        ("/data/local/log.sqlite", "xfs"),
        ("/my share/log.sqlite", "cifs"),
        ("/host/a/b/log.sqlite", "virtiofs"),
        ("/buckets/log.sqlite", "fuse.s3fs"),
        ("/over/log.sqlite", "tmpfs"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_the_mount_that_covers_it(path: str, kind: str) -> None:
    assert filesystem.filesystem_type(Path(path), MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "fuse", "fuse.sshfs", "ceph"])
async def test_a_log_on_a_network_file_system_is_refused(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(f"22 1 0:1 / / rw - {kind} source rw\n")
    monkeypatch.setattr(filesystem, "MOUNTINFO", table)
    path = tmp_path / "log.sqlite"
    for opening in (SqliteLog.open(path), SqliteLog.open_readonly(path)):
        with pytest.raises(LogUnreadable, match=f"is on a file system of type {kind}, .*; put the log on a local disk"):
            await opening
    assert not path.exists()


async def test_a_network_file_system_behind_a_link_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "share").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "share")
    table = tmp_path / "mountinfo"
    table.write_text(f"22 1 0:1 / / rw - ext4 disk rw\n23 22 0:2 / {tmp_path}/share rw - nfs server:/x rw\n")
    monkeypatch.setattr(filesystem, "MOUNTINFO", table)
    with pytest.raises(LogUnreadable, match="of type nfs"):
        await SqliteLog.open(tmp_path / "link" / "log.sqlite")


def test_a_system_without_a_mount_table_refuses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "MOUNTINFO", tmp_path / "absent")
    filesystem.refuse_network_filesystem(tmp_path / "log.sqlite")

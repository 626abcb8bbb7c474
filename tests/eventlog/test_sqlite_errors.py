"""Whatever goes wrong with the file of a SQLite log is said in one sentence, and the file is left as it was."""

import asyncio
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from eventlog.log import AppendOutcomeUnknown, LogError, LogUnavailable, LogUnreadable
from eventlog.partitioner import partition_for
from eventlog.record import Entry
from eventlog.sqlite import SqliteLog, SqliteSnapshots
from eventlog.sqlite.driver import translated

Make = Callable[..., Entry]
Fill = Callable[..., Awaitable[None]]


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


async def test_a_log_of_a_newer_format_is_refused(tmp_path: Path, fill: Fill) -> None:
    path = tmp_path / "log.sqlite"
    await fill(path)
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
    for opening in (SqliteLog.open(path, create=False), SqliteLog.open_readonly(path)):
        with pytest.raises(LogUnreadable, match="is an empty file, not a log"):
            await opening
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


async def test_a_damaged_page_is_found_by_the_check_and_by_a_read_that_meets_it(tmp_path: Path, fill: Fill) -> None:
    path = tmp_path / "log.sqlite"
    await fill(path, records=2_000)
    content = bytearray(path.read_bytes())
    for page in range(20, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xa5" * 64
    path.write_bytes(content)
    log = await SqliteLog.open_readonly(path)
    assert await log.damage() != []
    await log.close()
    with pytest.raises(LogUnreadable, match=r"log.sqlite is damaged .*; restore it from a copy"):
        await read_everything(path)


async def test_a_file_that_was_cut_short_is_reported_as_damaged(tmp_path: Path, fill: Fill) -> None:
    path = tmp_path / "log.sqlite"
    await fill(path, records=2_000)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(LogUnreadable, match=r"log.sqlite is damaged .*; restore it from a copy"):
        await read_everything(path)


async def test_records_that_name_missing_headers_are_reported_as_damage(tmp_path: Path, fill: Fill) -> None:
    path = tmp_path / "log.sqlite"
    await fill(path)
    with closing(sqlite3.connect(path)) as tool:
        tool.execute("DELETE FROM headers")
        tool.commit()
    log = await SqliteLog.open(path, partitions=None)
    with pytest.raises(LogUnreadable, match=r"records name headers \[1\], which are not there"):
        await log.read(partition_for("clique.0", 4), 0, limit=1, timeout_s=0)
    await log.close()


async def test_a_read_only_file_can_be_read_and_not_opened_for_appending(ordinary_folder: Path, fill: Fill) -> None:
    path = ordinary_folder / "log.sqlite"
    await fill(path)
    path.chmod(0o400)
    with pytest.raises(LogUnavailable, match=r"cannot be written .*; make the file and its folder writable"):
        await SqliteLog.open(path, partitions=None)
    log = await SqliteLog.open_readonly(path)
    assert len(await log.read(partition_for("clique.0", 4), 0, limit=1, timeout_s=0)) == 1
    await log.close()


async def test_a_read_only_folder_can_be_read_and_not_opened_for_appending(ordinary_folder: Path, fill: Fill) -> None:
    path = ordinary_folder / "log.sqlite"
    await fill(path)
    os.chmod(ordinary_folder, 0o500)  # noqa: PTH101 - pathlib's is taken for blocking
    with pytest.raises(LogError, match=r"log.sqlite cannot be .*folder"):
        await SqliteLog.open(path, partitions=None)
    with pytest.raises(LogUnreadable, match=r"cannot be opened .*; check the rights of the file and its folder"):
        await SqliteLog.open(ordinary_folder / "new.sqlite")
    log = await SqliteLog.open_readonly(path)
    assert len(await log.read(partition_for("clique.0", 4), 0, limit=1, timeout_s=0)) == 1
    await log.close()


async def test_a_file_that_may_not_be_read_is_named(ordinary_folder: Path, fill: Fill) -> None:
    path = ordinary_folder / "log.sqlite"
    await fill(path)
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

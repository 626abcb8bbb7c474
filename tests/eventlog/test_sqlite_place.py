"""Wherever a path leads, the answer is one sentence that names it: no other error, and no wait for ever."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from eventlog.log import LogUnavailable, LogUnreadable
from eventlog.record import Entry
from eventlog.sqlite import SqliteLog

Make = Callable[..., Entry]
Fill = Callable[..., Awaitable[None]]
DEADLINE_S = 60.0
NOBODY = 65534

OPEN_AS_NOBODY = """
import asyncio, os, sys
from pathlib import Path
from eventlog.log import LogUnreadable
from eventlog.sqlite import SqliteLog

if os.geteuid() == 0:
    os.setuid(int(sys.argv[2]))
for open_log in (SqliteLog.open, SqliteLog.open_readonly):
    try:
        asyncio.run(open_log(Path(sys.argv[1])))
    except LogUnreadable as error:
        print(error)
"""


def names(folder: Path) -> list[str]:
    return sorted(child.name for child in folder.iterdir())


async def refused(path: Path) -> set[str]:
    """Give what is said when the log is opened in each of the three ways."""
    said = set()
    for opening in (SqliteLog.open(path), SqliteLog.open(path, create=False), SqliteLog.open_readonly(path)):
        with pytest.raises(LogUnreadable) as raised:
            await opening
        said.add(str(raised.value))
    return said


def test_a_folder_that_may_not_be_entered_is_answered_with_the_path_and_the_mend() -> None:
    # Not in pytest's own folders, which nobody else may enter.
    folder = Path(tempfile.mkdtemp())
    try:
        closed = folder / "closed"
        closed.mkdir()
        folder.chmod(0o755)
        path = closed / "inner" / "log.sqlite"
        path.parent.mkdir()
        closed.chmod(0)
        done = subprocess.run(
            [sys.executable, "-c", OPEN_AS_NOBODY, path, str(NOBODY)],
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )
    finally:
        closed.chmod(0o700)
        shutil.rmtree(folder)
    sentence = f"{path} cannot be reached (Permission denied); check the rights of its folders"
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [sentence, sentence]


@pytest.mark.parametrize("name", ["n" * 256, "n" * 250], ids=["of the file", "of SQLite's file beside it"])
async def test_a_name_that_is_too_long_is_answered_with_the_path_and_the_mend(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert await refused(path) == {f"{path} cannot be reached (File name too long); give a shorter path"}
    assert names(tmp_path) == []


async def test_a_folder_with_a_name_that_is_too_long_is_answered_in_the_same_way(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 256) / "log.sqlite"
    assert await refused(path) == {f"{path} cannot be reached (File name too long); give a shorter path"}


@pytest.mark.parametrize("name", ["one", "one/log.sqlite"])
async def test_links_that_lead_round_in_a_circle_are_answered_with_the_path_and_the_mend(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    (said,) = await refused(tmp_path / name)
    assert said.startswith(f"{tmp_path / name} cannot be reached (")
    assert said.endswith("; give a path whose links do not lead round in a circle")


async def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("shopping list")
    near, far = tmp_path / "file" / "log.sqlite", tmp_path / "file" / "folder" / "log.sqlite"
    assert await refused(near) == {
        f"{near} cannot be opened because {tmp_path}/file is not a folder; give another path"
    }
    assert await refused(far) == {f"{far} cannot be reached (Not a directory); give a path whose folders are folders"}
    assert (tmp_path / "file").read_text() == "shopping list"


async def test_a_path_that_the_system_cannot_take_is_named(tmp_path: Path) -> None:
    (said,) = await refused(tmp_path / "log\0.sqlite")
    assert "log\\x00.sqlite' is no path (" in said


async def test_nothing_but_an_ordinary_file_is_opened(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tmp_path / "link").symlink_to(fifo)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for path in (fifo, tmp_path / "link", tmp_path / "socket", Path("/dev/zero"), Path("/dev/null")):
            assert await refused(path) == {
                f"{path.resolve()} is a FIFO, a socket or a device, not a log; give the path of an ordinary file"
            }


@pytest.mark.parametrize("name", ["a?b#c%d e.sqlite", os.fsdecode(b"caf\xe9.sqlite")])
async def test_a_log_may_have_any_name_that_a_file_may_have(tmp_path: Path, fill: Fill, name: str) -> None:
    await fill(tmp_path / name)
    assert names(tmp_path) == [name]
    await (await SqliteLog.open_readonly(tmp_path / name)).close()


async def test_a_path_that_stops_leading_to_the_log_refuses_appends_until_it_leads_there_again(
    tmp_path: Path, entry: Make
) -> None:
    folder, aside = tmp_path / "folder", tmp_path / "aside"
    folder.mkdir()
    log = await SqliteLog.open(folder / "log.sqlite", partitions=4)
    folder.rename(aside)
    folder.touch()
    with pytest.raises(LogUnavailable, match=r"log\.sqlite was moved, deleted or replaced while open"):
        await log.append([entry()])
    with pytest.raises(LogUnavailable, match=r"log\.sqlite-wal cannot be reached \(Not a directory\)"):
        _ = log.wal_bytes
    folder.unlink()
    folder.symlink_to(folder)
    with pytest.raises(LogUnavailable, match=r"log\.sqlite cannot be reached .*; give a path whose links do not"):
        await log.append([entry()])
    folder.unlink()
    aside.rename(folder)
    assert len(await log.append([entry()])) == 1
    await log.close()

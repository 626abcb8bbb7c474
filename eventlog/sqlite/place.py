"""The path of a log's file: what is there, and whether a log may be there.

Problem: a path can lead anywhere. The system refuses some with errors of many kinds, and SQLite waits for ever on a
FIFO. Invariant: whatever the system reports of the path leaves here as an error of `eventlog.log`, in one sentence, and
only an ordinary file is ever opened.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eventlog.filesystem import refuse_network_filesystem
from eventlog.log import LogError, LogUnavailable, LogUnreadable

_LONGEST_SUFFIX = "-journal"
"""SQLite's own files lie beside a log's, with its name and a suffix; this is the longest one."""

_MENDS = {
    errno.EACCES: "check the rights of its folders",
    errno.EPERM: "check the rights of its folders",
    errno.ENAMETOOLONG: "give a shorter path",
    errno.ELOOP: "give a path whose links do not lead round in a circle",
    errno.ENOTDIR: "give a path whose folders are folders",
}


def resolved(path: Path) -> Path:
    """Give the path without links and from the root; it need not exist. Raises LogUnreadable."""
    with _reported(path, LogUnreadable):
        try:
            return path.resolve()
        except ValueError as error:
            raise LogUnreadable(f"{str(path)!r} is no path ({error}); give another one") from error
        except RuntimeError as error:
            # How Python up to 3.12 reports a circle of links; later ones leave it to the first use of the path.
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from error


def refuse_unfit(path: Path) -> None:
    """Raise LogUnreadable if no log can be at the resolved path: it is not a file's, or not on a local disk."""
    folder = path.parent
    with _reported(path, LogUnreadable):
        around = _status(folder)
        if around is None:
            raise LogUnreadable(f"{path} cannot be opened because there is no folder {folder}; create it")
        if not stat.S_ISDIR(around.st_mode):
            raise LogUnreadable(f"{path} cannot be opened because {folder} is not a folder; give another path")
        there = _status(path)
        if there is not None and stat.S_ISDIR(there.st_mode):
            raise LogUnreadable(f"{path} is a folder, not a log; give the path of a file")
        if there is not None and not stat.S_ISREG(there.st_mode):
            raise LogUnreadable(f"{path} is a FIFO, a socket or a device, not a log; give the path of an ordinary file")
        _status(path.with_name(path.name + _LONGEST_SUFFIX))
        refuse_network_filesystem(path)


def refuse_absent(path: Path) -> None:
    """Raise LogUnreadable if no log can be at the resolved path, or if nothing is there, or an empty file."""
    refuse_unfit(path)
    with _reported(path, LogUnreadable):
        there = _status(path)
    if there is None:
        raise LogUnreadable(f"there is no log at {path}; give the path of an existing one")
    if not there.st_size:
        raise LogUnreadable(f"{path} is an empty file, not a log; give the path of an existing one")


def identity(path: Path) -> tuple[int, int] | None:
    """Give what tells the file at the path from any other; None if there is none. Raises LogUnavailable."""
    with _reported(path, LogUnavailable):
        try:
            there = _status(path)
        except NotADirectoryError:
            return None
    return None if there is None else (there.st_dev, there.st_ino)


def size(path: Path) -> int:
    """Give the size in bytes of the file at the path; 0 if there is none. Raises LogUnavailable."""
    with _reported(path, LogUnavailable):
        there = _status(path)
    return 0 if there is None else there.st_size


def remove(path: Path) -> None:
    """Remove the file at the resolved path. Raises LogUnavailable.

    Not while somebody has it open: then its write-ahead log lies beside it, which the last one to close it removes.
    """
    with _reported(path, LogUnavailable):
        if _status(path.with_name(f"{path.name}-wal")) is None:
            path.unlink(missing_ok=True)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


@contextmanager
def _reported(path: Path, kind: type[LogError]) -> Iterator[None]:
    """Raise what the system reports of the path as an error of this kind."""
    try:
        yield
    except OSError as error:
        mend = _MENDS.get(error.errno or 0, "check the path and its disk")
        raise kind(f"{path} cannot be reached ({error.strerror}); {mend}") from error

"""The files of a capture: whole lines, in order, on disk within a known time, in files of bounded size and age.

Problem: a capture runs for days beside an incident nobody has seen yet, and ends by a signal, a full disk or a power
failure. Invariant: whatever ends it, each file holds whole lines but for a last one that a crash cut off, and the lines
before are those that were told. Reason for names by time: sorted by name, the files are in their order.
"""

import errno
import os
from pathlib import Path

import msgspec

from controller.exits import OUTPUT, Failure
from controller.moments import rfc3339
from controller.recording.capturing import FORM, AnyLine, Header, encode
from kube.clock import Clock

SUFFIX = ".jsonl"


class Rotation(msgspec.Struct, frozen=True):
    """When a file is full: bytes and seconds. `fsync_s`: how long a line may wait for the disk, 0 for not at all."""

    size: int
    age_s: float
    fsync_s: float


class Counted(msgspec.Struct):
    """What was written; `last_ms` is the time of the last line, 0 before the first."""

    files: int = 0
    lines: int = 0
    bytes: int = 0
    last_ms: int = 0


class CaptureFiles:
    """Writes a capture: into one file that ends with `.jsonl`, or into files of a folder."""

    def __init__(self, output: Path, rotation: Rotation, clock: Clock, version: str) -> None:
        """Make the folder, if it is one and missing, and the first file. Raises Failure."""
        self._output = output
        self._rotation = rotation
        self._clock = clock
        self._version = version
        self._is_one = output.suffix == SUFFIX
        self._descriptor = -1
        self._size = 0
        self._lines = 0
        self._opened_s = 0.0
        self._is_dirty = False
        self.counted = Counted()
        try:
            if not self._is_one:
                output.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._open()
        except OSError as error:
            raise _refused(output, error) from error

    @staticmethod
    def refuse(output: Path) -> None:
        """Refuse a place where no capture can be written, as far as that can be told without writing.

        Raises Failure.
        """
        is_one = output.suffix == SUFFIX
        number = 0
        try:
            if output.exists() and (is_one or not output.is_dir()):
                number = errno.EEXIST
            folder = output.parent if is_one else output
            while not is_one and not folder.exists():
                folder = folder.parent
            if not number and not folder.is_dir():
                number = errno.ENOTDIR if folder.exists() else errno.ENOENT
            if not number and not os.access(folder, os.W_OK | os.X_OK):
                number = errno.EACCES
        except OSError as error:  # A name that is too long, a folder that may not be looked into.
            raise _refused(output, error) from error
        if number:
            raise _refused(output, OSError(number, os.strerror(number)))

    def write(self, line: AnyLine) -> None:
        """Append the line. Raises Failure if it cannot be kept; the file then ends with the line before it."""
        content = encode(line)
        try:
            if self._is_full(len(content)):
                self._close()
                self._open()
            self._append(content)
            self._lines += 1
            self.counted.lines += 1
            self.counted.last_ms = self._clock.now_ms()
            if self._rotation.fsync_s == 0:
                self.sync()
        except OSError as error:
            raise self._ended(error) from error

    def sync(self) -> None:
        """Bring what is written to the disk, if there is any. Raises Failure."""
        if self._is_dirty and self._descriptor >= 0:
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                raise self._ended(error) from error
            finally:
                self._is_dirty = False  # What the disk has refused it is not asked for again: that would hide it.

    def close(self) -> None:
        """Bring the rest to the disk and close the file. Raises Failure; closes it in any case, and may be repeated."""
        try:
            self.sync()
        finally:
            self._close()

    def _is_full(self, more: int) -> bool:
        if self._is_one or not self._lines:
            return False
        age_s = self._clock.monotonic() - self._opened_s
        return self._size + more > self._rotation.size or age_s >= self._rotation.age_s

    def _open(self) -> None:
        path = self._output if self._is_one else self._free_name()
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._size = self._lines = 0
        self._opened_s = self._clock.monotonic()
        self.counted.files += 1
        self._append(encode(Header(FORM, self._version)))

    def _free_name(self) -> Path:
        """Give a name that sorts behind those of all files before, also where several are begun in a millisecond."""
        time = rfc3339(self._clock.now_ms()).replace(":", "")
        taken = sum(1 for _ in self._output.glob(f"capture-{time}*{SUFFIX}"))
        return self._output / f"capture-{time}-{taken:03d}{SUFFIX}"

    def _append(self, content: bytes) -> None:
        """Write all of it or, as far as the disk still lets us, nothing of it."""
        rest = memoryview(content)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(content)
        self.counted.bytes += len(content)
        self._is_dirty = True

    def _close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            if self._is_dirty:
                self._is_dirty = False
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
            else:
                os.close(descriptor)

    def _ended(self, error: OSError) -> Failure:
        reason = "the disk is full" if error.errno in {errno.ENOSPC, errno.EDQUOT} else str(error.strerror)
        return Failure(
            f"the capture ends: {reason}; {self.counted.lines} whole lines are kept in {self._output}, "
            "make space and start again",
            OUTPUT,
        )


def _refused(output: Path, error: OSError) -> Failure:
    if isinstance(error, FileExistsError):
        kind = "is there already" if output.suffix == SUFFIX else "is there and is no folder"
        return Failure(f"{output} {kind}; name another file, or a folder", OUTPUT)
    return Failure(f"{output} cannot be written ({error.strerror}); name another place", OUTPUT)

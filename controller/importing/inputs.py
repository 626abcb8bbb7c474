"""Inputs: from paths to numbered lines.

Problem: what people kept is plain or compressed, one file or a folder of rotated ones, whole or cut off. Invariant: no
line is held longer than it is read, none is longer than `LINE_MAX`, and what cannot be read is told with file and line
number instead of raised, so that the rest goes on.
"""

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

LINE_MAX = 16 << 20
"""Bytes of a line: an object has 1.5 MiB at most (etcd), and an audit event may hold it three times, once escaped."""

STDIN = "-"
BROKEN = (OSError, EOFError, zlib.error)
"""What reading a file that is damaged or cut off raises."""
BUFFER = 1 << 20
_GZIP = b"\x1f\x8b"


class InputError(Exception):
    """An input that cannot be read at all; the message is a sentence that names it."""


class Stream(Protocol):
    """Bytes to be read once, from the beginning."""

    def read(self, size: int, /) -> bytes:
        """Give as many bytes, or fewer at the end."""

    def readline(self, size: int, /) -> bytes:
        """Give the next line with its end, or as many bytes of it."""


class Broken(msgspec.Struct, frozen=True):
    """What stands in the place of a line that cannot be read, and why; after one the input may have ended."""

    reason: str


class Found(msgspec.Struct, frozen=True):
    """An input: a path or `-`, and whether it was named itself or lies in a folder that was."""

    path: str
    named: bool


def files(paths: Sequence[str]) -> list[Found]:
    """Give the inputs: folders stand for all files in them and below, by name. Raises InputError."""
    found: list[Found] = []
    for path in paths:
        if path == STDIN or Path(path).is_file():
            found.append(Found(path, named=True))
        elif Path(path).is_dir():
            inside = sorted(str(one) for one in Path(path).rglob("*") if one.is_file() and not one.name.startswith("."))
            if not inside:
                raise InputError(f"the folder {path} holds no files; name one that does")
            found.extend(Found(one, named=False) for one in inside)
        else:
            raise InputError(f"there is no file {path}; check the path")
    return found


def size(found: Sequence[Found]) -> int:
    """Give the bytes of all inputs as they lie on the disk; standard input counts as none."""
    return sum(Path(one.path).stat().st_size for one in found if one.path != STDIN)


def why(error: Exception) -> str:
    """Say in our words what is wrong with a file that broke off with one of `BROKEN`."""
    match error:
        case EOFError():
            return "it is compressed, and its end is missing"
        case gzip.BadGzipFile() | zlib.error():
            return "it is compressed, and damaged here; get it anew from where it came from"
        case OSError():
            return f"{error.strerror or error}; check the file and its disk"
        case _:
            return str(error)


@contextmanager
def opened(path: str, advanced: Callable[[int], None]) -> Iterator[Stream]:
    """Open the input and take off gzip; `advanced` is told bytes read as they lie on the disk. Raises InputError."""
    try:
        raw: BinaryIO = sys.stdin.buffer if path == STDIN else Path(path).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check its rights") from error
    with raw:
        counted = io.BufferedReader(_Counting(raw, advanced), BUFFER)
        is_gzip = counted.peek(2)[:2] == _GZIP
        yield gzip.GzipFile(fileobj=counted) if is_gzip else counted


def lines(stream: Stream) -> Iterator[tuple[int, bytes | Broken]]:
    """Give the lines with their numbers, from 1; empty ones are passed over."""
    number = 0
    while True:
        number += 1
        try:
            line = stream.readline(LINE_MAX + 1)
            if len(line) > LINE_MAX:
                _pass_over(stream)
                yield number, Broken(f"it is longer than {LINE_MAX >> 20} MiB")
                continue
        except BROKEN as error:
            yield number, Broken(f"the rest of the file cannot be read: {why(error)}")
            return
        if not line:
            return
        if not line.isspace():
            yield number, line


def _pass_over(stream: Stream) -> None:
    while (rest := stream.readline(LINE_MAX)) and not rest.endswith(b"\n"):
        pass


def rejoined(head: bytes, rest: Stream | None = None) -> Stream:
    """Give a stream of bytes that were read already, and what follows them."""
    return io.BufferedReader(_Rejoined(head, rest or io.BytesIO()), BUFFER)


class _Rejoined(io.RawIOBase):
    """A stream with the bytes before it that were read already to see what it is."""

    def __init__(self, head: bytes, rest: Stream) -> None:
        self._head = memoryview(head)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._head[: len(buffer)] if self._head else self._rest.read(len(buffer))
        self._head = self._head[len(data) :] if self._head else self._head
        buffer[: len(data)] = data
        return len(data)


class _Counting(io.RawIOBase):
    """Reads another stream and tells how much."""

    def __init__(self, raw: BinaryIO, advanced: Callable[[int], None]) -> None:
        self._raw = raw
        self._advanced = advanced

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._raw.read(len(buffer))
        buffer[: len(data)] = data
        self._advanced(len(data))
        return len(data)

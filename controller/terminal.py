"""What long commands share: where people are told how far they are, and how they end when somebody ends them."""

import asyncio
import errno
import os
import re
import select
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
from rich.console import Console

T = TypeVar("T")
CONTROLS = re.compile(r"[\x7f-\x9f]")
"""What JSON need not escape, and some terminals obey."""


class OutputLost(OSError):
    """Standard output does not take what is printed, and not because nobody reads it."""


class Interrupted(Exception):
    """The user has ended it."""

    def __init__(self, number: int) -> None:
        """Keep the signal's number."""
        super().__init__(number)
        self.number = number


async def unless_interrupted(work: Coroutine[Any, Any, T]) -> T:
    """Do the work. At the first SIGINT, SIGTERM or SIGHUP end it cleanly and raise Interrupted; more change nothing."""
    task = asyncio.ensure_future(work)
    numbers: list[int] = []

    def interrupt(number: int) -> None:
        if not numbers:
            task.cancel()
        numbers.append(number)

    taken = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as `nohup` leaves it
        taken.append(signal.SIGHUP)
    for number in taken:
        asyncio.get_running_loop().add_signal_handler(number, interrupt, number)
    try:
        return await task
    except asyncio.CancelledError:
        if not numbers:
            raise
        raise Interrupted(numbers[0]) from None


class Screen(Console):
    """Where people are told, 80 columns wide but on a terminal. Its prints raise BrokenPipeError and OutputLost."""

    def __init__(self, *, stderr: bool = False) -> None:
        """Tell on standard output, or on standard error."""
        stream = sys.stderr if stderr else sys.stdout
        super().__init__(stderr=stderr, width=None if stream is not None and stream.isatty() else 80)

    def print(self, *objects: Any, **options: Any) -> None:  # noqa: ANN401 - rich's signature
        """Print it."""
        with _judged():
            super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        """Leave it to the command line: rich ends the process here, as if it had failed."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def consoles(*, as_json: bool) -> Console:
    """Give where people are told: standard error if standard output is for a program."""
    return Screen(stderr=as_json)


def is_unread() -> bool:
    """Say whether standard output is a pipe from which nobody reads any more, as behind `| head`."""
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (AttributeError, OSError, ValueError):  # It is closed, or no file of the system.
        return False
    return any(events & select.POLLERR for _, events in poll.poll(0))


def forget_output() -> None:
    """Drop what standard output does not take: the interpreter would try again when it ends, and fail."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def emit(text: str) -> None:
    """Write what a program reads to standard output, as it is; to a terminal without what a terminal would obey.

    Raises BrokenPipeError, OutputLost.
    """
    if sys.stdout is None:
        return
    if sys.stdout.isatty():
        text = "\n".join(safe(line) for line in text.split("\n"))
    with _judged():
        sys.stdout.write(text)


def flush_output() -> None:
    """Write what is still held back of standard output. Raises BrokenPipeError, OutputLost."""
    if sys.stdout is not None:
        with _judged():
            sys.stdout.flush()


@contextmanager
def _judged() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLost(error.errno, error.strerror) from error


def emit_json(value: object) -> None:
    """Write the value as one JSON object for programs, whose signs a terminal may be shown."""
    emit(json_text(value, indent=2) + "\n")


def json_text(value: object, *, indent: int) -> str:
    """Give the value as JSON for programs; with an indent of 0 on one line."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def safe(text: str) -> str:
    """Give the text without what a terminal would obey: the names in a history that was imported may be anything."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)

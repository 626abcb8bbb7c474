"""What long commands share: where people are told how far they are, and how they end when somebody ends them."""

import asyncio
import re
import signal
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec
from rich.console import Console

T = TypeVar("T")
CONTROLS = re.compile(r"[\x7f-\x9f]")
"""What JSON need not escape, and some terminals obey."""


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


def consoles(*, as_json: bool) -> Console:
    """Give where people are told: standard error if standard output is for a program."""
    stream = sys.stderr if as_json else sys.stdout
    return Console(stderr=as_json, width=None if stream is not None and stream.isatty() else 80)


def emit(text: str) -> None:
    """Write what a program reads to standard output, as it is; to a terminal without what a terminal would obey."""
    if sys.stdout is None:
        return
    if sys.stdout.isatty():
        text = "\n".join(safe(line) for line in text.split("\n"))
    sys.stdout.write(text)


def emit_json(value: object) -> None:
    """Write the value as one JSON object for programs, whose signs a terminal may be shown."""
    text = msgspec.json.format(msgspec.json.encode(value)).decode()
    emit(CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def safe(text: str) -> str:
    """Give the text without what a terminal would obey: the names in a history that was imported may be anything."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)

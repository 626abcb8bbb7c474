"""Wait for a state of the world; the deadline only bounds a failure, it asserts nothing about speed."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

DEADLINE_S = 60.0
POLL_S = 0.1


async def eventually(
    look: Callable[[], Awaitable[T]], holds: Callable[[T], bool], what: str, deadline_s: float = DEADLINE_S
) -> T:
    """Look until `holds` and give the state that did.

    Raises:
        AssertionError: it never held; the message shows the last state.
    """
    give_up = time.monotonic() + deadline_s
    while True:
        state = await look()
        if holds(state):
            return state
        if time.monotonic() > give_up:
            message = f"{what}: not within {deadline_s:.0f} s; last seen: {state!r}"
            raise AssertionError(message)
        await asyncio.sleep(POLL_S)

"""Run a test's coroutine on virtual time: what it waits for takes none of ours."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from kube.clock import Clock
from simulation.explore.loop import LoopClock, VirtualLoop

T = TypeVar("T")


def on_virtual_time(main: Callable[[Clock], Awaitable[T]]) -> T:
    """Give what `main(clock)` gives. The loop is an own one, so the test itself is no coroutine."""
    loop = VirtualLoop()

    async def run() -> T:
        return await main(LoopClock(loop, 0))

    try:
        return loop.run_until_complete(run())
    finally:
        loop.close()

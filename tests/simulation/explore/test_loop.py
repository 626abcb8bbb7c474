"""Virtual time: nothing waits, time jumps, and a run that can go nowhere says so."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from simulation.explore.loop import LoopClock, Stuck, VirtualLoop

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def test_a_day_passes_without_waiting() -> None:
    async def sleep() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    began = time.process_time()
    assert run(sleep()) == 86_400
    assert time.process_time() - began < 60, "it is the loop that jumps, not the machine that waits"


def test_tasks_go_on_in_the_order_of_their_times() -> None:
    async def both() -> list[str]:
        told: list[str] = []

        async def tell(after: float, what: str) -> None:
            await asyncio.sleep(after)
            told.append(what)

        await asyncio.gather(tell(3, "late"), tell(1, "early"), tell(2, "between"))
        return told

    assert run(both()) == ["early", "between", "late"]


def test_a_timeout_is_virtual_too() -> None:
    async def give_up() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run(give_up()) == 30


def test_waiting_for_what_nobody_will_do_is_an_error() -> None:
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    loop = VirtualLoop()
    with pytest.raises(Stuck):
        loop.run_until_complete(wait())
    for task in asyncio.all_tasks(loop):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)
    loop.close()


def test_the_clock_follows_the_loop_and_its_time_of_day_may_jump() -> None:
    async def look() -> tuple[float, int, int]:
        clock = LoopClock(asyncio.get_running_loop(), 1_000_000)
        await clock.sleep(2.5)
        before = clock.now_ms()
        clock.skew_ms = -60_000
        return clock.monotonic(), before, clock.now_ms()

    assert run(look()) == (2.5, 1_002_500, 942_500)

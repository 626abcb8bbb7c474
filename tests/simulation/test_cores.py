"""Work in progress shares the cores evenly."""

import asyncio
from collections.abc import Sequence

import pytest

from kube.clock import Clock
from simulation.cores import Cores
from tests.simulation.virtual import on_virtual_time


def ends(cores: int, work: Sequence[tuple[float, float]]) -> list[float]:
    """Give when each piece of work ended, in its place, for (begin, seconds of a core)."""

    async def main(clock: Clock) -> list[float]:
        shared = Cores(cores, clock)

        async def one(begin: float, seconds: float) -> float:
            await clock.sleep(begin)
            await shared.work(seconds)
            return clock.monotonic()

        return list(await asyncio.gather(*(one(*piece) for piece in work)))

    return on_virtual_time(main)


def test_work_that_has_a_core_each_takes_its_own_time() -> None:
    assert ends(2, [(0, 1.0), (0, 3.0)]) == pytest.approx([1.0, 3.0])


def test_more_work_than_cores_gets_equal_shares() -> None:
    assert ends(2, [(0, 1.0)] * 4) == pytest.approx([2.0] * 4)


def test_what_ends_leaves_its_share_to_the_others() -> None:
    assert ends(1, [(0, 1.0), (0, 3.0)]) == pytest.approx([2.0, 4.0])


def test_short_work_that_comes_later_overtakes_long_work() -> None:
    assert ends(1, [(0, 10.0), (1, 1.0)]) == pytest.approx([11.0, 3.0])


def test_no_work_takes_no_time() -> None:
    assert ends(1, [(0, 5.0), (1, 0.0)]) == pytest.approx([5.0, 1.0])


def test_what_is_given_up_leaves_its_share_to_the_others() -> None:
    async def main(clock: Clock) -> float:
        shared = Cores(1, clock)
        given_up = [asyncio.create_task(shared.work(seconds)) for seconds in (1.0, 8.0)]
        kept = asyncio.create_task(shared.work(5.0))
        await clock.sleep(1.5)
        for task in given_up:
            task.cancel()
        await kept
        return clock.monotonic()

    assert on_virtual_time(main) == pytest.approx(6.0)

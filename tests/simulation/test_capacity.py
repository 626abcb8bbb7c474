"""The server's capacity: seats, cores, a bounded queue, and a Retry-After that grows with the refusals."""

import asyncio

import pytest

from simulation.capacity import Capacity, Drops, Limits
from simulation.clock import VirtualClock
from simulation.store import Refused


async def ask(capacity: Capacity, clock: VirtualClock, done: list[float]) -> None:
    async with capacity.seat():
        done.append(clock.monotonic())


async def test_requests_share_the_cores() -> None:
    clock, done = VirtualClock(0), list[float]()
    capacity = Capacity(Limits(seats=10, cores=2, work_s=1.0), clock)
    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(ask(capacity, clock, done))
        await clock.advance(10)
    assert done == pytest.approx([2.5] * 5), "the cores are shared out evenly"


async def test_a_request_takes_the_work_that_is_stated_for_it() -> None:
    clock, done = VirtualClock(0), list[float]()
    capacity = Capacity(Limits(cores=1, work_s=1.0), clock)

    async def ask_for_more() -> None:
        async with capacity.seat(4.0):
            done.append(clock.monotonic())

    async with asyncio.TaskGroup() as group:
        group.create_task(ask_for_more())
        await clock.advance(10)
    assert done == [4.0]


async def test_work_without_a_seat_shares_the_cores_with_requests() -> None:
    clock, done = VirtualClock(0), list[float]()
    capacity = Capacity(Limits(seats=1, queue=0, cores=1, work_s=1.0), clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(capacity.work(9.0))
        group.create_task(ask(capacity, clock, done))
        await clock.advance(10)
    assert done == [2.0]


async def test_what_finds_neither_seat_nor_place_is_throttled() -> None:
    clock, done = VirtualClock(0), list[float]()
    capacity = Capacity(Limits(seats=1, queue=1, cores=1, work_s=1.0), clock)
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(ask(capacity, clock, done))
        await clock.advance(0)
        with pytest.raises(Refused) as refused:
            await ask(capacity, clock, done)
        await clock.advance(10)
    assert (refused.value.code, refused.value.retry_after_s) == (429, 1.0)
    assert done == [1.0, 2.0]


async def test_what_waits_too_long_is_throttled_and_leaves_its_place() -> None:
    clock, done = VirtualClock(0), list[float]()
    capacity = Capacity(Limits(seats=1, queue=1, cores=1, work_s=1.0, patience_s=0.01), clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(ask(capacity, clock, done))
        await clock.advance(0)
        for _ in range(2):
            with pytest.raises(Refused):
                await ask(capacity, clock, done)
        await clock.advance(10)
    await clock.advance(0)
    assert done == [1.0]


async def test_a_failed_request_gives_its_seat_back() -> None:
    capacity = Capacity(Limits(seats=1, queue=0), VirtualClock(0))
    for _ in range(2):
        with pytest.raises(ValueError, match="inside"):
            async with capacity.seat():
                raise ValueError("inside")


def after(drops_per_second: list[int]) -> list[int]:
    drops, told = Drops(), []
    for second, count in enumerate(drops_per_second, 1):
        for _ in range(count):
            drops.record(second)
        told.append(drops.retry_after_s)
    return told


def test_the_retry_after_doubles_while_refusals_go_on_up_to_its_bound() -> None:
    told = after([100] * 100)
    assert told[:8] == [1, 2, 2, 4, 4, 4, 4, 8]
    assert told[-1] == 32


def test_the_retry_after_shrinks_one_by_one_when_they_get_rare() -> None:
    told = after([100] * 8 + [0] * 20 + [1] * 3)
    assert told[7] == 8
    assert told[-3:] == [7, 6, 5]

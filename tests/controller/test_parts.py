"""A part that nobody has ended does not end unseen."""

import asyncio
from typing import NoReturn

import pytest

from controller.parts import PartLost, start


async def for_ever() -> NoReturn:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


async def cancelled_by_a_library() -> None:
    """Wait for a future that is cancelled by whoever made it."""
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.cancel)
    await future


async def test_a_cancellation_that_nobody_asked_for_ends_the_group() -> None:
    async def live() -> None:
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            start(group, for_ever, "another")
            start(group, cancelled_by_a_library, "lost")

    with pytest.raises(ExceptionGroup) as raised:
        await live()
    (lost,) = raised.value.exceptions
    assert isinstance(lost, PartLost)
    assert "'lost'" in str(lost)
    assert isinstance(lost.__cause__, asyncio.CancelledError)


async def test_a_part_that_is_asked_to_end_ends_as_any_task() -> None:
    async with asyncio.TaskGroup() as group:
        part = start(group, for_ever, "part")
        at_once = start(group, for_ever, "never begun")
        at_once.cancel()
        await asyncio.sleep(0)
        part.cancel()
    assert part.cancelled()
    assert at_once.cancelled()


async def test_a_group_that_ends_asks_its_parts_to_end() -> None:
    parts: list[asyncio.Task[NoReturn]] = []

    async def live() -> None:
        async with asyncio.TaskGroup() as group:
            parts.append(start(group, for_ever, "part"))
            await asyncio.sleep(0)
            raise OSError

    with pytest.raises(ExceptionGroup) as raised:
        await live()
    assert [type(one) for one in raised.value.exceptions] == [OSError]
    assert parts[0].cancelled()


async def test_a_time_out_within_a_part_is_no_cancellation_of_it() -> None:
    async def patient() -> str:
        try:
            async with asyncio.timeout(0.001):
                await for_ever()
        except TimeoutError:
            return "went on"

    async with asyncio.TaskGroup() as group:
        part = start(group, patient, "part")
    assert part.result() == "went on"

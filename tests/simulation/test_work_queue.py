"""The work queue of upstream's components: delays, retries, and newer items in place of older ones."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from kube.client import BadRequest, Conflict
from kube.clock import Clock
from simulation.work_queue import NotYet, WorkQueue, exponential, jittered
from tests.simulation.virtual import on_virtual_time

Scenario = Callable[[WorkQueue, Clock], Awaitable[None]]


def work(scenario: Scenario, *, first_s: float = 1.0, until_s: float = 1000.0) -> None:
    """Run a queue whose delays are 1, 2, 4, ... seconds beside the scenario."""

    async def main(clock: Clock) -> None:
        async with asyncio.TaskGroup() as tasks:
            queue = WorkQueue(clock, exponential(first_s, 100.0), tasks)
            running = tasks.create_task(queue.run())
            await scenario(queue, clock)
            await clock.sleep(until_s)
            running.cancel()

    on_virtual_time(main)


def test_an_item_runs_after_its_delay_and_a_failed_one_after_ever_longer_ones() -> None:
    ran: list[float] = []

    async def scenario(queue: WorkQueue, clock: Clock) -> None:
        async def fail_three_times() -> None:
            ran.append(clock.monotonic())
            if len(ran) < 4:
                raise Conflict(409, "Conflict", "")

        queue.add("key", fail_three_times)

    work(scenario)
    assert ran == pytest.approx([1.0, 1.0 + 2, 3.0 + 4, 7.0 + 8])


def test_items_run_one_at_a_time() -> None:
    ran: list[tuple[str, float]] = []

    async def scenario(queue: WorkQueue, clock: Clock) -> None:
        async def slow() -> None:
            await clock.sleep(10)
            ran.append(("slow", clock.monotonic()))

        async def quick() -> None:
            ran.append(("quick", clock.monotonic()))

        queue.add("a", slow)
        queue.add("b", quick)

    work(scenario)
    assert ran == [("slow", 11.0), ("quick", 11.0)]


def test_a_failed_item_does_not_come_back_once_its_key_was_queued_anew() -> None:
    ran: list[str] = []

    async def scenario(queue: WorkQueue, clock: Clock) -> None:
        async def older() -> None:
            ran.append("older")
            queue.add("key", newer)
            raise NotYet("not yet")

        async def newer() -> None:
            ran.append("newer")

        queue.add("key", older)
        await clock.sleep(0)

    work(scenario)
    assert ran == ["older", "newer"]


def test_a_retry_that_is_on_its_way_still_runs_when_a_newer_item_comes() -> None:
    ran: list[tuple[str, float]] = []

    async def scenario(queue: WorkQueue, clock: Clock) -> None:
        async def older() -> None:
            ran.append(("older", clock.monotonic()))
            raise NotYet("not yet")

        async def newer() -> None:
            ran.append(("newer", clock.monotonic()))

        queue.add("key", older)
        await clock.sleep(2.5)
        queue.add("key", newer)

    work(scenario)
    assert ran == [("older", 1.0), ("older", 3.0), ("newer", 3.5)]


def test_items_without_a_key_never_replace_each_other() -> None:
    tries: dict[str, int] = {"a": 0, "b": 0}

    async def scenario(queue: WorkQueue, clock: Clock) -> None:
        def failing_once(name: str) -> Callable[[], Awaitable[None]]:
            async def action() -> None:
                tries[name] += 1
                if tries[name] == 1:
                    raise NotYet("not yet")

            return action

        queue.add("", failing_once("a"))
        queue.add("", failing_once("b"))
        await clock.sleep(0)

    work(scenario)
    assert tries == {"a": 2, "b": 2}


def test_an_error_that_no_retry_mends_ends_the_queue() -> None:
    async def scenario(queue: WorkQueue, clock: Clock) -> None:
        async def wrong() -> None:
            raise BadRequest(422, "Invalid", "wrong")

        queue.add("key", wrong)
        await clock.sleep(0)

    with pytest.raises(ExceptionGroup) as raised:
        work(scenario)
    assert isinstance(raised.value.exceptions[0], BadRequest)


def test_upstreams_delays_double_from_5_ms_to_6_s_and_are_spread_by_a_quarter_to_both_sides() -> None:
    law = jittered(exponential(0.005, 6.0), 0.5, random.Random(1).random)
    for failures, middle in ((0, 0.005), (1, 0.01), (5, 0.16), (11, 6.0), (500, 6.0)):
        drawn = [law(failures) for _ in range(2000)]
        assert 0.75 * middle <= min(drawn) < 0.76 * middle
        assert 1.24 * middle < max(drawn) < 1.25 * middle

"""One way to wait with a bound, on whatever clock the caller was given."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from kube.clock import Clock

T = TypeVar("T")


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Give the result of `work`; after `seconds` of `clock` cancel it and raise TimeoutError."""
    task = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise TimeoutError
        return task.result()
    finally:
        task.cancel()
        timer.cancel()
        await asyncio.gather(task, timer, return_exceptions=True)

"""Parts: tasks that live as long as their task group, and end it if they end.

Problem: a task group takes a task that was cancelled for one that it has asked to end. A library that cancels a future
of its own (aiokafka and Faust do, where they stop something) ends whoever awaits it in the same way. The part is gone
then, nobody is told, and the process looks healthy without it (failure case B9). Invariant: a cancellation that nobody
has asked the part's task for is an error.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class PartLost(Exception):
    """A part was ended by the cancellation of something that it waited for; the cause says where."""


async def lasting(part: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
    """Run the part in the current task. Raises PartLost if it is cancelled and the task is not."""
    task = asyncio.current_task()
    try:
        return await part()
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling() == 0:
            raise PartLost(f"the part {name!r} waited for something that was cancelled") from error
        raise


def start(group: asyncio.TaskGroup, part: Callable[[], Coroutine[Any, Any, T]], name: str) -> asyncio.Task[T]:
    """Run the part in a task of the group; see `lasting`."""
    return group.create_task(lasting(part, name), name=name)

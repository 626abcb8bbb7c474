"""A work queue with delays and one worker, as client-go has them and upstream's components use them.

Problem: how often optimistic writers collide depends on when each tries again, so a simulation of them needs the very
law of their queue. Invariant: items run one at a time, each after its own delay; one that fails comes back after a
delay that grows with its own failures; one whose key was queued anew since it began does not come back, for the newer
one will do its work. Reason for the detail: a retry that is already on its way still runs when a newer item comes, so a
conflict costs up to two further tries, not one.

Source: interop facts 3.4 and 4.3 (pkg/workqueue of the driver, main of August 2026, on client-go 0.36).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NoReturn

from kube.client import Conflict, Expired, NotFound, ServerError, Throttled, Unreachable
from kube.clock import Clock
from kube.retry import Random


class NotYet(Exception):
    """What an item needs is not there yet."""


RETRIED = (Conflict, NotFound, Expired, Throttled, ServerError, Unreachable, NotYet)
"""What makes an item come back. Anything else is a mistake of the simulation and ends it."""

Action = Callable[[], Awaitable[None]]
Delay = Callable[[int], float]
"""Gives the delay in seconds before an item runs that has failed so many times."""


class Item:
    """A thing to do. It is its identity that counts: each queueing of a key is another item."""

    def __init__(self, key: str, action: Action) -> None:
        self.key = key
        self.action = action
        self.failures = 0


class WorkQueue:
    """The queue. Items may come before `run` is called; their delays pass meanwhile."""

    def __init__(self, clock: Clock, delay: Delay, tasks: asyncio.TaskGroup) -> None:
        """Wait for delays in `tasks`."""
        self._clock = clock
        self._delay = delay
        self._tasks = tasks
        self._due: deque[Item] = deque()
        self._more = asyncio.Event()
        self._newest: dict[str, Item] = {}

    def add(self, key: str, action: Action) -> None:
        """Queue an action; an empty key is no key, and is never replaced by another."""
        item = Item(key, action)
        if key:
            self._newest[key] = item
        self._schedule(item)

    async def run(self) -> NoReturn:
        """Work for ever. Raises what an action raises that is not RETRIED."""
        while True:
            while self._due:
                await self._process(self._due.popleft())
            self._more.clear()
            await self._more.wait()

    async def _process(self, item: Item) -> None:
        try:
            await item.action()
        except RETRIED:
            if self._newest.get(item.key, item) is item:
                item.failures += 1
                self._schedule(item)
        else:
            if self._newest.get(item.key) is item:
                del self._newest[item.key]

    def _schedule(self, item: Item) -> None:
        self._tasks.create_task(self._later(item, self._delay(item.failures)))

    async def _later(self, item: Item, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._due.append(item)
        self._more.set()


def exponential(first_s: float, longest_s: float) -> Delay:
    """Give the law of client-go's per-item limiter: twice as long after each failure, up to a limit."""
    # The exponent is bounded so that the power stays a finite number.
    return lambda failures: min(longest_s, first_s * 2.0 ** min(failures, 64))


def jittered(delay: Delay, width: float, random: Random) -> Delay:
    """Spread a delay evenly over an interval around it, `width` times as wide as the delay itself is long."""
    return lambda failures: delay(failures) * (1 + width * (random() - 0.5))

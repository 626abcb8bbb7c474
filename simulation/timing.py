"""How long the parts of a simulated cluster take, and the timers that let that time pass.

Invariant: a delay depends on the seed and on what it is a delay of (the node, its how-manieth pod, the step), never on
the order in which delays are asked for. So one more node, or another interleaving, changes no other node's delays.
"""

import asyncio
import random
from collections.abc import Callable
from typing import NoReturn

import msgspec

from kube.clock import Clock

Range = tuple[float, float]
"""The shortest and the longest time, in seconds; all between are equally likely."""


class Timing(msgspec.Struct, frozen=True):
    """The steps of a daemon pod's life, as ranges of seconds.

    `created`: from the node's label to the pod, the DaemonSet controller's part; also from a label or a pod that went
    to what follows. `bound`: to the pod's node, the scheduler's part. `address`: to its IP and the phase Running.
    `started`: to the daemon's first act. `ready`: from the daemon's row, with its index and its address, to the pod's
    Ready condition. `ended`: from a pod's deletion to its end. `booted`: what a reboot adds to the next pod's address.
    `collected`: from an owner's end to that of what it owned.

    `address` and `started` are those that the peer was measured with. So is the mean of `ready`; it is spread because
    the daemons of one clique, which all see one write, would otherwise become Ready in one moment.
    """

    created: Range = (0.01, 0.2)
    bound: Range = (0.01, 0.1)
    address: Range = (1.0, 3.0)
    started: Range = (0.0, 0.3)
    ready: Range = (0.5, 1.5)
    ended: Range = (0.1, 1.0)
    booted: Range = (2.0, 10.0)
    collected: Range = (0.1, 1.0)


class Delays:
    """Draws the delays of one simulation from its seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def draw(self, within: Range, *what: object) -> float:
        """Give the delay of this step; `what` names it, and must not be used for two."""
        drawn = random.Random(f"{self._seed}/{'/'.join(map(str, what))}")  # noqa: S311 - what makes it repeatable
        return drawn.uniform(*within)


class Timers:
    """Actions that are carried out later, by one task each while `run` runs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked: asyncio.Queue[tuple[float, Callable[[], None]]] = asyncio.Queue()

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Carry out the action so many seconds from now; never at once: a listener may ask for it."""
        self._asked.put_nowait((self._clock.monotonic() + seconds, action))

    async def run(self) -> NoReturn:
        """Carry out what is asked for, until cancelled or until an action raises."""
        async with asyncio.TaskGroup() as group:
            while True:
                due, action = await self._asked.get()
                group.create_task(self._wait(due, action))

    async def _wait(self, due: float, action: Callable[[], None]) -> None:
        await self._clock.sleep(max(0.0, due - self._clock.monotonic()))
        action()

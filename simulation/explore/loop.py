"""An event loop on virtual time, and the clocks that follow it.

Problem: a run that lasts minutes must take milliseconds and come out the same every time. Invariant: nothing here
waits, reads the machine's clock, or starts a thread; when no task can run, time jumps to the next timer. So all of
asyncio's own waits (sleep, timeout, wait) are virtual, and the code under test is the one of production.
"""

import asyncio
import math
import selectors
from typing import Any, NoReturn

LEAST_S = 1e-9
"""Less than any time that a timer is set for."""
ROUNDS_MAX = 100_000
"""Rounds of the loop at one moment; a run takes some 5,000 in all."""


class Stuck(Exception):
    """The run would last for ever: no task can run and no timer is set, or tasks run and no time passes."""


class _NoSelector(selectors.BaseSelector):
    """Instead of waiting for sockets, of which there are none, it lets time pass."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop
        self._rounds = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stuck("nothing is left to wait for")
        self._loop.pass_time(timeout)
        self._rounds = 0 if timeout > 0 else self._rounds + 1
        if self._rounds > ROUNDS_MAX:
            raise Stuck(f"{ROUNDS_MAX} rounds without any time passing: something goes round in a circle")
        return []

    def register(self, *_: object) -> NoReturn:
        raise NotImplementedError("there are no sockets on virtual time")

    def unregister(self, *_: object) -> NoReturn:
        raise NotImplementedError("there are no sockets on virtual time")

    def get_map(self) -> NoReturn:
        raise NotImplementedError("there are no sockets on virtual time")


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop. `time()` is virtual seconds since it was made."""

    def __init__(self) -> None:
        """Start at 0."""
        super().__init__()
        self._now = 0.0
        self.pass_time(0.0)
        self._selector = _NoSelector(self)

    def time(self) -> float:
        """Give virtual seconds."""
        return self._now

    def pass_time(self, seconds: float) -> None:
        """Move on, to the next timer where rounding would miss it.

        No timer is early, as asyncio's own resolution would have it: one that asks again for the rest of its time would
        find that no time is left, and ask for ever.
        """
        self._now += seconds
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]  # what BaseEventLoop keeps
        if timers and 0 < timers[0].when() - self._now < LEAST_S:
            self._now = timers[0].when()
        self._clock_resolution = math.ulp(self._now)

    def _process_events(self, event_list: list[Any]) -> None:
        """Do nothing: there are none."""

    def _write_to_self(self) -> None:
        """Do nothing: no other thread has to wake this loop."""


class LoopClock:
    """A `kube.clock.Clock` on the running loop's time. `skew_ms` moves its time of day, as a clock jump does."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start_ms: int) -> None:
        """Let the loop's second 0 be `start_ms` in Unix time."""
        self._loop = loop
        self._start_ms = start_ms
        self.skew_ms = 0

    def monotonic(self) -> float:
        """Give the loop's seconds."""
        return self._loop.time()

    def now_ms(self) -> int:
        """Give virtual Unix time in milliseconds."""
        return self._start_ms + self.skew_ms + round(self._loop.time() * 1000)

    async def sleep(self, seconds: float) -> None:
        """Wait on the loop."""
        await asyncio.sleep(seconds)

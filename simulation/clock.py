"""Virtual time: a clock that moves only when it is told to, so that a test of minutes takes milliseconds."""

import asyncio
import heapq

SETTLE_ROUNDS = 100
"""How often the event loop goes round before time moves on: more than the longest chain of wake-ups without I/O."""


class VirtualClock:
    """A `kube.clock.Clock` whose sleepers wake when `advance` passes their time, in the order of their times."""

    def __init__(self, start_ms: int) -> None:
        self._start_ms = start_ms
        self._now = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def monotonic(self) -> float:
        """Give virtual seconds since the clock was made."""
        return self._now

    def now_ms(self) -> int:
        """Give virtual Unix time in milliseconds."""
        return self._start_ms + round(self._now * 1000)

    async def sleep(self, seconds: float) -> None:
        """Wait until time has been advanced that far; a wait of 0 or less lets other tasks run once."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        self._count += 1
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, self._count, woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Let virtual time pass, stopping at each sleeper's time to let what it wakes run."""
        end = self._now + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, woken = heapq.heappop(self._sleepers)
            if woken.done():
                continue  # The sleeper was cancelled.
            self._now = max(self._now, due)
            woken.set_result(None)
            await settle()
        self._now = end


async def settle() -> None:
    """Let every task run as far as it can without time passing. Tasks that wait for real I/O are not waited for."""
    for _ in range(SETTLE_ROUNDS):
        await asyncio.sleep(0)

"""Processor time: a few cores that all work in progress shares, as threads share them under a fair scheduler.

Invariant: each piece of work goes on at the same speed, that of a whole core at most; together they never get more than
the cores have. Reason: a queue of whole pieces would let short work (a delivery to a watcher) wait behind long work (a
write) that it shares the processor with in reality, and late deliveries are what makes optimistic writers collide.
"""

import asyncio
import heapq
import itertools

from kube.clock import Clock

ROUNDING_S = 1e-9

Piece = tuple[float, int, asyncio.Event]
"""How far every piece's share must have come for this one to be done; a number; whether it is the next to be done."""


class Cores:
    """Some cores, in the clock's time."""

    def __init__(self, cores: int, clock: Clock) -> None:
        """Start idle."""
        self._cores = cores
        self._clock = clock
        self._share_s = 0.0
        self._at_s = clock.monotonic()
        self._pieces: list[Piece] = []
        self._numbers = itertools.count()

    async def work(self, seconds: float) -> None:
        """Return when the cores have spent so many seconds of one core on this."""
        if seconds <= 0:
            return
        self._advance()
        piece: Piece = (self._share_s + seconds, next(self._numbers), asyncio.Event())
        heapq.heappush(self._pieces, piece)
        try:
            # The next to be done waits for its time, and starts anew if others came meanwhile; all others for that one.
            while (left_s := piece[0] - self._share_s) > ROUNDING_S:
                if self._pieces[0] is piece:
                    await self._clock.sleep(left_s * max(1.0, len(self._pieces) / self._cores))
                else:
                    await piece[2].wait()
                    piece[2].clear()
                self._advance()
        finally:
            self._advance()
            self._remove(piece)

    def _advance(self) -> None:
        """Give every piece its share of the time that has passed."""
        now = self._clock.monotonic()
        if self._pieces:
            self._share_s += (now - self._at_s) * min(1.0, self._cores / len(self._pieces))
        self._at_s = now

    def _remove(self, piece: Piece) -> None:
        if self._pieces[0] is piece:
            heapq.heappop(self._pieces)
        else:
            self._pieces.remove(piece)
            heapq.heapify(self._pieces)
        if self._pieces:
            self._pieces[0][2].set()

"""Time as a port, so that back-off, leases and pacing are tested in virtual time."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks and a sleep."""

    def monotonic(self) -> float:
        """Give seconds since some fixed moment; never goes back."""

    def now_ms(self) -> int:
        """Give Unix time in milliseconds; may jump."""

    async def sleep(self, seconds: float) -> None:
        """Return after that many seconds of `monotonic`."""


class SystemClock:
    """The clocks of this machine."""

    def monotonic(self) -> float:
        """Give seconds since some fixed moment."""
        return time.monotonic()

    def now_ms(self) -> int:
        """Give Unix time in milliseconds."""
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        """Let other tasks run for that many seconds."""
        await asyncio.sleep(seconds)

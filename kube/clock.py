"""The clock port: all that waits or measures takes one, so that a test or a simulation can own the time."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Time, and waiting for it to pass."""

    def monotonic(self) -> float:
        """Give seconds since some fixed moment; never goes back."""

    def now_ms(self) -> int:
        """Give the time of day in milliseconds since 1970-01-01 UTC."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        """Give the monotonic clock's seconds."""
        return time.monotonic()

    def now_ms(self) -> int:
        """Give the wall clock's milliseconds."""
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        """Wait on the running event loop."""
        await asyncio.sleep(seconds)

"""How late the event loop is: what a busy simulation adds to every delay that is measured in it."""

from typing import NoReturn

from kube.clock import Clock

EVERY_S = 0.01


class LoopLag:
    """Wakes up every hundredth of a second and notes by how much it was late."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.late: list[float] = []
        """In seconds."""

    async def run(self) -> NoReturn:
        """Measure until cancelled."""
        while True:
            due = self._clock.monotonic() + EVERY_S
            await self._clock.sleep(EVERY_S)
            self.late.append(self._clock.monotonic() - due)

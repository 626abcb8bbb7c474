"""The stall detector: ends a process whose worker does not move though there is something to fold.

A consumer of a group can get stuck for good, most of all after its broker was away (failure case C1), and nothing in it
says so. So it is looked at from outside: where its partitions are, against where the log ends. What is stuck is not
mended here: the process ends, its partitions go to others, and whoever supervises it starts it anew.

Brokers that are away are no stall: then nobody moves, and nobody would after a restart.
"""

from collections.abc import Callable, Mapping
from typing import NoReturn, Protocol

import msgspec

from eventlog.log import EventLog, LogUnavailable
from kube.clock import Clock


class Stalled(Exception):
    """The worker of a consumer group makes no progress, and the process has to start anew."""


class Patience(msgspec.Struct, frozen=True):
    """Seconds: between two looks, without progress of a partition, and without any assignment.

    The latter is more than a rebalance takes that waits for a member which does not come (30 s), several times over.
    """

    look_s: float = 5.0
    progress_s: float = 60.0
    assignment_s: float = 180.0


class LagMetrics(Protocol):
    """What is counted of being behind."""

    def lag(self, records: int) -> None:
        """Set how many records of the assigned partitions are not folded yet."""


class StallDetector:
    """Compares positions with ends, now and then."""

    def __init__(
        self,
        log: EventLog,
        positions: Callable[[], Mapping[int, int] | None],
        clock: Clock,
        metrics: LagMetrics,
        patience: Patience,
    ) -> None:
        """`positions` gives by assigned partition where it goes on; None while no assignment is known."""
        self._log = log
        self._positions = positions
        self._clock = clock
        self._metrics = metrics
        self._patience = patience
        self._behind: dict[int, tuple[int, float]] = {}
        self._unassigned_since: float | None = None
        self.trouble: str | None = None
        """Why the log's ends cannot be told, in a sentence."""

    async def run(self) -> NoReturn:
        """Look for ever. Raises Stalled."""
        while True:
            await self._clock.sleep(self._patience.look_s)
            try:
                await self._look()
            except LogUnavailable as error:
                self.trouble = str(error)
                self._behind.clear()
                self._unassigned_since = None
            else:
                self.trouble = None

    async def _look(self) -> None:
        positions = self._positions()
        if positions is None:
            await self._log.end_offset(0)  # Brokers that do not answer give no assignments either.
            self._unassigned()
            return
        self._unassigned_since = None
        self._behind = {partition: since for partition, since in self._behind.items() if partition in positions}
        lag = 0
        for partition, position in positions.items():
            lag += await self._lag(partition, position)
        self._metrics.lag(lag)

    def _unassigned(self) -> None:
        now = self._clock.monotonic()
        since = self._unassigned_since = now if self._unassigned_since is None else self._unassigned_since
        if now - since > self._patience.assignment_s:
            raise Stalled(f"no partitions were assigned in {now - since:.0f} s; start the process again")

    async def _lag(self, partition: int, position: int) -> int:
        """Give how far the partition is behind. Raises Stalled if it has been there for too long."""
        now = self._clock.monotonic()
        end = await self._log.end_offset(partition)
        before, since = self._behind.get(partition, (-1, now))
        if position >= end:
            self._behind.pop(partition, None)
            return 0
        if position != before:
            since = now
        elif now - since > self._patience.progress_s:
            # The end may lie past the last record that can be read: markers, and what others have put there.
            if await self._log.read(partition, position, limit=1, timeout_s=0.0):
                told = f"partition {partition} stands at offset {position} since {now - since:.0f} s, and ends at {end}"
                raise Stalled(f"{told}; start the process again")
            since = now
        self._behind[partition] = (position, since)
        return end - position

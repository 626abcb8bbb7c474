"""The appender: what one process says to the log, tried again until it is there.

Observations, marks and decisions of a process go through one of these, so its troubles with the log are told in one
place. An append whose outcome is unknown is done again: the fold takes the second for a duplicate (rule 3).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
from structlog.typing import FilteringBoundLogger

from eventlog import codec
from eventlog.log import AppendOutcomeUnknown, EventLog, LogUnavailable
from eventlog.record import Position
from kube.clock import Clock


def at_any_time() -> None:
    """Raise nothing."""


class AppendMetrics(Protocol):
    """What is counted of appends."""

    def appended(self, event: str, records: int) -> None:
        """Count appended records by their event's tag."""


class Appender:
    """Appends for one process: until it succeeds, since nothing may be lost."""

    def __init__(
        self,
        log: EventLog,
        clock: Clock,
        identity: str,
        metrics: AppendMetrics,
        logger: FilteringBoundLogger,
        retry_s: float,
    ) -> None:
        """`identity` is stated in each record's headers."""
        self._log = log
        self._clock = clock
        self._identity = identity
        self._metrics = metrics
        self._logger = logger
        self._retry_s = retry_s
        self.trouble: str | None = None

    async def append(
        self, events: Sequence[tuple[str, msgspec.Struct]], ensure: Callable[[], None] = at_any_time
    ) -> Sequence[Position]:
        """Append keyed events, and try again while the log is not available; `trouble` says so meanwhile.

        `ensure` is called before each attempt, and raises if there may be none.
        """
        now_ms = self._clock.now_ms()
        entries = [
            codec.entry(key, event, timestamp_ms=now_ms, controller=self._identity)  # type: ignore[arg-type]  # all are events
            for key, event in events
        ]
        while True:
            ensure()
            try:
                positions = await self._log.append(entries)
            except (LogUnavailable, AppendOutcomeUnknown) as error:
                # An append that happened after all is a duplicate now; the fold takes it for one (rule 3).
                if self.trouble is None:
                    self._logger.error("log not writable", cause=str(error))
                self.trouble = str(error)
                await self.pause()
                continue
            if self.trouble is not None:
                self._logger.info("log writable again")
            self.trouble = None
            for event, records in Counter(entry.headers.event_type for entry in entries).items():
                self._metrics.appended(event, records)
            return positions

    async def pause(self) -> None:
        """Wait as long as between two attempts."""
        await self._clock.sleep(self._retry_s)

"""Company: who else works on this log, and in which consumer group.

Two groups on one log are a mistake: each does all the work. It does no harm to the indices (the log arbitrates,
rule 1), but every write is tried twice. Each controller says at its start which group it is of, in a record under its
own key; whoever hears of an identity that it does not know looks there.
"""

import asyncio
from typing import NoReturn, Protocol

from structlog.typing import FilteringBoundLogger

from controller.engines.engine import MakeConsumer
from eventlog.log import EventLog, LogUnavailable
from eventlog.partitioner import partition_for
from kube.clock import Clock
from projections.fold import CONTROLLER_PREFIX
from projections.visibility import ControllerState

RETRY_S = 5.0
KNOWN_MAX = 10_000
"""Identities that are remembered: each start of a process has its own."""


class CompanyMetrics(Protocol):
    """What is counted of others."""

    def other_groups(self, groups: int) -> None:
        """Set how many other groups, or single controllers, were found to work on this log."""


class Company:
    """Warns of living controllers that are not of this group, of each group once."""

    def __init__(
        self,
        log: EventLog,
        make: MakeConsumer,
        group: str,
        clock: Clock,
        metrics: CompanyMetrics,
        logger: FilteringBoundLogger,
    ) -> None:
        """`make` makes consumers that look where a controller has said what it is; they do not act."""
        self._log = log
        self._make = make
        self._group = group
        self._clock = clock
        self._metrics = metrics
        self._logger = logger
        self._known: dict[str, None] = {}
        self._asked: asyncio.Queue[str] = asyncio.Queue()
        self._others: set[str] = set()

    def heard(self, identity: str) -> None:
        """Take note of who appended a record just now."""
        if identity in self._known:
            return
        self._known[identity] = None
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]
        self._asked.put_nowait(identity)

    async def run(self) -> NoReturn:
        """Find out, one after the other, which group they are of. Raises LogError, but for brokers that are away."""
        while True:
            identity = await self._asked.get()
            try:
                said = await self._said(identity)
            except LogUnavailable:
                self._asked.put_nowait(identity)
                await self._clock.sleep(RETRY_S)
                continue
            if said is not None:
                self._judge(identity, said)

    async def _said(self, identity: str) -> ControllerState | None:
        key = CONTROLLER_PREFIX + identity
        consumer = self._make(partition_for(key, self._log.partitions), self._log)
        await consumer.restore()
        state = consumer.aggregates.get(key)
        return state if isinstance(state, ControllerState) else None

    def _judge(self, identity: str, said: ControllerState) -> None:
        group = said.settings.get("group", "")
        other = f"group {group}" if group else f"{identity}, which shares with nobody"
        if group == self._group or other in self._others:
            return
        self._others.add(other)
        self._metrics.other_groups(len(self._others))
        self._logger.warning(
            "another controller works on this log: end one of the two, or give both the same --group",
            other=other,
            identity=identity,
            own=f"group {self._group}",
        )

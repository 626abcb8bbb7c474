"""Why a node is not ready, asked of a controller that runs: its log, and what its next write waits for.

The log is read as `cliquelog why --log` reads it: opened anew, so that the work's own readers keep their places. One
question is answered at a time, and none takes for ever: whoever asks again and again costs no more than one reading.
"""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from controller.history import explaining
from controller.history.why_report import document
from controller.http import Unanswered
from eventlog.log import EventLog, LogError
from kube.clock import Clock
from projections.audit.situation import Pending, Situation
from projections.audit.why import explain
from projections.desired import CDCS
from projections.effects import Target
from projections.settings import Settings

ANSWER_S = 30.0
"""How long an answer may take: a log of some million records."""


class LiveWhy:
    """Answers for one controller."""

    def __init__(
        self,
        open_log: Callable[[], Awaitable[EventLog]],
        pending: Callable[[Target], Pending | None],
        clock: Clock,
        settings: Settings,
    ) -> None:
        """`open_log` gives the log for one reading; `pending` says what the next write of an object waits for."""
        self._open_log = open_log
        self._pending = pending
        self._clock = clock
        self._settings = settings
        self._asked = asyncio.Lock()

    async def answer(self, subject: str) -> bytes:
        """Give the answer as JSON. Raises Unanswered."""
        if self._asked.locked():
            raise Unanswered("another question is being answered; ask again in a moment")
        async with self._asked:
            try:
                async with asyncio.timeout(ANSWER_S):
                    found = await self._read(subject)
            except TimeoutError:
                raise Unanswered("the log is too long for an answer here; ask the log itself, with --log") from None
            except LogError as error:
                raise Unanswered(f"the log cannot be read: {error}") from error
        pending = self._pending(target) if (target := self._target(found)) is not None else None
        now_ms = self._clock.now_ms()
        return msgspec.json.encode(
            document(explain(msgspec.structs.replace(found, decides=True, at_ms=now_ms, pending=pending)))
        )

    async def _read(self, subject: str) -> Situation:
        log = await self._open_log()
        try:
            return await explaining.situation(log, subject, None)
        finally:
            await log.close()

    def _target(self, found: Situation) -> Target | None:
        """Give the object that holds the node's row."""
        if found.clique:
            cdc = found.membership.cdc
            namespace = cdc.namespace if cdc is not None else self._settings.namespace
            return Target(CDCS, namespace, f"{found.domain}.{found.clique}")
        seen = found.seen
        return Target("computedomains", seen.namespace, seen.name) if seen is not None else None

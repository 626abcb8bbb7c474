"""Views: which kinds can be watched, as the reflectors tell it.

A kind that cannot be watched any more (a right withdrawn, a CRD deleted, a server gone) is no reason to end: it is
waited out. But whoever relies on the controller must see it, since what it writes is computed from what it saw before.
"""

import random

from structlog.typing import FilteringBoundLogger

from kube.client import KubeError, Selector, ViewClient
from kube.clock import Clock
from kube.reflector import Reflector, ReflectorSettings, Sink
from kube.retry import Backoff, BackoffPolicy

PATIENCE_S = 60.0
"""How long a kind may fail before it counts as out of view: longer than an API server takes to restart."""


class Views:
    """Takes note of the reflectors' progress and failures (kube.reflector.Observer)."""

    def __init__(self, clock: Clock, rng: random.Random, logger: FilteringBoundLogger) -> None:
        """Know of no failure."""
        self._clock = clock
        self._rng = rng
        self._logger = logger
        self._failures: dict[str, tuple[float, float]] = {}

    def reflector(self, client: ViewClient, selector: Selector, tell: Sink) -> Reflector:
        """Make the reflector of a kind, whose progress and failures are noted here."""
        return Reflector(
            client,
            selector,
            tell,
            clock=self._clock,
            backoff=Backoff(BackoffPolicy(), self._rng.random),
            random=self._rng.random,
            observer=self,
            settings=ReflectorSettings(),
        )

    def advanced(self, selector: Selector, resource_version: int) -> None:
        """Note that the kind is in view; as of which version does not matter here."""
        del resource_version
        self._failures.pop(selector.resource.plural, None)

    def failed(self, selector: Selector, message: str, error: KubeError, wait_s: float) -> None:
        """Log a failure, and note since when the kind fails without a pause.

        Whoever still fails says so again within its back-off; a quiet watch that works again says nothing.
        """
        plural = selector.resource.plural
        now = self._clock.monotonic()
        first, last = self._failures.get(plural, (now, now))
        self._failures[plural] = (first if now - last < PATIENCE_S else now, now)
        self._logger.warning(
            "watch failed", resource=plural, cause=message, error=type(error).__name__, retry_in_s=round(wait_s, 3)
        )

    def trouble(self) -> str | None:
        """Name the kinds that are out of view, in a sentence; None if there is none."""
        now = self._clock.monotonic()
        lost = sorted(
            plural
            for plural, (first, last) in self._failures.items()
            if last - first > PATIENCE_S and now - last < PATIENCE_S
        )
        return f"no view of: {', '.join(lost)}; the log says why" if lost else None

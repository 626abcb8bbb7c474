"""The faults, and when they strike: the one place that draws from the stream of faults.

Each run draws for every kind whether it occurs at all and how often ("swarm testing": runs with a few kinds reach
states that runs with all of them do not). From `heal` on nothing strikes any more: liveness is judged then.
"""

import random
from collections.abc import Mapping

import msgspec

from simulation.explore.trace import Trace

KINDS = (
    "append: acknowledgement lost",
    "append: in part, outcome unknown",
    "append: log unavailable",
    "append: slow",
    "clock jump",
    "compaction",
    "crash after a call",
    "crash before a call",
    "read: lags behind",
    "read: cut short",
    "request: 429 with Retry-After",
    "request: 429",
    "request: 5xx",
    "request: answer lost",
    "request: hangs",
    "request: lost",
    "request: slow",
    "request: takes effect late",
    "snapshot: not saved",
    "snapshot: older one loaded",
    "watch: 410 as an ERROR event",
    "watch: 410 as a bare Status",
    "watch: 410 as a server error",
    "watch: 410 on opening",
    "watch: closed between lines",
    "watch: closed mid-line",
    "watch: line given twice",
    "watch: server lags",
    "watch: silent",
)
"""All kinds; a search in which one of them never struck fails (it would prove nothing of that kind)."""

RATES = (0.002, 0.01, 0.03, 0.1)
"""Probabilities with which a kind strikes at an occasion; a run draws one for each of its kinds."""
SHARE = 0.4
"""Probability that a kind occurs in a run."""
CRASH_RATES = (0.001, 0.005, 0.02)
"""As RATES: an occasion is every call of a controller, and each crash costs a restart."""


class Faults:
    """The faults of one run."""

    def __init__(
        self, rng: random.Random, trace: Trace, without: frozenset[str], rates: Mapping[str, float] | None
    ) -> None:
        """Draw which kinds occur and how often, unless `rates` says so; those `without` never do."""
        self._rng = rng
        self._trace = trace
        self._active = True
        drawn = {kind: self._rate(kind) for kind in KINDS}  # In any case: what is drawn later stays the same.
        rates = drawn if rates is None else rates
        self.rates = {kind: 0.0 if kind in without else rates.get(kind, 0.0) for kind in KINDS}

    def _rate(self, kind: str) -> float:
        occurs, rates = self._rng.random() < SHARE, CRASH_RATES if kind.startswith("crash") else RATES
        rate = self._rng.choice(rates)
        return rate if occurs else 0.0

    def strike(self, who: str, kind: str, what: str) -> bool:
        """Say whether a fault of this kind strikes here and now, and note it."""
        if not self._active or not self.rates[kind] or self._rng.random() >= self.rates[kind]:
            return False
        self._trace.fault(who, kind, what)
        return True

    def among(self, who: str, kinds: tuple[str, ...], what: str) -> str:
        """Give the first of these kinds that strikes here, or nothing."""
        return next((kind for kind in kinds if self.strike(who, kind, what)), "")

    def uniform(self, low: float, high: float) -> float:
        """Draw how long, or how much."""
        return self._rng.uniform(low, high)

    def below(self, limit: int) -> int:
        """Draw a whole number from 0 to below `limit`."""
        return self._rng.randrange(limit)

    def heal(self) -> None:
        """Let nothing strike any more."""
        self._active = False
        self._trace.note("faults", "end")


class Latency(msgspec.Struct, frozen=True):
    """Times in seconds that calls take without any fault, drawn from the stream of the schedule."""

    rng: random.Random

    def request(self) -> float:
        """Give the way to the API server, or back."""
        return self.rng.uniform(0.001, 0.02)

    def log(self) -> float:
        """Give an append or a read."""
        return self.rng.choice((0.0, 0.0005, 0.003))

    def line(self) -> float:
        """Give the way of a watch event."""
        return self.rng.choice((0.0, 0.001, 0.01, 0.05))

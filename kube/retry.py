"""Back-off: how long to wait after a request that failed.

Problem: 144 daemons that were refused at one moment came back at one moment, ten times over, and a cap that was meant
to be 3 s was 3,000 s (failure case A10); a Retry-After that is ignored keeps the server down (B11).
Invariant: waits are spread over the whole interval from zero ("full jitter"), never beyond a low cap of our own; what
the server asks for is the least that is waited, and comes on top. Reason for full jitter: of the usual kinds it leaves
the fewest collisions for the same number of requests.
"""

from collections.abc import Callable

import msgspec

from kube.client import ApiError, KubeError, Throttled

Random = Callable[[], float]
"""Gives numbers in [0, 1), as random.Random().random does."""


class BackoffPolicy(msgspec.Struct, frozen=True):
    """How long to wait, in seconds.

    The nth wait is drawn from [0, min(cap_s, base_s * 2**n)). After `healthy_s` without a failure, n starts at 0 again.
    A server that says "slow down" without saying for how long means `throttled_s`; nobody waits for longer than
    `retry_after_cap_s`, whatever a server says.
    """

    base_s: float = 0.25
    cap_s: float = 15.0
    healthy_s: float = 60.0
    throttled_s: float = 1.0
    retry_after_cap_s: float = 120.0


class Backoff:
    """The state of one caller's back-off. It takes no time itself: it is told the time and gives the wait."""

    def __init__(self, policy: BackoffPolicy, random: Random) -> None:
        """Start healthy."""
        self._policy = policy
        self._random = random
        self._failures = 0
        self._due_s = float("-inf")

    def wait_s(self, error: KubeError, now_s: float) -> float:
        """Give how long to wait after this error, which came at `now_s` on a monotonic clock."""
        policy = self._policy
        if now_s - self._due_s >= policy.healthy_s:
            self._failures = 0
        # The exponent is bounded so that the power stays a finite number.
        ceiling = min(policy.cap_s, policy.base_s * 2.0 ** min(self._failures, 32))
        self._failures += 1
        wait = self._asked_for(error) + self._random() * ceiling
        self._due_s = now_s + wait
        return wait

    def _asked_for(self, error: KubeError) -> float:
        """Give the least wait that the server asked for."""
        if not isinstance(error, ApiError):
            return 0.0
        if error.retry_after_s is None:
            return self._policy.throttled_s if isinstance(error, Throttled) else 0.0
        return min(error.retry_after_s, self._policy.retry_after_cap_s)

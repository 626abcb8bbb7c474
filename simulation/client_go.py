"""What client-go does around a request by itself: its token bucket, and obedience to Retry-After.

Problem: a throttled server is seen by upstream's components through client-go, which waits and asks again before they
know of it; without this a simulated one would hammer. Invariant: no request before its token; after 429 or 5xx with a
Retry-After the same request is sent again no sooner than that, ten times at most; any other refusal is the caller's.

Source: k8s.io/client-go 0.36: rest/with_retry.go, rest/config.go (5 requests a second, bursts of 10, for each group of
the API and each client).
"""

from collections.abc import Awaitable, Callable

import msgspec

from kube.client import ServerError, Throttled
from kube.clock import Clock
from simulation.store import Object

RETRIES = 10


class RateLimit:
    """A token bucket whose callers wait in line: `rate_per_s` tokens a second, at most `burst` at rest."""

    def __init__(self, clock: Clock, rate_per_s: float, burst: int) -> None:
        """Start full."""
        self._clock = clock
        self._rate = rate_per_s
        self._burst = float(burst)
        self._tokens = float(burst)
        self._at = clock.monotonic()

    def reserve(self) -> float:
        """Take a token, and give how many seconds to wait until it is there."""
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate) - 1
        self._at = now
        return max(0.0, -self._tokens / self._rate)


class ClientGo:
    """Sends requests to one group of the API for one client."""

    def __init__(self, clock: Clock, limit: RateLimit) -> None:
        """Spend tokens of this limit."""
        self._clock = clock
        self._limit = limit

    async def send(self, request: Callable[[], Awaitable[bytes]]) -> Object:
        """Give the decoded answer. Raises KubeError, Throttled only after ten retries."""

        async def once_allowed() -> bytes:
            if (wait_s := self._limit.reserve()) > 0:
                await self._clock.sleep(wait_s)
            return await request()

        answer: Object = msgspec.json.decode(await self.send_unlimited(once_allowed))
        return answer

    async def send_unlimited(self, request: Callable[[], Awaitable[bytes]]) -> bytes:
        """Give the answer of a request that needs no token, as watches do not. Raises as `send`."""
        tries = 0
        while True:
            try:
                return await request()
            except (Throttled, ServerError) as error:
                if error.retry_after_s is None or tries == RETRIES:
                    raise
                tries += 1
                await self._clock.sleep(error.retry_after_s)

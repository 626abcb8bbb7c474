"""A token bucket: the ceiling on requests to the API server that holds for all objects together.

It stays below the server's own throttling (rule 7). When the server asks for a pause all the same, the whole bucket
pauses and starts empty afterwards: the server is overloaded, so the end of the pause must not be a burst.
"""


class TokenBucket:
    """Allows `rate_per_s` requests a second, after idling up to `burst` at once. Times are monotonic seconds."""

    def __init__(self, rate_per_s: float, burst: int) -> None:
        if rate_per_s <= 0 or burst < 1:
            raise ValueError(f"the ceiling must allow something: rate {rate_per_s}/s, burst {burst}")
        self._rate = rate_per_s
        self._burst = float(burst)
        self._tokens = float(burst)
        self._at: float | None = None

    def ready_at(self, now: float) -> float:
        """Give the earliest time at which a request may go; `now` or earlier if one may go now."""
        self._refill(now)
        at = now if self._at is None else max(now, self._at)
        # The small allowance keeps rounding from asking for a wake-up that comes a hair too early, again and again.
        return at if self._tokens >= 1 - 1e-9 else at + (1 - self._tokens) / self._rate

    def take(self, now: float) -> None:
        """Account for one request; the caller has seen that `ready_at(now) <= now`."""
        self._refill(now)
        self._tokens -= 1

    def pause(self, until: float) -> None:
        """Allow nothing before `until`, and then start from an empty bucket."""
        if self._at is None or until > self._at:
            self._at = until
            self._tokens = 0.0

    def _refill(self, now: float) -> None:
        if self._at is None:
            self._at = now
        if now > self._at:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
            self._at = now

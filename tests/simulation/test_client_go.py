"""What client-go does by itself: its token bucket, and obedience to Retry-After."""

from collections.abc import Sequence

import pytest

from kube.client import ApiError, Conflict, ServerError, Throttled
from kube.clock import Clock
from simulation.client_go import RETRIES, ClientGo, RateLimit
from tests.simulation.virtual import on_virtual_time


def sent_at(answers: Sequence[ApiError | bytes], *, burst: int = 100) -> list[float]:
    """Give when each request of one call was sent, whose answers are these in order."""
    sent: list[float] = []

    async def main(clock: Clock) -> None:
        client = ClientGo(clock, RateLimit(clock, 5.0, burst))
        left = iter(answers)

        async def request() -> bytes:
            sent.append(clock.monotonic())
            answer = next(left)
            if isinstance(answer, ApiError):
                raise answer
            return answer

        await client.send(request)

    on_virtual_time(main)
    return sent


def throttled(retry_after_s: float | None) -> Throttled:
    return Throttled(429, "TooManyRequests", "", retry_after_s)


def test_a_throttled_request_is_sent_again_no_sooner_than_asked_for() -> None:
    assert sent_at([throttled(3.0), throttled(30.0), b"{}"]) == pytest.approx([0.0, 3.0, 33.0])


def test_so_is_one_that_a_server_error_refuses_with_a_time() -> None:
    assert sent_at([ServerError(503, "", "", 1.0), b"{}"]) == pytest.approx([0.0, 1.0])


def test_after_ten_retries_the_refusal_is_the_callers() -> None:
    with pytest.raises(Throttled):
        sent_at([throttled(1.0)] * (RETRIES + 1))
    assert len(sent_at([*[throttled(1.0)] * RETRIES, b"{}"])) == RETRIES + 1


@pytest.mark.parametrize("refusal", [throttled(None), ServerError(500, "", "", None), Conflict(409, "", "", None)])
def test_a_refusal_that_names_no_time_is_the_callers_at_once(refusal: ApiError) -> None:
    with pytest.raises(type(refusal)):
        sent_at([refusal, b"{}"])


def test_a_retry_needs_a_token_too() -> None:
    assert sent_at([throttled(0.0), throttled(0.0), b"{}"], burst=1) == pytest.approx([0.0, 0.2, 0.4])


def test_requests_go_in_a_burst_and_then_at_the_rate_and_a_rest_fills_the_bucket() -> None:
    async def main(clock: Clock) -> list[float]:
        limit = RateLimit(clock, 5.0, 10)
        waits = [limit.reserve() for _ in range(12)]
        await clock.sleep(60)
        return waits + [limit.reserve() for _ in range(11)]

    assert on_virtual_time(main) == pytest.approx([0.0] * 10 + [0.2, 0.4] + [0.0] * 10 + [0.2])

"""Back-off spreads a crowd, keeps its cap, and waits at least as long as the server asks for."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.client import KubeError, ServerError, Throttled, Unreachable
from kube.retry import Backoff, BackoffPolicy

POLICY = BackoffPolicy()


def throttled(retry_after_s: float | None) -> Throttled:
    return Throttled(429, "TooManyRequests", "", retry_after_s)


@given(seed=st.integers(), failures=st.integers(1, 200))
def test_no_wait_is_beyond_the_cap_however_many_failures(seed: int, failures: int) -> None:
    backoff = Backoff(POLICY, random.Random(seed).random)
    now = 0.0
    for number in range(failures):
        wait = backoff.wait_s(Unreachable("no answer"), now)
        assert 0 <= wait <= min(POLICY.cap_s, POLICY.base_s * 2.0**number)
        now += wait


def test_a_crowd_that_was_refused_at_one_moment_does_not_come_back_at_one_moment() -> None:
    """Failure case A10: 144 daemons retried in lockstep even after ten tries."""
    crowd = [Backoff(POLICY, random.Random(seed).random) for seed in range(144)]
    returns = [0.0] * len(crowd)
    for _ in range(10):
        returns = [now + each.wait_s(throttled(None), now) for now, each in zip(returns, crowd, strict=True)]
    per_second = [sum(int(each) == second for each in returns) for second in range(int(max(returns)) + 1)]
    assert max(per_second) < len(crowd) / 5


@given(asked=st.floats(0, POLICY.retry_after_cap_s), drawn=st.floats(0, 1, exclude_max=True))
def test_what_the_server_asks_for_is_the_least_and_the_jitter_comes_on_top(asked: float, drawn: float) -> None:
    wait = Backoff(POLICY, lambda: drawn).wait_s(throttled(asked), 0.0)
    assert asked <= wait <= asked + POLICY.base_s


@pytest.mark.parametrize(
    ("error", "least"),
    [
        (throttled(None), POLICY.throttled_s),
        (throttled(1e9), POLICY.retry_after_cap_s),
        (ServerError(503, "", "", 5.0), 5.0),
        (ServerError(500, "", ""), 0.0),
        (Unreachable("reset"), 0.0),
    ],
)
def test_a_wait_without_jitter_is_what_the_error_implies(error: KubeError, least: float) -> None:
    assert Backoff(POLICY, lambda: 0.0).wait_s(error, 0.0) == least


def test_after_a_healthy_time_the_back_off_starts_anew() -> None:
    backoff = Backoff(POLICY, lambda: 1.0)
    now = 0.0
    for _ in range(10):
        now += backoff.wait_s(Unreachable("reset"), now)
    assert backoff.wait_s(Unreachable("reset"), now + POLICY.healthy_s - 1) == POLICY.cap_s
    assert backoff.wait_s(Unreachable("reset"), now + 2 * POLICY.healthy_s + POLICY.cap_s) == POLICY.base_s

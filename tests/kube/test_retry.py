"""Back-off spreads a crowd, keeps its cap, and waits at least as long as the server asks for."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.client import Conflict, KubeError, ServerError, Throttled, Unreachable
from kube.retry import Backoff, BackoffPolicy, call_with_retries
from tests.kube.scripted import ScriptedClock

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


class Calls:
    """A request that fails as told, and then succeeds."""

    def __init__(self, *errors: KubeError) -> None:
        self.errors = list(errors)
        self.made = 0

    async def __call__(self) -> str:
        self.made += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


async def test_ten_refusals_and_a_success_are_one_success_without_a_burst() -> None:
    """Failure case B11."""
    calls, clock = Calls(*[throttled(2.0)] * 10), ScriptedClock()
    backoff = Backoff(POLICY, random.Random(1).random)
    assert await call_with_retries(calls, attempts=11, backoff=backoff, clock=clock) == "done"
    assert calls.made == 11
    assert len(clock.slept) == 10
    assert min(clock.slept) >= 2.0


async def test_the_last_error_is_raised_when_the_attempts_are_used_up() -> None:
    last = Unreachable("third")
    calls, clock = Calls(Unreachable("first"), ServerError(500, "", "second"), last), ScriptedClock()
    with pytest.raises(Unreachable) as caught:
        await call_with_retries(calls, attempts=3, backoff=Backoff(POLICY, lambda: 0.5), clock=clock)
    assert caught.value is last
    assert (calls.made, len(clock.slept)) == (3, 2)


async def test_what_cannot_succeed_unchanged_is_not_sent_again() -> None:
    calls, clock = Calls(Conflict(409, "Conflict", "changed")), ScriptedClock()
    with pytest.raises(Conflict):
        await call_with_retries(calls, attempts=5, backoff=Backoff(POLICY, lambda: 0.5), clock=clock)
    assert (calls.made, clock.slept) == (1, [])


async def test_no_attempt_at_all_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        await call_with_retries(Calls(), attempts=0, backoff=Backoff(POLICY, lambda: 0.5), clock=ScriptedClock())

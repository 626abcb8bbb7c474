"""A kind that cannot be watched for a while shows in the controller's readiness, and no longer than that."""

import random

import structlog

from controller.observing.views import Views
from kube.client import Forbidden, Selector
from kube.names import NODES, PODS
from simulation.clock import VirtualClock

ERROR = Forbidden(403, "Forbidden", "no")


async def pass_time(clock: VirtualClock, views: Views, selector: Selector, seconds: float, every: float) -> None:
    """Let the kind fail again and again for so long."""
    for _ in range(int(seconds / every)):
        await clock.advance(every)
        views.failed(selector, "not allowed", ERROR, every)


async def test_a_kind_that_fails_for_more_than_a_minute_is_out_of_view_until_it_is_seen_again() -> None:
    clock = VirtualClock(0)
    views = Views(clock, random.Random(1), structlog.get_logger())
    views.failed(Selector(PODS), "not allowed", ERROR, 10.0)
    await pass_time(clock, views, Selector(PODS), 50, 10)
    assert views.trouble() is None
    await pass_time(clock, views, Selector(PODS), 20, 10)
    assert views.trouble() == "no view of: pods; the log says why"
    views.advanced(Selector(NODES), 1)
    assert views.trouble() is not None
    views.advanced(Selector(PODS), 1)
    assert views.trouble() is None


async def test_failures_that_ended_without_news_do_not_count_for_ever() -> None:
    clock = VirtualClock(0)
    views = Views(clock, random.Random(1), structlog.get_logger())
    await pass_time(clock, views, Selector(PODS), 100, 10)
    assert views.trouble() is not None
    await clock.advance(61.0)
    assert views.trouble() is None
    views.failed(Selector(PODS), "not allowed", ERROR, 10.0)
    assert views.trouble() is None

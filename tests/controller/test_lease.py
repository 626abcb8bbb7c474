"""Leadership of two contenders over one Lease, in virtual time; each has a wall clock of its own."""

import asyncio
import json
import random
from typing import Any

import pytest
import structlog

from controller.lease import Elector, LeadershipLost, LeaseConfig
from kube import client as kube
from simulation.clock import VirtualClock
from tests.controller.memory_client import Key, MemoryClient

KEY: Key = ("leases", "driver", "cliquelog")


class SkewedClock:
    """A clock of another machine: it ticks alike, its time of day is off."""

    def __init__(self, clock: VirtualClock, skew_ms: int) -> None:
        self._clock = clock
        self._skew_ms = skew_ms
        self.monotonic = clock.monotonic
        self.sleep = clock.sleep

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._skew_ms


class Cut:
    """A network between a contender and the API server that can be cut: requests hang, or are refused."""

    def __init__(self, client: MemoryClient) -> None:
        self._client = client
        self.mode = "up"
        self.throttled = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._client, name)

    async def get(self, resource: kube.Resource, namespace: str, name: str) -> bytes:
        if self.mode == "hangs":
            await asyncio.get_running_loop().create_future()
        if self.mode == "throttles":
            self.throttled += 1
            raise kube.Throttled(429, "TooManyRequests", "slow down", 7.0)
        if self.mode == "refuses":
            raise kube.Unreachable("connection refused")
        return await self._client.get(resource, namespace, name)

    async def create(self, resource: kube.Resource, namespace: str, body: bytes) -> bytes:
        answer = await self._client.create(resource, namespace, body)
        if self.mode == "answers nothing":
            await asyncio.get_running_loop().create_future()
        return answer


class Contender:
    """An elector that runs as the program runs it: acquire, then keep until it is lost."""

    def __init__(self, clock: VirtualClock, client: MemoryClient, identity: str, skew_ms: int = 0) -> None:
        self.clock = clock
        self.network = Cut(client)
        self.leads = False
        self.since: float | None = None
        self.until: float | None = None
        self.elector = Elector(
            self.network,  # type: ignore[arg-type]
            SkewedClock(clock, skew_ms),
            random.Random(identity),
            structlog.wrap_logger(structlog.testing.CapturingLogger()),
            LeaseConfig("driver", "cliquelog", identity),
        )
        self.task = asyncio.ensure_future(self.run())

    async def run(self) -> None:
        await self.elector.acquire()
        self.leads, self.since = True, self.clock.monotonic()
        try:
            await self.elector.keep()
        finally:
            self.leads, self.until = False, self.clock.monotonic()

    async def stop(self, *, release: bool) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        if release:
            released = asyncio.ensure_future(self.elector.release())
            await self.clock.advance(0.1)
            assert released.done()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(1_700_000_000_000)


@pytest.fixture
def client(clock: VirtualClock) -> MemoryClient:
    # Two contenders may ask at once, so there is no latency in which their requests could meet.
    return MemoryClient(clock, latency_s=0.0)


def spec(client: MemoryClient) -> dict[str, Any]:
    result: dict[str, Any] = client.objects[KEY]["spec"]
    return result


async def test_the_first_contender_makes_the_lease_and_keeps_it(clock: VirtualClock, client: MemoryClient) -> None:
    one = Contender(clock, client, "one")
    await clock.advance(1.0)
    first = spec(client)
    assert (first["holderIdentity"], first["leaseDurationSeconds"], first["leaseTransitions"]) == ("one", 15, 0)
    await clock.advance(3600.0)
    assert one.leads
    assert spec(client)["renewTime"] > first["renewTime"]
    assert spec(client)["acquireTime"] == first["acquireTime"]
    await one.stop(release=False)


@pytest.mark.parametrize("skew_ms", [0, 86_400_000, -86_400_000])
async def test_a_second_contender_waits_while_the_first_renews_whatever_its_time_of_day(
    clock: VirtualClock, client: MemoryClient, skew_ms: int
) -> None:
    one = Contender(clock, client, "one")
    await clock.advance(1.0)
    two = Contender(clock, client, "two", skew_ms)
    await clock.advance(600.0)
    assert (one.leads, two.leads) == (True, False)
    await one.stop(release=False)
    await two.stop(release=False)


async def test_a_crashed_holder_is_followed_once_its_lease_has_not_changed_for_its_duration(
    clock: VirtualClock, client: MemoryClient
) -> None:
    one = Contender(clock, client, "one")
    await clock.advance(1.0)
    two = Contender(clock, client, "two", skew_ms=86_400_000)
    await clock.advance(60.0)
    await one.stop(release=False)
    crashed = clock.monotonic()
    await clock.advance(12.0)
    assert not two.leads
    await clock.advance(15.0)
    assert two.leads
    assert two.since is not None
    assert two.since - crashed >= 15.0 - 2.0
    assert (spec(client)["holderIdentity"], spec(client)["leaseTransitions"]) == ("two", 1)
    await two.stop(release=False)


async def test_a_clean_stop_lets_the_next_one_in_at_once(clock: VirtualClock, client: MemoryClient) -> None:
    one = Contender(clock, client, "one")
    await clock.advance(1.0)
    two = Contender(clock, client, "two")
    await clock.advance(10.0)
    await one.stop(release=True)
    await clock.advance(5.0)
    assert two.leads
    await two.stop(release=False)


async def test_a_stop_before_the_lease_is_known_to_be_ours_releases_it_too(
    clock: VirtualClock, client: MemoryClient
) -> None:
    one = Contender(clock, client, "one")
    one.network.mode = "answers nothing"
    await clock.advance(1.0)
    assert (spec(client)["holderIdentity"], one.elector.waits_for) == ("one", "cliquelog")
    await one.stop(release=True)
    assert spec(client)["holderIdentity"] == ""


async def test_a_release_that_hangs_ends_with_the_renew_deadline(clock: VirtualClock, client: MemoryClient) -> None:
    one = Contender(clock, client, "one")
    await clock.advance(1.0)
    await one.stop(release=False)
    one.network.mode = "hangs"
    released = asyncio.ensure_future(one.elector.release())
    await clock.advance(9.0)
    assert not released.done()
    await clock.advance(1.5)
    assert released.done()
    assert released.exception() is None


@pytest.mark.parametrize("mode", ["hangs", "refuses"])
async def test_a_holder_that_is_cut_off_stops_before_another_one_starts(
    clock: VirtualClock, client: MemoryClient, mode: str
) -> None:
    one = Contender(clock, client, "one")
    await clock.advance(1.0)
    two = Contender(clock, client, "two")
    await clock.advance(31.0)
    one.network.mode = mode
    await clock.advance(60.0)
    with pytest.raises(LeadershipLost, match="cliquelog"):
        await one.task
    assert one.until is not None
    assert two.since is not None
    assert one.until < two.since
    assert two.leads
    await two.stop(release=False)


async def test_a_short_outage_does_not_cost_the_lease(clock: VirtualClock, client: MemoryClient) -> None:
    one = Contender(clock, client, "one")
    await clock.advance(30.0)
    one.network.mode = "refuses"
    await clock.advance(5.0)
    one.network.mode = "up"
    await clock.advance(60.0)
    assert one.leads
    await one.stop(release=False)


async def test_a_holder_that_finds_another_name_in_the_lease_stops(clock: VirtualClock, client: MemoryClient) -> None:
    one = Contender(clock, client, "one")
    await clock.advance(5.0)
    client.put(KEY, {**client.objects[KEY], "spec": {**spec(client), "holderIdentity": "thief"}})
    await clock.advance(3.0)
    with pytest.raises(LeadershipLost, match="another holder"):
        await one.task
    assert spec(client)["holderIdentity"] == "thief"


async def test_a_holder_whose_lease_has_run_out_may_not_observe(clock: VirtualClock, client: MemoryClient) -> None:
    one = Contender(clock, client, "one")
    await clock.advance(5.0)
    one.elector.ensure()
    one.network.mode = "hangs"
    await clock.advance(15.0)
    with pytest.raises(LeadershipLost, match="has run out"):
        one.elector.ensure()
    with pytest.raises(LeadershipLost):
        await one.task


async def test_a_holder_that_finds_the_lease_taken_and_released_meanwhile_stops(
    clock: VirtualClock, client: MemoryClient
) -> None:
    """As on a machine that was suspended, whose monotonic clock stood still with it."""
    one = Contender(clock, client, "one")
    await clock.advance(5.0)
    client.put(KEY, {**client.objects[KEY], "spec": {**spec(client), "holderIdentity": "", "leaseTransitions": 2}})
    await clock.advance(3.0)
    assert one.task.done()
    with pytest.raises(LeadershipLost, match="another holder"):
        await one.task
    assert spec(client)["leaseTransitions"] == 2


async def test_a_release_does_not_take_the_lease_from_another_holder(clock: VirtualClock, client: MemoryClient) -> None:
    one = Contender(clock, client, "one")
    await clock.advance(5.0)
    client.put(KEY, {**client.objects[KEY], "spec": {**spec(client), "holderIdentity": "other"}})
    await one.stop(release=True)
    assert spec(client)["holderIdentity"] == "other"


async def test_what_others_wrote_on_the_lease_stays(clock: VirtualClock, client: MemoryClient) -> None:
    client.put(KEY, {"metadata": {"name": "cliquelog", "labels": {"team": "a"}}, "spec": {"strategy": "kept"}})
    one = Contender(clock, client, "one")
    await clock.advance(30.0)
    assert one.leads
    assert client.objects[KEY]["metadata"]["labels"] == {"team": "a"}
    assert spec(client)["strategy"] == "kept"
    await one.stop(release=False)


@pytest.mark.parametrize(
    "error",
    [
        kube.Forbidden(403, "Forbidden", "cannot create leases"),
        kube.NotFound(404, "NotFound", "namespace not found"),
        kube.ResourceMissing(404, "NotFound", "no such kind"),
    ],
)
async def test_an_error_that_waiting_does_not_mend_is_raised(
    clock: VirtualClock, client: MemoryClient, error: kube.ApiError
) -> None:
    client.fail("create", error)
    one = Contender(clock, client, "one")
    await clock.advance(1.0)
    with pytest.raises(type(error)):
        await one.task


async def test_an_unreadable_lease_is_tried_again(clock: VirtualClock, client: MemoryClient) -> None:
    client.put(KEY, {"metadata": {"name": "cliquelog"}, "spec": {"leaseDurationSeconds": "many"}})
    one = Contender(clock, client, "one")
    await clock.advance(30.0)
    assert not one.leads
    client.put(KEY, json.loads('{"metadata": {"name": "cliquelog"}, "spec": null}'))
    await clock.advance(5.0)
    assert one.leads
    await one.stop(release=False)


def test_times_that_would_let_two_lead_are_refused(clock: VirtualClock, client: MemoryClient) -> None:
    with pytest.raises(ValueError, match="must rise"):
        Elector(
            client,
            clock,
            random.Random(0),
            structlog.wrap_logger(structlog.testing.CapturingLogger()),
            LeaseConfig("driver", "cliquelog", "one", duration_s=10, renew_deadline_s=10.0),
        )


@pytest.mark.parametrize("leads", [True, False])
async def test_a_server_that_asks_for_a_pause_gets_it(
    clock: VirtualClock, client: MemoryClient, *, leads: bool
) -> None:
    one = Contender(clock, client, "one")
    if leads:
        await clock.advance(1.0)
    one.network.mode = "throttles"
    await clock.advance(6.5)
    assert one.network.throttled == 1, "it asked for 7 s, more than the 2 s between two requests"
    await one.stop(release=False)


async def test_a_waiting_contender_knows_the_leader_once_it_has_seen_it_renew(
    clock: VirtualClock, client: MemoryClient
) -> None:
    one = Contender(clock, client, "one")
    await clock.advance(1.0)
    two = Contender(clock, client, "two")
    await clock.advance(0.5)
    assert two.elector.leader() == "", "what it saw first may be an hour old"
    await clock.advance(10.0)
    assert (one.elector.leader(), two.elector.leader()) == ("one", "one")
    await one.stop(release=False)
    await clock.advance(10.0)
    assert two.elector.leader() == "one"
    await clock.advance(60.0)
    assert two.elector.leader() == "two"
    await two.stop(release=False)


async def test_a_contender_that_stood_still_or_lost_the_network_knows_no_leader(
    clock: VirtualClock, client: MemoryClient
) -> None:
    one = Contender(clock, client, "one")
    await clock.advance(0.1)
    two = Contender(clock, client, "two")
    await clock.advance(10.0)
    assert (one.elector.leader(), two.elector.leader()) == ("one", "one")
    two.network.mode = "hangs"
    await clock.advance(16.0)
    assert two.elector.leader() == ""
    one.network.mode = "hangs"
    await clock.advance(10.1)
    assert one.elector.leader() == "", "it could not renew, so another may lead by now"
    await one.stop(release=False)
    await two.stop(release=False)


async def test_of_a_lease_whose_holder_died_long_ago_nobody_leads(clock: VirtualClock, client: MemoryClient) -> None:
    one = Contender(clock, client, "one")
    await clock.advance(10.0)
    await one.stop(release=False)
    await clock.advance(3600.0)
    two = Contender(clock, client, "two")
    await clock.advance(14.0)
    assert two.elector.leader() == ""
    await clock.advance(10.0)
    assert two.elector.leader() == "two"
    await two.stop(release=False)

"""Ingest: what is told is in the log, in its order, before anybody is told that it is."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence

import msgspec
import pytest
import structlog
from structlog.testing import capture_logs

from controller.appender import Appender
from controller.lease import LeadershipLost
from controller.observing.ingest import GATHER_S, Ingest
from controller.observing.normaliser import Normaliser
from eventlog import codec
from eventlog.events import AnyEvent, CdcSeen, ClaimTemplateGone, ClaimTemplateSeen, DomainSeen
from eventlog.log import LogUnavailable
from eventlog.memory import MemoryLog
from eventlog.record import Entry, Position
from kube import names, objects, reflector
from kube.client import Selector
from kube.clock import SystemClock
from projections.effects import Target
from tests.controller import cluster as make
from tests.controller.test_consumer import Counts, eventually

CDC = Target("computedomaincliques", "driver", "d0.c.0")
TEMPLATE = Target("resourceclaimtemplates", "team", "taken")


class GatedLog(MemoryLog):
    """A log that can be written only while its gate is open."""

    def __init__(self) -> None:
        super().__init__(partitions=1)
        self.is_open = True
        self.appended: list[Sequence[Entry]] = []

    async def append(self, entries: Sequence[Entry]) -> Sequence[Position]:
        if not self.is_open:
            raise LogUnavailable("the disk is full")
        self.appended.append(entries)
        return await super().append(entries)

    async def events(self) -> list[AnyEvent]:
        return [codec.decode(record) for record in await self.read(0, 0, limit=10_000, timeout_s=0)]


@pytest.fixture
def log() -> GatedLog:
    return GatedLog()


@pytest.fixture
async def ingest(log: GatedLog) -> AsyncIterator[Ingest]:
    logger = structlog.get_logger()
    appender = Appender(log, SystemClock(), "a", Counts(), logger, retry_s=0.001)
    ingest = Ingest(Normaliser(), appender, SystemClock(), logger)
    task = asyncio.create_task(ingest.run())
    yield ingest
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def template(uid: str, version: int, domain: str = "") -> bytes:
    labels = {names.DOMAIN_LABEL: domain, names.TARGET_LABEL: "Workload"} if domain else {}
    meta = {"name": "taken", "namespace": "team", "uid": uid, "resourceVersion": str(version), "labels": labels}
    return json.dumps({"metadata": meta}).encode()


async def a_domain_that_wants_the_template(ingest: Ingest, uid: str) -> None:
    spec = objects.ComputeDomainSpec(objects.Channel(objects.ClaimTemplateName("taken")))
    found = objects.ComputeDomain(make.meta(uid, uid, 10, {}, "team"), spec)
    await ingest.sink(reflector.ObjectSeen(Selector(names.COMPUTE_DOMAINS), found, listed=True))


async def test_a_live_read_returns_only_when_it_is_in_the_log(ingest: Ingest, log: GatedLog) -> None:
    log.is_open = False
    raw = msgspec.json.encode(make.cdc("cdc-1", 101, "d0", "c.0", []))
    read = asyncio.create_task(ingest.observe("", CDC, raw))
    for _ in range(10):
        await asyncio.sleep(0.002)
    assert not read.done()
    log.is_open = True
    await read
    assert [type(event) for event in await log.events()] == [CdcSeen, CdcSeen]


async def test_a_kind_is_complete_only_when_its_list_is_in_the_log(ingest: Ingest, log: GatedLog) -> None:
    log.is_open = False
    await ingest.sink(reflector.RelistBegan(Selector(names.PODS), "start"))
    await ingest.sink(reflector.RelistCompleted(Selector(names.PODS), 100, 0))
    for _ in range(10):
        await asyncio.sleep(0.002)
    assert ingest.lists_complete(["pods"]) == ["pods"]
    log.is_open = True
    await eventually(lambda: ingest.lists_complete(["pods"]) == [])
    assert ingest.ends == {0: 2}


async def test_an_object_that_is_not_understood_is_told_and_ends_nothing(ingest: Ingest, log: GatedLog) -> None:
    raw = json.dumps({"metadata": {"name": "d0.c.0", "uid": "u", "resourceVersion": "7"}, "daemons": "none"}).encode()
    with capture_logs() as lines:
        await ingest.observe("", CDC, raw)
    assert [(line["event"], line["name"]) for line in lines] == [("object not understood", "driver/d0.c.0")]
    await a_domain_that_wants_the_template(ingest, "d0")
    await ingest.observe("", CDC, None)
    assert [type(event) for event in await log.events()] == [DomainSeen]


async def test_an_absence_is_no_deletion_of_what_a_watch_tells_of(ingest: Ingest, log: GatedLog) -> None:
    raw = msgspec.json.encode(make.cdc("cdc-1", 101, "d0", "c.0", []))
    await ingest.observe("", CDC, raw)
    before = await log.events()
    await ingest.observe("", CDC, None)
    assert await log.events() == before


async def test_a_template_that_stands_in_the_way_is_told_to_all_who_want_its_name(
    ingest: Ingest, log: GatedLog
) -> None:
    for uid in ("d0", "d1", "d2"):
        await a_domain_that_wants_the_template(ingest, uid)
    await ingest.observe("", TEMPLATE, template("t-1", 101, "d1"))
    seen = {event.domain: event.owned for event in await log.events() if isinstance(event, ClaimTemplateSeen)}
    assert seen == {"d0": False, "d1": True, "d2": False}


async def test_a_template_in_the_way_that_made_room_for_another_is_gone(ingest: Ingest, log: GatedLog) -> None:
    await a_domain_that_wants_the_template(ingest, "d0")
    await ingest.observe("", TEMPLATE, template("t-1", 101))
    await ingest.observe("", TEMPLATE, template("t-2", 105))
    await ingest.observe("", TEMPLATE, None)
    told = [(type(event), event.uid) for event in await log.events() if not isinstance(event, DomainSeen)]
    assert told == [
        (ClaimTemplateSeen, "t-1"),
        (ClaimTemplateGone, "t-1"),
        (ClaimTemplateSeen, "t-2"),
        (ClaimTemplateGone, "t-2"),
    ]


class StoppedClock(SystemClock):
    """A clock that stands still; who sleeps is woken by `go_on`."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return 100.0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await self.go_on.wait()


async def test_what_comes_soon_after_an_append_waits_for_company_and_the_first_does_not(log: GatedLog) -> None:
    logger, clock = structlog.get_logger(), StoppedClock()
    ingest = Ingest(Normaliser(), Appender(log, clock, "a", Counts(), logger, retry_s=0.001), clock, logger)
    task = asyncio.create_task(ingest.run())
    await a_domain_that_wants_the_template(ingest, "d0")
    await eventually(lambda: ingest.ends == {0: 1})
    assert clock.slept == []
    await a_domain_that_wants_the_template(ingest, "d1")
    await eventually(lambda: clock.slept == [pytest.approx(GATHER_S)])
    await a_domain_that_wants_the_template(ingest, "d2")
    clock.go_on.set()
    await eventually(lambda: ingest.ends == {0: 3})
    assert [len(appended) for appended in log.appended] == [1, 2]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_a_process_that_may_not_observe_any_more_has_still_seen_is_not_appended(log: GatedLog) -> None:
    def ensure() -> None:
        if not leads:
            raise LeadershipLost("the Lease has run out")

    leads = True
    log.is_open = False
    logger, clock = structlog.get_logger(), SystemClock()
    appender = Appender(log, clock, "a", Counts(), logger, retry_s=0.001)
    ingest = Ingest(Normaliser(), appender, clock, logger, ensure)
    task = asyncio.create_task(ingest.run())
    await ingest.sink(reflector.RelistBegan(Selector(names.NODES), "start"))
    await eventually(lambda: appender.trouble is not None)
    # It stood still while the log could not be written, and goes on.
    leads = False
    log.is_open = True
    with pytest.raises(LeadershipLost):
        await asyncio.wait_for(task, 5)
    assert log.appended == []

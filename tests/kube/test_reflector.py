"""The reflector loses no change unsaid: each way in which a watch loses changes ends in a resumption or a Gap."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from kube.client import BadRequest, Expired, Forbidden, ResourceMissing, ServerError, Throttled, TooLarge, Undecodable
from kube.objects import ComputeDomainClique
from kube.reflector import Gap, ObjectSeen, ReflectorEvent, RelistBegan
from kube.transport import LINE_LIMIT
from tests.kube.scripted import (
    Reply,
    Run,
    bookmark,
    dropped,
    error_event,
    item,
    line,
    page,
    reflector,
    refused,
    scripted,
    status,
    whole,
)


@pytest.fixture
async def run() -> AsyncIterator[Run]:
    async with scripted() as run:
        yield run


def watched_from(run: Run) -> list[str]:
    return [query["resourceVersion"] for query in run.server.asked("watch")]


def causes(run: Run) -> list[str]:
    return [event.cause for event in run.events if isinstance(event, Gap)]


# --- the plain run ------------------------------------------------------------------------------------------------


async def test_all_pages_of_a_list_are_told_and_then_the_changes_after_it(run: Run) -> None:
    run.server.lists += [page(10, item("a", 3), item("b", 4), token="more"), page(10, item("c", 5))]  # noqa: S106
    run.server.watches += [
        run.server.stream(line("ADDED", "d", 11), line("MODIFIED", "a", 12), line("DELETED", "b", 13), end="stall")
    ]
    await run.until(lambda: len(run.events) == 8)
    assert run.told == [
        ("began",),
        ("listed", "a", 3),
        ("listed", "b", 4),
        ("listed", "c", 5),
        ("completed", 10, 3),
        ("changed", "d", 11),
        ("changed", "a", 12),
        ("deleted", "b", 13),
    ]
    assert watched_from(run) == ["10"]
    first, second = run.server.asked("list")
    assert "resourceVersion" not in first, "the first page is the newest data"
    assert second["continue"] == "more"


async def test_a_bookmark_moves_the_version_and_tells_nothing(run: Run) -> None:
    run.server.lists += [page(10)]
    run.server.watches += [run.server.stream(bookmark(25))]
    await run.until_watches(2)
    assert run.told == [("began",), ("completed", 10, 0)]
    assert watched_from(run) == ["10", "25"]
    assert run.observer.versions == [10, 25]


async def test_a_watch_that_the_server_ends_goes_on_from_the_last_version_without_a_wait(run: Run) -> None:
    run.server.lists += [page(10)]
    run.server.watches += [run.server.stream(line("ADDED", "a", 11)), run.server.stream(line("ADDED", "b", 12))]
    await run.until_watches(3)
    assert run.told[2:] == [("changed", "a", 11), ("changed", "b", 12)]
    assert watched_from(run) == ["10", "11", "12"]
    assert run.clock.slept == []


async def test_a_quiet_watch_that_ran_its_time_goes_on_without_a_wait(run: Run) -> None:
    def a_minute_passes() -> None:
        run.clock.now_s += 60

    run.server.lists += [page(10)]
    run.server.watches += [run.server.stream(then=a_minute_passes) for _ in range(8)]
    await run.until_watches(9)
    assert watched_from(run) == ["10"] * 9
    assert run.told == [("began",), ("completed", 10, 0)]
    assert run.clock.slept == []


async def test_rows_without_an_index_are_unknown_and_unknown_fields_are_skipped(run: Run) -> None:
    row = {"nodeName": "n", "ipAddress": "10.0.0.1", "cliqueID": "c.1", "colour": "blue"}
    run.server.lists += [page(10, item("a", 3, daemons=[row], spec={"x": 1}))]
    await run.until_watches(1)
    seen = run.events[1]
    assert isinstance(seen, ObjectSeen)
    assert isinstance(seen.object, ComputeDomainClique)
    assert [(each.node_name, each.index) for each in seen.object.daemons] == [("n", None)]


# --- the history is gone ------------------------------------------------------------------------------------------


SHAPES = {
    "HTTP 410": refused(410, "Expired", "too old resource version: 10 (99)"),
    "a Status in an answer with status 200": whole(status(410, "Expired", "too old resource version: 10 (99)")),
    "a Status without a code": whole(b'{"kind":"Status","status":"Failure","reason":"Gone"}'),
    "a server error that says so": refused(500, "InternalError", "etcd: too old resource version: 10 (99)"),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
async def test_an_expired_version_is_a_gap_and_a_relist(run: Run, shape: Reply) -> None:
    run.server.lists += [page(10, item("a", 3), item("b", 4)), page(99, item("a", 3))]
    run.server.watches += [shape]
    await run.until_watches(2)
    assert run.told[4:] == [("gap", 10), ("began",), ("listed", "a", 3), ("completed", 99, 1)]
    assert watched_from(run) == ["10", "99"]
    assert isinstance(run.observer.failures[0][1], Expired)


async def test_an_expired_event_in_the_stream_is_a_gap_after_the_last_version(run: Run) -> None:
    run.server.lists += [page(10), page(99)]
    run.server.watches += [run.server.stream(line("ADDED", "a", 12), error_event(410, "Expired", "too old"))]
    await run.until_watches(2)
    assert run.told[2:] == [("changed", "a", 12), ("gap", 12), ("began",), ("completed", 99, 0)]


async def test_an_expired_continue_token_voids_the_list_and_the_next_one_has_no_pages(run: Run) -> None:
    run.server.lists += [
        page(10, item("a", 3), token="old"),  # noqa: S106
        refused(410, "Expired", "The provided continue parameter is too old"),
        page(20, item("b", 5)),
    ]
    await run.until_watches(1)
    assert run.told == [
        ("began",),
        ("listed", "a", 3),
        ("gap", 0),
        ("began",),
        ("listed", "b", 5),
        ("completed", 20, 1),
    ]
    assert "limit" not in run.server.asked("list")[2]


async def test_a_version_that_goes_back_is_a_gap_and_the_new_history_is_followed(run: Run) -> None:
    run.server.lists += [page(1000), page(50, item("a", 40))]
    run.server.watches += [run.server.stream(line("ADDED", "a", 40), end="stall"), run.server.stream(bookmark(51))]
    await run.until_watches(3)
    assert run.told[2:] == [("gap", 1000), ("began",), ("listed", "a", 40), ("completed", 50, 1)]
    assert watched_from(run) == ["1000", "50", "51"]


# --- the stream is broken -----------------------------------------------------------------------------------------


async def test_an_error_event_resumes_from_the_last_version(run: Run) -> None:
    run.server.lists += [page(10)]
    run.server.watches += [run.server.stream(line("ADDED", "a", 12), error_event(500, "InternalError", "boom"))]
    await run.until_watches(2)
    assert watched_from(run) == ["10", "12"]
    assert run.told[2:] == [("changed", "a", 12)]
    assert isinstance(run.observer.failures[0][1], ServerError)


async def test_a_silent_watch_is_cut_and_resumed_from_the_last_version() -> None:
    async with scripted(watch_slack_s=0.1) as run:
        run.server.lists += [page(10)]
        run.server.watches += [run.server.stream(line("ADDED", "a", 12), end="stall")]
        await run.until_watches(2)
        assert watched_from(run) == ["10", "12"]
        assert run.told[2:] == [("changed", "a", 12)]
        assert "no answer in time" in run.observer.failures[0][0]


async def test_connections_that_are_reset_are_tried_again_after_a_wait_and_each_is_reported(run: Run) -> None:
    run.server.lists += [dropped(), page(10)]
    run.server.watches += [dropped(), dropped(), dropped(), run.server.stream(line("ADDED", "a", 11), end="stall")]
    await run.until(lambda: ("changed", "a", 11) in run.told)
    assert run.told == [("began",), ("completed", 10, 0), ("changed", "a", 11)]
    assert run.clock.slept == [wait for _, _, wait in run.observer.failures]
    assert run.clock.slept == [0.125, 0.25, 0.5, 1.0]


async def test_a_line_that_a_reset_tore_is_not_told(run: Run) -> None:
    run.server.lists += [page(10)]
    half = line("ADDED", "b", 12)[:30]
    run.server.watches += [run.server.stream(line("ADDED", "a", 11), half, end="reset")]
    await run.until_watches(2)
    assert watched_from(run) == ["10", "11"]
    assert run.told[2:] == [("changed", "a", 11)]


@pytest.mark.parametrize(
    "nonsense",
    [
        line("ADDED", "b", 12)[:30],
        b"null\n",
        b"{}\n",
        b"<html>502</html>\n",
        b'{"type":"SURPRISE","object":{}}\n',
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"x"}}}\n',
        b'{"type":"ADDED","object":{"metadata":{"name":"b","uid":"u","resourceVersion":"12"},"daemons":"none"}}\n',
        b'{"type":"ADDED","object":{"metadata":{"name":"b","uid":"u"}}}\n',
        b"\xff\xfe\n",
    ],
)
async def test_a_line_that_does_not_decode_is_a_gap_that_names_the_error(run: Run, nonsense: bytes) -> None:
    run.server.lists += [page(10), page(20)]
    run.server.watches += [run.server.stream(line("ADDED", "a", 11), nonsense)]
    await run.until_watches(2)
    assert run.told[2:] == [("changed", "a", 11), ("gap", 11), ("began",), ("completed", 20, 0)]
    assert causes(run)[0].startswith("watch: a watch ")
    assert isinstance(run.observer.failures[0][1], Undecodable)


async def test_an_object_of_the_greatest_size_that_etcd_stores_is_told(run: Run) -> None:
    filler = {"annotations": {"filler": "x" * 1_500_000}}
    big = {"type": "ADDED", "object": {**item("a", 11), **filler}}
    run.server.lists += [page(10)]
    run.server.watches += [run.server.stream(msgspec.json.encode(big) + b"\n", end="stall")]
    await run.until(lambda: len(run.events) == 3)
    assert run.told[2:] == [("changed", "a", 11)]


async def test_a_line_without_an_end_is_given_up_at_the_limit(run: Run) -> None:
    run.server.lists += [page(10), page(20)]
    run.server.watches += [run.server.stream(b'{"type":"' + b"x" * LINE_LIMIT, end="stall")]
    await run.until_watches(2)
    assert run.told[2:] == [("gap", 10), ("began",), ("completed", 20, 0)]
    assert isinstance(run.observer.failures[0][1], TooLarge)


async def test_a_version_from_which_no_watch_succeeds_is_given_up_after_some_tries(run: Run) -> None:
    run.server.lists += [page(10), page(20)]
    run.server.watches += [run.server.stream(error_event(500, "InternalError", "boom")) for _ in range(5)]
    await run.until_watches(6)
    assert watched_from(run) == ["10"] * 5 + ["20"]
    assert run.told[2:] == [("gap", 10), ("began",), ("completed", 20, 0)]


async def test_a_watch_that_the_server_ends_at_once_each_time_does_not_become_a_busy_loop(run: Run) -> None:
    run.server.lists += [page(10), page(20)]
    run.server.watches += [run.server.stream() for _ in range(5)]
    await run.until_watches(6)
    assert len(run.clock.slept) == 5
    assert ("gap", 10) in run.told


async def test_progress_between_failures_keeps_the_view(run: Run) -> None:
    run.server.lists += [page(10)]
    for version in range(11, 19):
        event = line("ADDED", f"n{version}", version)
        run.server.watches += [run.server.stream(event, error_event(500, "InternalError", "boom"))]
    await run.until_watches(9)
    assert causes(run) == []
    assert len(run.server.asked("list")) == 1


# --- the server refuses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["list", "watch"])
@pytest.mark.parametrize(
    ("reply", "least"),
    [
        (whole(status(429, "TooManyRequests"), 429, **{"Retry-After": "30"}), 30.0),
        (whole(status(429, "TooManyRequests", retryAfterSeconds=7), 429), 7.0),
        (refused(429, "TooManyRequests", "storage is (re)initializing"), 1.0),
        (whole(b"busy", 503, **{"Retry-After": "5"}), 5.0),
    ],
)
async def test_the_wait_that_the_server_asks_for_is_the_least(run: Run, where: str, reply: Reply, least: float) -> None:
    run.server.lists += [reply, page(10)] if where == "list" else [page(10)]
    run.server.watches += [reply] if where == "watch" else []
    await run.until_watches(2 if where == "watch" else 1)
    assert isinstance(run.observer.failures[0][1], Throttled | ServerError)
    (wait,) = run.clock.slept
    assert least <= wait <= least + 0.25
    assert run.told == [("began",), ("completed", 10, 0)]


async def test_a_missing_crd_is_waited_for_slowly_and_named(run: Run) -> None:
    missing = whole(b"404 page not found\n", 404)
    run.server.lists += [missing, missing, page(10)]
    await run.until_watches(1)
    assert run.told == [("began",), ("completed", 10, 0)]
    assert [type(error) for _, error, _ in run.observer.failures] == [ResourceMissing, ResourceMissing]
    assert all(wait >= 10 for wait in run.clock.slept)
    assert "computedomaincliques.resource.nvidia.com v1beta1: install its CRD" in run.observer.failures[0][0]


async def test_a_crd_that_is_removed_is_a_gap(run: Run) -> None:
    missing = refused(404, "NotFound", "the server could not find the requested resource")
    run.server.lists += [page(10, item("a", 3)), missing, page(20)]
    run.server.watches += [missing]
    await run.until_watches(2)
    assert run.told[3:] == [("gap", 10), ("began",), ("completed", 20, 0)]


async def test_a_missing_permission_is_reported_with_the_verb_and_the_kind(run: Run) -> None:
    run.server.lists += [refused(403, "Forbidden", "user may not"), page(10)]
    await run.until_watches(1)
    message, error, _ = run.observer.failures[0]
    assert isinstance(error, Forbidden)
    assert "not allowed to list computedomaincliques.resource.nvidia.com" in message


async def test_a_list_that_fails_in_the_middle_is_void_and_begins_anew(run: Run) -> None:
    run.server.lists += [
        page(10, item("a", 3), token="more"),  # noqa: S106
        refused(500, "InternalError"),
        page(20, item("b", 4)),
    ]
    await run.until_watches(1)
    assert run.told == [("began",), ("listed", "a", 3), ("began",), ("listed", "b", 4), ("completed", 20, 1)]


async def test_a_list_that_fails_before_its_first_object_has_begun_once(run: Run) -> None:
    run.server.lists += [refused(500, "InternalError"), whole(b"not a page"), dropped(), page(20)]
    await run.until_watches(1)
    assert run.told == [("began",), ("completed", 20, 0)]
    assert len(run.observer.failures) == 3


async def test_a_list_that_can_never_succeed_ends_the_reflector(run: Run) -> None:
    run.server.lists += [refused(400, "BadRequest", "unable to parse the selector")]
    with pytest.raises(BadRequest, match="unable to parse"):
        await run.until_watches(1)


# --- the sink -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError("full"), msgspec.ValidationError("not yours"), Expired(410, "", "")])
async def test_what_the_sink_raises_ends_the_reflector(run: Run, error: Exception) -> None:
    async def sink(event: ReflectorEvent) -> None:
        if isinstance(event, ObjectSeen) and not event.listed:
            raise error

    run.server.lists += [page(10)]
    run.server.watches += [run.server.stream(line("ADDED", "a", 11), end="stall")]
    run.reflector = reflector(run.reflector._client, sink, run.clock, run.observer)
    with pytest.raises(type(error)) as caught:
        await run.until_watches(2)
    assert caught.value is error


async def test_nothing_is_told_while_the_sink_is_busy(run: Run) -> None:
    told: list[ReflectorEvent] = []
    free = asyncio.Event()

    async def sink(event: ReflectorEvent) -> None:
        told.append(event)
        await free.wait()

    run.server.lists += [page(10, item("a", 3))]
    run.reflector = reflector(run.reflector._client, sink, run.clock, run.observer)
    task = asyncio.create_task(run.until(lambda: len(told) == 3))
    for _ in range(50):
        await asyncio.sleep(0)
    assert [type(event) for event in told] == [RelistBegan]
    assert run.server.requests == []
    free.set()
    await task
    assert len(told) == 3

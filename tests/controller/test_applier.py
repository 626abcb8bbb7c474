"""Coalescer, applier and a client together, in virtual time, with a toy fold that sees its objects late."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog

from controller.metrics import Metrics
from controller.writing.applier import Applier
from controller.writing.coalescer import Coalescer, Depth, Limits
from controller.writing.pacing import Pace
from controller.writing.requests import Renderer
from eventlog.events import Condition, Row
from kube import client as kube
from projections.effects import (
    AnyEffect,
    CreateClaimTemplate,
    CreateDaemonSet,
    DeleteObject,
    PostEvent,
    Target,
    UnlabelNode,
    WriteCdc,
    WriteStatus,
)
from simulation.clock import VirtualClock
from tests.controller.memory_client import Key, MemoryClient

WATCH_LAG_S = 0.03


def manifest(effect: CreateDaemonSet | CreateClaimTemplate) -> dict[str, Any]:
    return {"metadata": {"name": effect.target.name}}


def cdc_key(clique: str) -> Key:
    return ("computedomaincliques", "driver", f"cd.{clique}")


class Rig:
    """The parts under test, and the toy fold: per clique the rows that are wanted and the object as last seen."""

    def __init__(self, limits: Limits, workers: int = 16, latency_s: float = 0.02) -> None:
        self.clock = VirtualClock(1_700_000_000_000)
        self.client = MemoryClient(self.clock, latency_s)
        self.client.changed = self.watch
        self.metrics = Metrics()
        self.coalescer = Coalescer(Pace(), limits, random.Random(7))
        self.log = structlog.testing.LogCapture()
        self.observed: list[tuple[Target, int | None]] = []
        self.own: dict[str, dict[str, Row]] = {}
        self.expected: dict[str, int] = {}
        self.seen: dict[str, tuple[int, str, tuple[Row, ...]]] = {}
        self.deliveries: set[asyncio.Task[None]] = set()
        self.blind = False
        self.applier = Applier(
            coalescer=self.coalescer,
            client=self.client,
            clock=self.clock,
            render=Renderer("me", manifest),
            observe=self.observe,
            may_send=lambda: True,
            metrics=self.metrics,
            log=structlog.wrap_logger(
                None, processors=[self.log], wrapper_class=structlog.make_filtering_bound_logger("info")
            ),
            workers=workers,
        )

    def watch(self, key: Key, body: dict[str, Any]) -> None:
        if key[0] == "computedomaincliques" and not self.blind:
            self.later(WATCH_LAG_S, lambda: self.fold(key[2].removeprefix("cd."), body))

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        async def wait() -> None:
            await self.clock.sleep(seconds)
            act()

        task = asyncio.ensure_future(wait())
        self.deliveries.add(task)
        task.add_done_callback(self.deliveries.discard)

    async def observe(self, _owner: str, target: Target, raw: bytes | None) -> None:
        body = None if raw is None else json.loads(raw)
        self.observed.append((target, None if body is None else int(body["metadata"]["resourceVersion"])))
        if target.resource == "computedomaincliques":
            self.fold(target.name.removeprefix("cd."), body)

    def fold(self, clique: str, body: dict[str, Any] | None) -> None:
        if body is None:
            self.seen.pop(clique, None)
        else:
            version = int(body["metadata"]["resourceVersion"])
            if version <= self.seen.get(clique, (0,))[0]:
                return
            rows = (Row(one["nodeName"], one["ipAddress"], one["index"], one["status"]) for one in body["daemons"])
            self.seen[clique] = (version, body["metadata"]["uid"], tuple(rows))
        self.diff(clique)

    def set_row(self, clique: str, row: Row) -> None:
        self.own.setdefault(clique, {})[row.node] = row
        self.diff(clique)

    def diff(self, clique: str) -> None:
        version, uid, rows = self.seen.get(clique, (0, "", ()))
        own = self.own.get(clique, {})
        wanted = tuple(sorted([*own.values(), *(row for row in rows if row.node not in own)], key=lambda r: r.node))
        ready = sum(row.status == "Ready" for row in own.values())
        target = Target(*cdc_key(clique))
        effects: dict[Target, AnyEffect] = {}
        if wanted != tuple(sorted(rows, key=lambda row: row.node)):
            complete = ready == self.expected.get(clique)
            effects[target] = WriteCdc(target, "cd", version, clique, uid, wanted, complete=complete)
        self.applier.replace(clique, effects, "0/1")

    def rows(self, clique: str) -> list[tuple[str, int, str]]:
        rows = self.client.objects[cdc_key(clique)]["daemons"]
        return sorted((one["nodeName"], one["index"], one["status"]) for one in rows)

    def writes(self, key: Key) -> int:
        return sum(verb != "get" and one == key for verb, one in self.client.requests)

    def reads(self, key: Key) -> int:
        return sum(verb == "get" and one == key for verb, one in self.client.requests)


@asynccontextmanager
async def running(workers: int = 16, latency_s: float = 0.02) -> AsyncIterator[Rig]:
    rig = Rig(Limits(), workers, latency_s)
    task = asyncio.ensure_future(rig.applier.run())
    try:
        yield rig
        assert not task.done(), "the applier ended"
    finally:
        for one in (task, *rig.deliveries):
            one.cancel()
        await asyncio.gather(task, *rig.deliveries, return_exceptions=True)


def row(number: int, status: str = "Ready") -> Row:
    return Row(f"node-{number:02}", f"10.0.0.{number}", number, status)


async def test_cliques_that_fill_within_a_second_take_at_most_four_writes_each_and_no_conflict() -> None:
    cliques = [f"fabric.{number}" for number in range(12)]
    async with running() as rig:
        rng = random.Random(3)
        for clique in cliques:
            rig.expected[clique] = 18
            for number in range(18):
                joins = rng.uniform(0.0, 1.0)
                for after, status in ((0.0, "NotReady"), (rng.uniform(1.0, 2.0), "Ready")):
                    rig.later(
                        joins + after,
                        lambda c=clique, n=number, s=status: rig.set_row(c, row(n, s)),  # type: ignore[misc]
                    )
        await rig.clock.advance(10.0)
        for clique in cliques:
            assert rig.rows(clique) == [(f"node-{number:02}", number, "Ready") for number in range(18)]
            assert rig.writes(cdc_key(clique)) <= 4
        assert not rig.client.errors
        assert rig.coalescer.depth() == Depth(0, 0, 0)
        count = len(rig.client.requests)
        await rig.clock.advance(120.0)
        assert len(rig.client.requests) == count, "requests go on although nothing changes"


async def test_256_pods_on_a_slow_server_all_see_their_row_within_seconds_of_its_change() -> None:
    async with running(latency_s=0.2) as rig:
        rng = random.Random(5)
        ready_at: dict[tuple[str, str], float] = {}
        shown_at: dict[tuple[str, str], float] = {}

        def make_ready(clique: str, number: int) -> None:
            ready_at[clique, row(number).node] = rig.clock.monotonic()
            rig.set_row(clique, row(number))

        def look(key: Key, body: dict[str, Any]) -> None:
            for one in body["daemons"]:
                if one["status"] == "Ready":
                    shown_at.setdefault((key[2].removeprefix("cd."), one["nodeName"]), rig.clock.monotonic())
            rig.watch(key, body)

        rig.client.changed = look
        for pod in range(256):
            clique, number = f"fabric.{pod // 18}", pod % 18
            rig.expected[clique] = rig.expected.get(clique, 0) + 1
            joins = rng.uniform(0.0, 11.0)
            rig.later(joins, lambda c=clique, n=number: rig.set_row(c, row(n, "NotReady")))  # type: ignore[misc]
            rig.later(
                joins + rng.uniform(2.0, 4.0),
                lambda c=clique, n=number: make_ready(c, n),  # type: ignore[misc]
            )
        await rig.clock.advance(30.0)
        assert len(shown_at) == 256
        assert shown_at.keys() == ready_at.keys()
        # The longest wait, a write that was already out when the change came, and its way through the watch.
        assert max(shown_at[one] - ready_at[one] for one in ready_at) <= Pace().max_wait_s + 2 * 0.2 + WATCH_LAG_S
        assert not rig.client.errors


async def test_full_list_writes_of_others_that_race_ours_end_in_the_union() -> None:
    key = cdc_key("fabric.1")
    async with running() as rig:
        for number in range(3):
            rig.set_row("fabric.1", row(number))
        await rig.clock.advance(1.0)

        def overwrite(number: int) -> None:
            theirs = {"nodeName": f"node-{number}", "ipAddress": "10.9.9.9", "index": number, "status": "Ready"}
            others = [one for one in rig.client.objects[key]["daemons"] if one["nodeName"] >= "node-16"]
            rig.client.put(key, {**rig.client.objects[key], "daemons": [*others, theirs]})

        for delay, number in ((0.0, 16), (0.02, 17)):
            rig.later(delay, lambda n=number: overwrite(n))  # type: ignore[misc]
        rig.set_row("fabric.1", row(3))
        await rig.clock.advance(60.0)
        assert [name for name, _, _ in rig.rows("fabric.1")] == [f"node-{number:02}" for number in (0, 1, 2, 3, 16, 17)]


async def test_foreign_rows_that_came_first_are_kept_after_two_conflicts() -> None:
    key = cdc_key("fabric.1")
    async with running() as rig:
        rig.client.put(key, {"metadata": {"name": key[2]}, "daemons": []})
        await rig.clock.advance(0.1)
        rig.blind = True  # what the others write is seen through live reads only

        def add_foreign(number: int) -> None:
            row = {"nodeName": f"node-{number}", "ipAddress": "10.9.9.9", "index": number, "status": "Ready"}
            body = rig.client.objects[key]
            rig.client.put(key, {**body, "daemons": [*body["daemons"], row]})

        rig.client.interferences = [lambda: add_foreign(16), lambda: add_foreign(17)]
        rig.set_row("fabric.1", row(0))
        await rig.clock.advance(60.0)
        assert rig.rows("fabric.1") == [
            ("node-00", 0, "Ready"),
            ("node-16", 16, "Ready"),
            ("node-17", 17, "Ready"),
        ]
        assert [type(error) for error in rig.client.errors] == [kube.Conflict, kube.Conflict]
        assert rig.writes(key) == 3
        # The first two reads are for the conflicts, the third for our own write, which the blind watch does not show.
        assert rig.observed == [(Target(*key), 102), (Target(*key), 103), (Target(*key), 104)]


async def test_a_create_that_finds_the_name_taken_adopts_what_is_there() -> None:
    key = cdc_key("fabric.1")
    async with running() as rig:
        rig.blind = True
        foreign = {"nodeName": "node-05", "ipAddress": "10.9.9.9", "index": 5, "status": "Ready"}
        rig.client.put(key, {"metadata": {"name": key[2]}, "daemons": [foreign]})
        rig.set_row("fabric.1", row(0))
        await rig.clock.advance(1.0)
        rig.blind = False
        await rig.clock.advance(10.0)
        assert rig.rows("fabric.1") == [("node-00", 0, "Ready"), ("node-05", 5, "Ready")]
        assert [type(error) for error in rig.client.errors] == [kube.AlreadyExists]


async def test_a_write_whose_answer_was_lost_is_looked_up_and_not_sent_again() -> None:
    key = cdc_key("fabric.1")
    async with running() as rig:
        rig.blind = True
        rig.client.fail("create", kube.Unreachable("timed out"), after=True)
        rig.set_row("fabric.1", row(0))
        await rig.clock.advance(60.0)
        assert (rig.writes(key), rig.reads(key)) == (1, 1)
        assert rig.rows("fabric.1") == [("node-00", 0, "Ready")]


async def test_a_write_that_the_watch_never_shows_is_read_and_recorded() -> None:
    key = cdc_key("fabric.1")
    async with running() as rig:
        rig.blind = True
        rig.set_row("fabric.1", row(0))
        await rig.clock.advance(60.0)
        assert (rig.writes(key), rig.reads(key)) == (1, 1)
        assert rig.observed == [(Target(*key), 101)]


async def test_a_deleted_object_is_created_again_with_the_same_rows() -> None:
    key = cdc_key("fabric.1")
    async with running() as rig:
        rig.set_row("fabric.1", row(4))
        await rig.clock.advance(1.0)
        del rig.client.objects[key]
        rig.fold("fabric.1", None)
        await rig.clock.advance(10.0)
        assert rig.rows("fabric.1") == [("node-04", 4, "Ready")]


async def test_a_patch_of_an_object_that_is_gone_ends_in_a_recorded_live_read_and_a_new_object() -> None:
    key = cdc_key("fabric.1")
    async with running() as rig:
        rig.set_row("fabric.1", row(0))
        await rig.clock.advance(1.0)
        del rig.client.objects[key]
        rig.set_row("fabric.1", row(1))
        await rig.clock.advance(60.0)
        assert (Target(*key), None) in rig.observed
        assert rig.rows("fabric.1") == [("node-00", 0, "Ready"), ("node-01", 1, "Ready")]


async def test_throttling_is_honoured_for_all_objects_and_ends_in_one_success_each() -> None:
    async with running() as rig:
        for _ in range(10):
            rig.client.fail("create", kube.Throttled(429, "TooManyRequests", "slow down", 2.0))
        rig.set_row("fabric.1", row(0))
        await rig.clock.advance(1.9)
        assert len(rig.client.requests) == 1
        await rig.clock.advance(120.0)
        assert rig.rows("fabric.1") == [("node-00", 0, "Ready")]
        assert rig.writes(cdc_key("fabric.1")) == 11
        assert b'cliquelog_throttles_total{resource="computedomaincliques",verb="create"} 10.0' in rig.metrics.render()


async def test_no_more_requests_are_out_than_there_are_workers() -> None:
    async with running(workers=3) as rig:
        for number in range(30):
            rig.set_row(f"fabric.{number}", row(0))
        await rig.clock.advance(5.0)
        assert rig.client.most_out == 3
        assert len(rig.client.objects) == 30


async def test_a_refusal_is_reported_with_the_object_and_the_cause() -> None:
    async with running() as rig:
        rig.client.fail("create", kube.Forbidden(403, "Forbidden", "cannot create"))
        rig.set_row("fabric.1", row(0))
        await rig.clock.advance(20.0)
        assert len(rig.client.requests) == 1
        (report,) = [entry for entry in rig.log.entries if entry["log_level"] == "error"]
        assert report["name"] == "cd.fabric.1"
        assert "cannot create" in report["cause"]
        await rig.clock.advance(60.0)
        assert rig.rows("fabric.1") == [("node-00", 0, "Ready")]


async def test_a_status_of_which_the_crd_does_not_know_the_conditions_is_written_once_with_a_warning() -> None:
    key = ("computedomains", "team", "cd")
    async with running() as rig:
        rig.client.unknown = {"conditions"}
        body = rig.client.put(key, {"metadata": {"name": "cd"}, "status": {"status": "NotReady", "nodes": []}})
        meta = body["metadata"]
        condition = Condition("SpecValid", "False", "InvalidSpec", "no spec", "")
        effect = WriteStatus(
            Target(*key), "cd", int(meta["resourceVersion"]), meta["uid"], "NotReady", (), (condition,)
        )
        for _ in range(60):
            rig.applier.replace("cd", {effect.target: effect}, "0/1")
            await rig.clock.advance(1.0)
        assert rig.writes(key) == 1
        (report,) = rig.log.entries
        assert (report["log_level"], report["name"]) == ("warning", "cd")
        assert "does its CRD know all fields?" in report["cause"]


async def test_a_node_that_was_relabelled_meanwhile_keeps_its_new_label() -> None:
    label = "resource.nvidia.com/computeDomain"
    key = ("nodes", "", "node-00")
    async with running() as rig:
        node = rig.client.put(key, {"metadata": {"name": "node-00", "labels": {label: "other"}}})
        uid = node["metadata"]["uid"]
        target = Target(*key)
        rig.applier.replace("cd", {target: UnlabelNode(target, "cd", 5, uid)}, "0/1")
        await rig.clock.advance(2.0)
        assert rig.client.objects[key]["metadata"]["labels"] == {label: "other"}
        assert rig.observed == [(target, int(node["metadata"]["resourceVersion"]))]


async def test_a_node_loses_its_label_whatever_its_heartbeat_changed() -> None:
    label = "resource.nvidia.com/computeDomain"
    key = ("nodes", "", "node-00")
    async with running() as rig:
        node = rig.client.put(key, {"metadata": {"name": "node-00", "labels": {label: "cd", "kept": "yes"}}})
        target = Target(*key)
        rig.applier.replace("cd", {target: UnlabelNode(target, "cd", 5, node["metadata"]["uid"])}, "0/1")
        await rig.clock.advance(2.0)
        assert rig.client.objects[key]["metadata"]["labels"] == {"kept": "yes"}


async def test_an_object_of_another_uid_is_not_deleted() -> None:
    key = ("daemonsets", "driver", "ds")
    async with running() as rig:
        rig.client.put(key, {"metadata": {"name": "ds"}})
        target = Target(*key)
        rig.applier.replace("cd", {target: DeleteObject(target, "cd", 5, "an-older-uid")}, "0/1")
        await rig.clock.advance(2.0)
        assert key in rig.client.objects


async def test_an_event_that_an_earlier_process_posted_is_not_posted_again() -> None:
    key = ("events", "team", "train.full")
    async with running() as rig:
        rig.client.put(key, {"metadata": {"name": key[2]}})
        target = Target(*key)
        wanted = {target: PostEvent(target, "cd", 0, "train", "CliqueFull", "full")}
        for _ in range(3):
            rig.applier.replace("cd", wanted, "0/1")
            await rig.clock.advance(60.0)
        assert rig.writes(key) == 1


async def test_nothing_is_sent_while_it_may_not_be_and_what_is_wanted_then_is_sent_later() -> None:
    async with running() as rig:
        rig.applier._may_send = lambda: False
        rig.set_row("fabric.1", row(0))
        await rig.clock.advance(60.0)
        assert rig.writes(cdc_key("fabric.1")) == 0
        rig.applier._may_send = lambda: True
        await rig.clock.advance(5.0)
        assert rig.writes(cdc_key("fabric.1")) == 1


async def test_an_error_that_is_not_the_api_servers_ends_the_applier() -> None:
    rig = Rig(Limits())

    async def broken(_owner: str, _target: Target, _raw: bytes | None) -> None:
        raise OSError("disk full")

    rig.applier._observe = broken
    rig.client.fail("create", kube.Conflict(409, "Conflict", "modified"))
    rig.set_row("fabric.1", row(0))
    task = asyncio.ensure_future(rig.applier.run())
    rig.client.put(cdc_key("fabric.1"), {"metadata": {"name": "cd.fabric.1"}, "daemons": []})
    for one in rig.deliveries:
        one.cancel()
    await rig.clock.advance(5.0)
    assert task.done()
    with pytest.raises(ExceptionGroup) as raised:
        task.result()
    assert raised.group_contains(OSError, match="disk full")


async def test_cancelling_the_applier_leaves_no_task_behind() -> None:
    before = asyncio.all_tasks()
    rig = Rig(Limits())
    rig.blind = True
    rig.set_row("fabric.1", row(0))
    task = asyncio.ensure_future(rig.applier.run())
    await rig.clock.advance(0.015)
    assert rig.client.out == {cdc_key("fabric.1"): 1}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert asyncio.all_tasks() == before

"""The checkers of what the API server shows: each is silent on what is right, and speaks on a made-up violation."""

import itertools
from collections.abc import Callable

import pytest

from kube.clock import SystemClock
from kube.names import (
    CDCS,
    CLIQUE_LABEL,
    COMPUTE_DOMAINS,
    DAEMON_SETS,
    DOMAIN_LABEL,
    NODES,
    PODS,
    POSITION_ANNOTATION,
    READER_LABEL,
)
from simulation.explore import scenario
from simulation.explore.checkers import cleanup
from simulation.explore.checkers.facts import FactChecker
from simulation.explore.checkers.liveness import Changes, missing
from simulation.explore.checkers.rows import RowChecker
from simulation.kinds import KINDS, WITH_STATUS
from simulation.store import Object, Store

CLIQUE = "c.0"
NAMESPACE = "nvidia"


class World:
    """A store with one domain, and helpers that write to it as a controller does."""

    def __init__(self) -> None:
        uids = itertools.count(1)
        self.store = Store(KINDS, WITH_STATUS, SystemClock(), lambda: f"uid-{next(uids)}")
        self.found: list[str] = []
        self.theirs = False
        self.rows = RowChecker(self.store, 2, lambda: self.theirs, self.found.append)
        FactChecker(self.store, lambda: self.theirs, self.found.append)
        cleanup.watch(self.store, lambda: self.theirs, self.found.append)
        made = self.store.create(COMPUTE_DOMAINS, "jobs", {"metadata": {"name": "job", "finalizers": ["f"]}})
        self.domain: str = made["metadata"]["uid"]

    def pod(self, node: str, address: str, *, ready: bool = False) -> str:
        """Let a daemon of ours run on the node, or be so now; give its UID."""
        labels = {DOMAIN_LABEL: self.domain, CLIQUE_LABEL: CLIQUE, READER_LABEL: "reader"}
        key = (NAMESPACE, f"pod-{node}")
        if not [pod for pod in self.store.snapshot(scenario.Selector(PODS)) if pod["metadata"]["name"] == key[1]]:
            pod = {"metadata": {"name": key[1], "labels": labels}, "spec": {"nodeName": node}}
            self.store.create(PODS, NAMESPACE, pod)
        status = {"phase": "Running", "podIP": address, "conditions": [{"type": "Ready", "status": str(ready)}]}
        self.store.update(PODS, key, "status", lambda pod: {**pod, "status": status})
        return str(self.store.get(PODS, key)["metadata"]["uid"])

    def write(self, position: str, *rows: tuple[str, str, int, str]) -> None:
        """Write the CDC from a place in the log: node, address, index and status of each row."""
        daemons = [dict(zip(("nodeName", "ipAddress", "index", "status"), row, strict=True)) for row in rows]
        annotations = {POSITION_ANNOTATION: position}
        key = (NAMESPACE, f"{self.domain}.{CLIQUE}")
        labels = {DOMAIN_LABEL: self.domain, CLIQUE_LABEL: CLIQUE}
        if not self.store.snapshot(scenario.Selector(CDCS)):
            cdc: Object = {"metadata": {"name": key[1], "labels": labels, "annotations": annotations}}
            self.store.create(CDCS, NAMESPACE, {**cdc, "daemons": daemons})
            return
        self.store.update(
            CDCS,
            key,
            "",
            lambda cdc: {**cdc, "daemons": daemons, "metadata": {**cdc["metadata"], "annotations": annotations}},
        )

    def suspected(self) -> list[str]:
        return [one.told for one in self.rows.suspicions]


@pytest.fixture
def world() -> World:
    return World()


def test_what_is_right_is_not_spoken_of(world: World) -> None:
    world.pod("n0", "ip0", ready=True)
    world.write("0/1", ("n0", "", 0, "NotReady"))
    world.write("0/2", ("n0", "ip0", 0, "Ready"), ("n1", "", 1, "NotReady"))
    world.write("0/3", ("n0", "ip0", 0, "Ready"))
    assert world.found == world.suspected() == []
    assert [position for position, _ in world.rows.writes] == ["0/1", "0/2", "0/3"]


def test_one_index_for_two(world: World) -> None:
    world.write("0/1", ("n0", "", 0, "NotReady"), ("n1", "", 0, "NotReady"))
    assert [told.partition(":")[0] for told in world.found] == ["indices"]


def test_an_index_out_of_range(world: World) -> None:
    world.write("0/1", ("n0", "", 2, "NotReady"))
    assert [told.partition(":")[0] for told in world.found] == ["indices"]


def test_a_write_from_an_earlier_place(world: World) -> None:
    world.write("0/5", ("n0", "", 0, "NotReady"))
    world.write("0/4")
    assert [told.partition(":")[0] for told in world.found] == ["order"]


def test_what_others_write_is_not_judged(world: World) -> None:
    world.write("0/5", ("n0", "", 0, "NotReady"))
    world.theirs = True
    world.write("0/4", ("n0", "", 0, "NotReady"), ("n1", "", 0, "NotReady"))
    assert world.found == []


def test_a_living_row_that_goes(world: World) -> None:
    world.pod("n0", "ip0")
    world.write("0/1", ("n0", "ip0", 0, "NotReady"))
    world.write("0/2")
    assert [told.partition(":")[0] for told in world.suspected()] == ["live rows"]


def test_an_index_that_changes_under_a_living_daemon(world: World) -> None:
    world.pod("n0", "ip0")
    world.write("0/1", ("n0", "ip0", 0, "NotReady"))
    world.write("0/2", ("n0", "ip0", 1, "NotReady"))
    assert [told.partition(":")[0] for told in world.suspected()] == ["indices"]


def test_a_row_that_is_wrong_again(world: World) -> None:
    world.pod("n0", "ip0", ready=True)
    world.write("0/1", ("n0", "ip0", 0, "Ready"))
    world.write("0/2", ("n0", "", 0, "NotReady"))
    assert [told.partition(":")[0] for told in world.found] == ["facts"]


def test_a_row_that_follows_its_daemon_is_right(world: World) -> None:
    world.pod("n0", "ip0", ready=True)
    world.write("0/1", ("n0", "ip0", 0, "Ready"))
    world.pod("n0", "ip1")
    world.write("0/2", ("n0", "ip0", 0, "NotReady"))
    world.write("0/3", ("n0", "ip1", 0, "NotReady"))
    assert world.found == []


def test_a_row_that_was_right_by_chance_proves_nothing(world: World) -> None:
    world.pod("n0", "ip0", ready=True)
    world.pod("n0", "ip1")
    world.pod("n0", "ip0", ready=True)
    world.write("0/1", ("n0", "ip0", 0, "Ready"))
    world.write("0/2", ("n0", "ip1", 0, "NotReady"))
    assert world.found == []


def take_label(world: World) -> None:
    world.store.update(NODES, ("", "n0"), "", lambda node: {**node, "metadata": {**node["metadata"], "labels": {}}})


def take_daemon_set(world: World) -> None:
    world.store.delete(DAEMON_SETS, (NAMESPACE, "ds"), None)


@pytest.mark.parametrize("take", [take_label, take_daemon_set])
def test_something_is_taken_from_a_domain(world: World, take: Callable[[World], None]) -> None:
    labels = {DOMAIN_LABEL: world.domain}
    for theirs, going, expected in ((True, False, []), (False, False, ["cleanup"]), (False, True, [])):
        world.found.clear()
        world.store.create(NODES, "", {"metadata": {"name": "n0", "labels": labels}})
        world.store.create(DAEMON_SETS, NAMESPACE, {"metadata": {"name": "ds", "labels": labels}})
        if going:
            world.store.delete(COMPUTE_DOMAINS, ("jobs", "job"), None)
        world.theirs = theirs
        take(world)
        assert [told.partition(":")[0] for told in world.found] == expected
        world.theirs = True
        world.store.delete(NODES, ("", "n0"), None)
        if take is not take_daemon_set:
            world.store.delete(DAEMON_SETS, (NAMESPACE, "ds"), None)
        world.theirs = False


def test_what_is_missing_in_the_end(world: World) -> None:
    def rules(*words: str) -> bool:
        return any(all(word in told for word in words) for told in missing(world.store, 2))

    world.pod("n0", "ip0", ready=True)
    assert rules("no row for n0")
    world.write("0/1", ("n0", "ip0", 0, "NotReady"), ("n1", "ip1", 1, "Ready"))
    assert rules("'NotReady'", "for n0")
    assert rules("keeps a row for n1")
    world.write("0/2", ("n0", "ip0", 0, "Ready"))
    assert not rules("row for")
    assert not rules("says")
    world.store.create(NODES, "", {"metadata": {"name": "n9", "labels": {DOMAIN_LABEL: world.domain}}})
    assert rules("n9 joined")
    world.store.create(NODES, "", {"metadata": {"name": "n8", "labels": {DOMAIN_LABEL: "gone"}}})
    assert rules("nodes n8 is left of")
    world.store.delete(COMPUTE_DOMAINS, ("jobs", "job"), None)
    assert rules("still being deleted")


def test_a_write_in_the_silence(world: World) -> None:
    moments = iter([0.0, 10.0, 20.0])
    changes = Changes(world.store, lambda: next(moments))
    world.write("0/1", ("n0", "", 0, "NotReady"))
    world.write("0/2")
    assert len(changes.since(5.0)) == 1
    assert "2 times" in changes.since(5.0)[0]
    assert "1 times" in changes.since(15.0)[0]
    assert changes.since(20.0) == []

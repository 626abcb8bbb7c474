"""The stand-ins do what their originals do, one step after the other, and the same in every run of one seed."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kube import names
from kube.client import Resource, Selector
from simulation.clock import VirtualClock
from simulation.cluster import Cluster
from simulation.store import Change, Refused, Store
from simulation.timing import Timing

DOMAIN = "7b0a3c52-5d3e-4f0c-9c1e-3f1f6f5b2a11"
CLIQUE = "2c1f1c1e-9c0b-4b43-8e4c-0d4f5a6b7c8d.1"
DRIVER = "driver"
CDC = (DRIVER, f"{DOMAIN}.{CLIQUE}")
KINDS = (names.NODES, names.PODS, names.DAEMON_SETS, names.CDCS)
Object = dict[str, Any]


class World:
    """A cluster on virtual time, and what was committed in it."""

    def __init__(self, seed: int) -> None:
        numbers = itertools.count(1)
        self.clock = VirtualClock(0)
        self.store = Store(KINDS, {names.NODES, names.PODS}, self.clock, lambda: f"uid-{next(numbers)}")
        self.cluster = Cluster(self.store, self.clock, random.Random(seed), Timing())
        self.told: list[tuple[float, str, str, str]] = []
        self.store.subscribe(self._note)
        self._next = 0

    def _note(self, resource: Resource, change: Change) -> None:
        thing = change.after or change.before or {}
        what = "gone" if change.after is None else "new" if change.before is None else "changed"
        self.told.append((self.clock.monotonic(), resource.plural, thing["metadata"]["name"], what))

    def daemon_set(self, *, reader: bool = True) -> str:
        labels = {names.DOMAIN_LABEL: DOMAIN} | ({names.READER_LABEL: "reader"} if reader else {})
        spec = {"nodeSelector": {names.DOMAIN_LABEL: DOMAIN}, "containers": []}
        body = {"metadata": {"name": "daemons"}, "spec": {"template": {"metadata": {"labels": labels}, "spec": spec}}}
        return str(self.store.create(names.DAEMON_SETS, DRIVER, body)["metadata"]["uid"])

    def pods(self) -> list[Object]:
        return self.store.snapshot(Selector(names.PODS))

    def pod(self) -> Object:
        (pod,) = self.pods()
        return pod

    def show_row(self, index: int, address: str, node: str = "n1", owners: list[Object] | None = None) -> None:
        row = {"nodeName": node, "ipAddress": address, "cliqueID": CLIQUE, "index": index, "status": "NotReady"}
        try:
            self.store.update(names.CDCS, CDC, "", lambda cdc: {**cdc, "daemons": [row]})
        except Refused:
            metadata = {"name": CDC[1], "ownerReferences": owners or []}
            self.store.create(names.CDCS, DRIVER, {"metadata": metadata, "daemons": [row]})


def address(pod: Object) -> str:
    return str(pod.get("status", {}).get("podIP", ""))


def ready(pod: Object) -> bool:
    return {"type": "Ready", "status": "True"} in pod.get("status", {}).get("conditions", [])


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World(1)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(world.cluster.run())
        yield world
        running.cancel()


async def started(world: World) -> Object:
    """Let one node join, and give its pod, which has an address."""
    world.cluster.register("n1", CLIQUE)
    world.cluster.join("n1", DOMAIN)
    world.daemon_set()
    await world.clock.advance(5)
    return world.pod()


async def test_a_node_says_its_clique_only_if_its_plugin_is_told_to(world: World) -> None:
    world.cluster.register("n1", CLIQUE)
    world.cluster.register("n2", CLIQUE, labelled=False)
    world.cluster.register("n3", "")
    labels = [node["metadata"]["labels"] for node in world.store.snapshot(Selector(names.NODES))]
    assert labels == [{names.NODE_CLIQUE_LABEL: CLIQUE}, {}, {}]


async def test_a_labelled_node_gets_a_pod_that_is_bound_and_gets_an_address_in_this_order(world: World) -> None:
    world.cluster.register("n1", CLIQUE)
    world.cluster.register("idle", CLIQUE)
    world.cluster.join("n1", DOMAIN)
    await world.clock.advance(5)
    assert world.pods() == [], "there is no DaemonSet yet"
    world.daemon_set()
    seen = []
    world.store.subscribe(lambda resource, change: seen.append((resource, change.after)))
    await world.clock.advance(5)

    steps = [
        (after["spec"].get("nodeName"), address(after), after["metadata"]["labels"].get(names.CLIQUE_LABEL))
        for resource, after in seen
        if resource == names.PODS and after is not None
    ]
    assert steps == [
        (None, "", None),
        ("n1", "", None),
        ("n1", "10.128.0.1", None),
        ("n1", "10.128.0.1", CLIQUE),
    ]
    assert not ready(world.pod()), "it has no row"


async def test_a_daemon_is_ready_once_its_row_shows_its_index_and_its_own_address(world: World) -> None:
    pod = await started(world)
    world.show_row(3, "10.128.0.99")
    await world.clock.advance(5)
    assert not ready(world.pod())
    world.show_row(3, address(pod))
    await world.clock.advance(5)
    assert ready(world.pod())


async def test_a_row_that_was_there_before_the_daemon_counts_as_well(world: World) -> None:
    world.show_row(0, "10.128.0.1")
    assert ready(await started(world)) or ready((await world.clock.advance(5), world.pod())[1])


async def test_a_daemon_whose_index_changes_is_not_ready_meanwhile(world: World) -> None:
    pod = await started(world)
    world.show_row(3, address(pod))
    await world.clock.advance(5)
    states = []
    world.store.subscribe(lambda _, change: states.append(ready(change.after)) if change.after else None)
    world.show_row(4, address(pod))
    await world.clock.advance(5)
    assert states[1:] == [False, True]


async def test_a_pod_of_another_kind_of_daemon_is_labelled_by_that_daemon(world: World) -> None:
    world.cluster.register("n1", CLIQUE)
    world.cluster.join("n1", DOMAIN)
    world.daemon_set(reader=False)
    await world.clock.advance(5)
    assert address(world.pod())
    assert names.CLIQUE_LABEL not in world.pod()["metadata"]["labels"]


async def test_a_node_without_a_fabric_has_a_daemon_that_waits_for_nothing(world: World) -> None:
    world.cluster.register("n1", "")
    world.cluster.join("n1", DOMAIN)
    world.daemon_set()
    await world.clock.advance(8)
    assert ready(world.pod())
    assert world.pod()["metadata"]["labels"][names.CLIQUE_LABEL] == ""


async def test_a_node_that_leaves_loses_its_pod_after_a_grace_period(world: World) -> None:
    await started(world)
    world.cluster.leave("n1")
    kinds = []
    world.store.subscribe(lambda _, change: kinds.append("gone" if change.after is None else "marked"))
    await world.clock.advance(5)
    assert world.pods() == []
    assert kinds == ["marked", "gone"]


async def test_a_deleted_node_takes_its_pod_along_and_may_come_back(world: World) -> None:
    first = await started(world)
    world.cluster.delete_node("n1")
    await world.clock.advance(5)
    assert world.pods() == []
    world.cluster.register("n1", CLIQUE)
    world.cluster.join("n1", DOMAIN)
    await world.clock.advance(5)
    assert world.pod()["metadata"]["uid"] != first["metadata"]["uid"]


async def test_a_reboot_keeps_the_node_and_brings_another_pod(world: World) -> None:
    first = await started(world)
    world.cluster.reboot("n1")
    await world.clock.advance(20)
    assert world.pod()["metadata"]["uid"] != first["metadata"]["uid"]
    assert address(world.pod())
    assert (0.0, "nodes", "n1", "new") in world.told
    assert not [each for each in world.told if each[1:] == ("nodes", "n1", "gone")]


@pytest.mark.parametrize("same", [False, True])
async def test_a_pod_is_recreated_with_another_name_or_the_same(world: World, same: bool) -> None:
    first = await started(world)
    world.cluster.recreate_pod("n1", same_name=same)
    await world.clock.advance(8)
    again = world.pod()
    assert again["metadata"]["uid"] != first["metadata"]["uid"]
    assert (again["metadata"]["name"] == first["metadata"]["name"]) is same


async def test_an_address_is_used_again(world: World) -> None:
    first = await started(world)
    world.cluster.register("n2", CLIQUE)
    world.cluster.leave("n1")
    await world.clock.advance(5)
    world.cluster.join("n2", DOMAIN)
    await world.clock.advance(5)
    assert address(world.pod()) == address(first)


async def test_a_restarted_daemon_has_another_address_and_is_ready_again_with_a_row_of_that(world: World) -> None:
    pod = await started(world)
    world.show_row(3, address(pod))
    await world.clock.advance(5)
    world.cluster.restart_daemon("n1")
    await world.clock.advance(5)
    again = world.pod()
    assert again["metadata"]["uid"] == pod["metadata"]["uid"]
    assert address(again) != address(pod)
    assert not ready(again)
    world.show_row(3, address(again))
    await world.clock.advance(5)
    assert ready(world.pod())


async def test_a_machine_that_changes_its_clique_says_so_and_its_next_daemon_too(world: World) -> None:
    await started(world)
    other = CLIQUE.replace(".1", ".2")
    world.cluster.change_clique("n1", other)
    await world.clock.advance(5)
    assert world.store.get(names.NODES, ("", "n1"))["metadata"]["labels"][names.NODE_CLIQUE_LABEL] == other
    assert world.pod()["metadata"]["labels"][names.CLIQUE_LABEL] == CLIQUE
    world.cluster.recreate_pod("n1", same_name=False)
    await world.clock.advance(8)
    assert world.pod()["metadata"]["labels"][names.CLIQUE_LABEL] == other


async def test_what_a_daemon_set_owns_goes_with_it(world: World) -> None:
    await started(world)
    (daemon_set,) = world.store.snapshot(Selector(names.DAEMON_SETS))
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "daemons", "uid": daemon_set["metadata"]["uid"]}
    world.show_row(0, "10.128.0.1", owners=[owner, {**owner, "uid": "never-was"}])
    await world.clock.advance(5)
    assert world.store.get(names.CDCS, CDC)["metadata"]["ownerReferences"] == [owner], "one is left"
    world.store.delete(names.DAEMON_SETS, (DRIVER, "daemons"), None)
    await world.clock.advance(5)
    assert world.pods() == []
    assert world.store.snapshot(Selector(names.CDCS)) == []


async def test_a_daemon_set_that_is_being_deleted_makes_and_ends_no_pods(world: World) -> None:
    await started(world)
    world.store.update(
        names.DAEMON_SETS,
        (DRIVER, "daemons"),
        "",
        lambda thing: {**thing, "metadata": {**thing["metadata"], "finalizers": ["held"]}},
    )
    world.store.delete(names.DAEMON_SETS, (DRIVER, "daemons"), None)
    world.cluster.leave("n1")
    world.cluster.register("n2", CLIQUE)
    world.cluster.join("n2", DOMAIN)
    await world.clock.advance(5)
    assert world.pod()["spec"]["nodeName"] == "n1"


async def live(seed: int, nodes: list[str]) -> list[tuple[float, str, str, str]]:
    world = World(seed)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(world.cluster.run())
        for node in nodes:
            world.cluster.register(node, CLIQUE)
            world.cluster.join(node, DOMAIN)
        world.daemon_set()
        await world.clock.advance(5)
        running.cancel()
    return world.told


async def test_one_seed_gives_one_run_and_another_seed_another() -> None:
    nodes = [f"n{number}" for number in range(20)]
    assert await live(1, nodes) == await live(1, nodes)
    assert await live(1, nodes) != await live(2, nodes)


async def test_one_node_more_changes_no_other_nodes_delays() -> None:
    few = [each for each in await live(1, ["a", "b"]) if each[1] == "pods"]
    more = await live(1, ["z", "a", "b"])
    assert {(at, what) for at, _, _, what in few} <= {(at, what) for at, plural, _, what in more if plural == "pods"}

"""The early central controller: one write for each event of a pod, one after the other."""

from kube import names
from kube.client import KubeClient, Resource
from kube.clock import Clock
from simulation.central_queue import CentralQueue, CentralSettings
from tests.simulation.daemon_world import CLIQUE, DOMAIN, DRIVER, DaemonWorld, Interfering, play, row

A, B = "10.0.0.1", "10.0.0.2"


def controller(clock: Clock, *, rate_per_s: float = 1000.0, burst: int = 1000, capacity: int = 18) -> CentralQueue:
    settings = CentralSettings(rate_per_s=rate_per_s, burst=burst, capacity=capacity)
    return CentralQueue(DRIVER, clock=clock, seed=1, settings=settings)


def test_each_pod_gets_one_write_for_its_ip_and_one_for_its_readiness() -> None:
    async def steps(world: DaemonWorld) -> None:
        for number in range(4):
            world.node(f"n{number}")
            world.pod(f"n{number}", f"10.0.0.{number}")
            await world.clock.sleep(1)
        assert [len(rows) for rows in world.writes] == [1, 2, 3, 4]
        for number in range(4):
            world.set_status(f"n{number}", f"10.0.0.{number}", ready=True)
        await world.clock.sleep(5)
        assert len(world.writes) == 8
        assert world.rows == {f"n{number}": (number, f"10.0.0.{number}", "Ready") for number in range(4)}
        assert world.cdc["metadata"]["labels"] == {names.DOMAIN_LABEL: DOMAIN, names.CLIQUE_LABEL: CLIQUE}

    play(controller, steps)


def test_events_that_change_no_row_cost_a_read_and_no_write() -> None:
    asked: list[tuple[str, Resource]] = []

    async def steps(world: DaemonWorld) -> None:
        world.node("a")
        world.pod("a", A)
        await world.clock.sleep(1)
        pod = world.store.get(names.PODS, (DRIVER, "pod-a"))
        metadata = pod["metadata"] | {"annotations": {"other": "thing"}}
        world.store.update(names.PODS, (DRIVER, "pod-a"), "", lambda thing: {**thing, "metadata": metadata})
        await world.clock.sleep(1)
        assert len(world.writes) == 1
        assert asked.count(("get", names.NODES)) == 2

    play(controller, steps, lambda client: Interfering(client, lambda verb, resource: asked.append((verb, resource))))


def test_a_pod_that_is_gone_loses_its_row_and_a_newcomer_gets_the_index() -> None:
    async def steps(world: DaemonWorld) -> None:
        for node, address in (("a", A), ("b", B)):
            world.node(node)
            world.pod(node, address)
        await world.clock.sleep(5)
        world.delete_pod("a")
        await world.clock.sleep(5)
        assert world.rows == {"b": (1, B, "NotReady")}
        world.node("c")
        world.pod("c", A)
        await world.clock.sleep(5)
        assert world.rows["c"] == (0, A, "NotReady")

    play(controller, steps)


def test_a_new_address_changes_the_row_and_not_its_index() -> None:
    async def steps(world: DaemonWorld) -> None:
        world.place_rows(row("a", 5, A))
        world.node("a")
        world.pod("a", B)
        await world.clock.sleep(5)
        assert world.rows == {"a": (5, B, "NotReady")}

    play(controller, steps)


def test_a_pod_of_a_full_clique_gets_its_row_when_another_goes() -> None:
    async def steps(world: DaemonWorld) -> None:
        for node, address in (("a", A), ("b", B)):
            world.node(node)
            world.pod(node, address)
            await world.clock.sleep(5)
        assert set(world.rows) == {"a"}
        world.delete_pod("a")
        await world.clock.sleep(60)
        assert world.rows == {"b": (0, B, "NotReady")}

    play(lambda clock: controller(clock, capacity=1), steps)


def test_a_node_without_a_clique_gets_no_row() -> None:
    async def steps(world: DaemonWorld) -> None:
        world.node("a", clique="")
        world.pod("a", A)
        await world.clock.sleep(5)
        assert world.writes == []

    play(controller, steps)


def test_another_writers_change_is_met_by_reading_again() -> None:
    waiting: list[DaemonWorld] = []

    def interfere(verb: str, _resource: Resource) -> None:
        if verb == "replace" and waiting:
            waiting.pop().set_rows(row("x", 0, "10.9.0.1"))

    async def steps(world: DaemonWorld) -> None:
        world.place_rows()
        world.node("a")
        waiting.append(world)
        world.pod("a", A)
        await world.clock.sleep(5)
        assert world.rows == {"x": (0, "10.9.0.1", "NotReady"), "a": (1, A, "NotReady")}

    def around(client: KubeClient) -> KubeClient:
        return Interfering(client, interfere)

    play(controller, steps, around)


def test_the_clients_limit_lets_through_a_burst_and_then_five_requests_a_second() -> None:
    async def steps(world: DaemonWorld) -> None:
        for number in range(18):
            world.node(f"n{number}")
            world.pod(f"n{number}", f"10.0.0.{number}")
        await world.clock.sleep(0.5)
        # Ten of the burst, and two that the bucket gave meanwhile.
        assert 10 <= len(world.writes) <= 12
        await world.clock.sleep(1.0)
        assert 15 <= len(world.writes) <= 17

    play(lambda clock: controller(clock, rate_per_s=5.0, burst=10), steps)

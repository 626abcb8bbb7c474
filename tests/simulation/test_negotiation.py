"""Upstream's daemons negotiate their rows: what each writes, what it leaves alone, and how a race ends."""

import pytest

from kube import names
from kube.client import Conflict, KubeClient, Resource, Throttled
from kube.clock import Clock
from simulation.negotiating_daemon import DaemonSettings
from simulation.negotiation import Negotiation
from tests.simulation.daemon_world import CLIQUE, DOMAIN, DRIVER, DaemonWorld, Interfering, play, row

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
DELIVERY_S = 0.005
PUT_S = 0.01


class SlowPuts(Interfering):
    """The object is read, and written 10 ms later: the window in which another writer makes the PUT a conflict."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        super().__init__(client, lambda _verb, _resource: None)
        self._clock = clock
        self.puts = 0
        self.conflicts = 0

    async def replace(self, resource: Resource, namespace: str, name: str, body: bytes) -> bytes:
        self.puts += 1
        await self._clock.sleep(PUT_S)
        try:
            return await super().replace(resource, namespace, name, body)
        except Conflict:
            self.conflicts += 1
            raise


def daemons(clock: Clock, *, capacity: int = 18, clique: str = CLIQUE, start_s: float = 0.0) -> Negotiation:
    settings = DaemonSettings(capacity=capacity, start_s=(0.0, start_s))
    return Negotiation(
        DRIVER, lambda _: clique, deliver=lambda: clock.sleep(DELIVERY_S), clock=clock, seed=1, settings=settings
    )


def test_a_daemon_labels_its_pod_creates_the_cdc_and_inserts_its_row() -> None:
    async def steps(world: DaemonWorld) -> None:
        world.pod("a", A)
        await world.clock.sleep(1)
        assert world.labels("a")[names.CLIQUE_LABEL] == CLIQUE
        assert world.writes == [[], [row("a", 0, A)]]
        metadata = world.cdc["metadata"]
        assert metadata["labels"] == {names.DOMAIN_LABEL: DOMAIN, names.CLIQUE_LABEL: CLIQUE}
        assert [owner["name"] for owner in metadata["ownerReferences"]] == ["pod-a"]

    play(daemons, steps)


def test_the_row_follows_the_pods_readiness_both_ways() -> None:
    async def steps(world: DaemonWorld) -> None:
        world.pod("a", A)
        await world.clock.sleep(1)
        world.set_status("a", A, ready=True)
        await world.clock.sleep(1)
        assert world.rows == {"a": (0, A, "Ready")}
        world.set_status("a", A, ready=False)
        await world.clock.sleep(1)
        assert world.rows == {"a": (0, A, "NotReady")}
        assert len(world.writes) == 4

    play(daemons, steps)


def test_of_two_daemons_that_race_one_wins_and_the_other_computes_its_row_anew() -> None:
    slow: list[SlowPuts] = []

    async def steps(world: DaemonWorld) -> None:
        world.place_rows()
        world.pod("a", A)
        world.pod("b", B)
        await world.clock.sleep(5)
        assert sorted(index for index, _, _ in world.rows.values()) == [0, 1]
        assert [len(rows) for rows in world.writes] == [0, 1, 2]
        assert slow[0].conflicts == 1
        assert slow[0].puts == 3
        assert sorted(owner["name"] for owner in world.cdc["metadata"]["ownerReferences"]) == ["pod-a", "pod-b"]

    def make(clock: Clock) -> Negotiation:
        clocks.append(clock)
        return daemons(clock)

    def around(client: KubeClient) -> KubeClient:
        slow.append(SlowPuts(client, clocks[0]))
        return slow[0]

    clocks: list[Clock] = []
    play(make, steps, around)


def test_eighteen_that_come_at_once_get_the_eighteen_indices_once_each() -> None:
    clocks: list[Clock] = []
    slow: list[SlowPuts] = []

    async def steps(world: DaemonWorld) -> None:
        for number in range(18):
            world.pod(f"n{number}", f"10.0.0.{number}")
        await world.clock.sleep(60)
        for number in range(18):
            world.set_status(f"n{number}", f"10.0.0.{number}", ready=True)
        await world.clock.sleep(60)
        assert sorted(index for index, _, _ in world.rows.values()) == list(range(18))
        assert {status for _, _, status in world.rows.values()} == {"Ready"}
        # One to create the CDC, then one for each row and one for each readiness: no write loses another's row.
        assert len(world.writes) == 1 + 18 + 18
        assert slow[0].conflicts > 18

    def make(clock: Clock) -> Negotiation:
        clocks.append(clock)
        return daemons(clock)

    def around(client: KubeClient) -> KubeClient:
        slow.append(SlowPuts(client, clocks[0]))
        return slow[0]

    play(make, steps, around)


def test_a_newcomer_takes_the_lowest_index_that_no_row_has() -> None:
    async def steps(world: DaemonWorld) -> None:
        world.place_rows(row("x", 0, "10.9.0.1"), row("y", 2, "10.9.0.2"))
        world.pod("a", A)
        await world.clock.sleep(1)
        assert world.rows["a"] == (1, A, "NotReady")

    play(daemons, steps)


def test_a_row_with_the_daemons_address_is_left_as_it_is() -> None:
    async def steps(world: DaemonWorld) -> None:
        world.place_rows(row("a", 7, A))
        world.pod("a", A)
        await world.clock.sleep(5)
        assert len(world.writes) == 1

    play(daemons, steps)


def test_a_row_with_another_address_gets_it_and_keeps_its_index_and_status() -> None:
    async def steps(world: DaemonWorld) -> None:
        world.place_rows(row("a", 7, "10.9.0.9", "Ready"))
        world.pod("a", A)
        await world.clock.sleep(1)
        # The status is left over from the daemon before (interop weakness W12), until the pod's own is written.
        assert world.writes[1] == [row("a", 7, A, "Ready")]
        assert world.rows["a"] == (7, A, "NotReady")

    play(daemons, steps)


def test_a_daemon_whose_row_another_removes_inserts_it_again() -> None:
    async def steps(world: DaemonWorld) -> None:
        world.pod("a", A)
        await world.clock.sleep(1)
        world.set_rows(row("x", 0, "10.9.0.1"))
        await world.clock.sleep(1)
        assert world.rows["a"] == (1, A, "NotReady")

    play(daemons, steps)


def test_a_daemon_of_a_full_clique_waits_until_an_index_is_free() -> None:
    async def steps(world: DaemonWorld) -> None:
        world.place_rows(row("x", 0, "10.9.0.1"), row("y", 1, "10.9.0.2"))
        world.pod("a", A)
        await world.clock.sleep(30)
        assert "a" not in world.rows
        world.set_rows(row("y", 1, "10.9.0.2"))
        await world.clock.sleep(10)
        assert world.rows["a"] == (0, A, "NotReady")

    play(lambda clock: daemons(clock, capacity=2), steps)


def test_a_daemon_that_is_asked_to_stop_takes_its_row_out_and_one_that_is_killed_does_not() -> None:
    async def steps(world: DaemonWorld) -> None:
        world.pod("a", A, finalizers=["grace/period"])
        world.pod("b", B)
        await world.clock.sleep(2)
        assert set(world.rows) == {"a", "b"}
        world.delete_pod("a")
        world.delete_pod("b")
        await world.clock.sleep(2)
        assert set(world.rows) == {"b"}

    play(daemons, steps)


def test_a_pod_with_a_new_address_runs_a_new_daemon_which_keeps_the_index() -> None:
    async def steps(world: DaemonWorld) -> None:
        world.pod("a", A)
        await world.clock.sleep(1)
        world.set_status("a", C, ready=False)
        await world.clock.sleep(1)
        assert world.rows == {"a": (0, C, "NotReady")}

    play(daemons, steps)


def test_a_daemon_without_a_clique_labels_its_pod_and_writes_no_row() -> None:
    async def steps(world: DaemonWorld) -> None:
        world.pod("a", A)
        await world.clock.sleep(5)
        assert world.labels("a")[names.CLIQUE_LABEL] == ""
        assert world.writes == []

    play(lambda clock: daemons(clock, clique=""), steps)


@pytest.mark.parametrize("asked_s", [1.0, 30.0])
def test_a_throttled_daemon_waits_as_long_as_the_server_asks(asked_s: float) -> None:
    refused: list[str] = []

    def throttle_once(verb: str, resource: Resource) -> None:
        if verb == "replace" and resource == names.CDCS and not refused:
            refused.append(verb)
            raise Throttled(429, "TooManyRequests", "", asked_s)

    async def steps(world: DaemonWorld) -> None:
        world.pod("a", A)
        await world.clock.sleep(asked_s)
        assert refused == ["replace"]
        assert world.rows == {}
        await world.clock.sleep(1)
        assert world.rows == {"a": (0, A, "NotReady")}

    play(daemons, steps, lambda client: Interfering(client, throttle_once))


def test_a_daemon_whose_label_is_refused_for_good_starts_again_after_the_kubelets_back_off() -> None:
    refused: list[str] = []

    def refuse_once(verb: str, _resource: Resource) -> None:
        if verb == "patch" and not refused:
            refused.append(verb)
            raise Throttled(429, "TooManyRequests", "", None)

    async def steps(world: DaemonWorld) -> None:
        world.pod("a", A)
        await world.clock.sleep(9)
        assert names.CLIQUE_LABEL not in world.labels("a")
        await world.clock.sleep(2)
        assert world.rows == {"a": (0, A, "NotReady")}

    play(daemons, steps, lambda client: Interfering(client, refuse_once))

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.events import Condition, DomainNode, DomainSeen, Row
from projections.conditions import MOST_EVENTS, NAMED
from projections.domain import apply_domain
from projections.domain_status import LARGEST
from projections.effects import WriteStatus
from projections.lifecycle import domain_effects
from projections.settings import Settings
from tests.projections.domain_world import CLIQUE, DOMAIN, DRIVER, UID, WORKLOAD_TEMPLATE, World


def a_made_world(settings: Settings | None = None, **domain: object) -> World:
    world = World(settings or Settings(DRIVER))
    world.put_domain(**domain)
    world.run_until_quiet()
    return world


def put_daemon(world: World, node: str, clique: str, **pod: object) -> None:
    world.put_node(node, clique)
    world.put_pod(node, clique, **pod)


def rows_of(count: int, status: str = "Ready", prefix: str = "n") -> list[Row]:
    return [Row(f"{prefix}{i:04d}", f"ip-{i}", i, status) for i in range(count)]


@pytest.mark.parametrize(
    ("wanted", "ready", "unready", "bare", "status"),
    [
        (0, 0, 0, [], "Ready"),
        (1, 0, 0, [], "NotReady"),
        (3, 3, 0, [], "Ready"),
        (3, 2, 1, [], "NotReady"),
        (2, 2, 1, [], "NotReady"),
        (3, 2, 0, [True], "Ready"),
        (3, 3, 0, [False], "NotReady"),
        (4, 3, 0, [], "NotReady"),
        (0, 0, 0, [False], "NotReady"),
        (100, 0, 0, [True] * 100, "Ready"),
    ],
)
def test_a_domain_is_ready_with_enough_rows_none_of_which_is_not_ready(
    wanted: int, ready: int, unready: int, bare: list[bool], status: str
) -> None:
    world = a_made_world(num_nodes=wanted)
    world.put_cdc([*rows_of(ready), *rows_of(unready, "NotReady", "u")])
    for number, pod_ready in enumerate(bare):
        put_daemon(world, f"bare{number}", "", ready=pod_ready)
    world.run_until_quiet()
    assert world.objects[DOMAIN].status == status


def test_the_status_lists_rows_and_fabric_less_nodes_by_name() -> None:
    world = a_made_world()
    world.put_cdc([Row("b", "ip-b", 1, "Ready"), Row("a", "ip-a", None)])
    put_daemon(world, "c", "", ready=False)
    put_daemon(world, "without-address", "", ip="")
    put_daemon(world, "b", CLIQUE)
    world.run_until_quiet()
    assert world.objects[DOMAIN].nodes == (
        DomainNode("a", "ip-a", CLIQUE, -1, "NotReady"),
        DomainNode("b", "ip-b", CLIQUE, 1, "Ready"),
        DomainNode("c", "ip-c", "", -1, "NotReady"),
    )


def test_a_status_that_shows_the_same_in_another_order_calls_for_no_write() -> None:
    world = a_made_world()
    world.put_template(WORKLOAD_TEMPLATE, owned=False)
    world.put_cdc(rows_of(2), waiting=("x",))
    world.run_until_quiet()
    seen = world.objects[DOMAIN]
    assert (len(seen.nodes), len(seen.conditions)) == (2, 2)
    world.change_domain(nodes=seen.nodes[::-1])
    assert world.wanted() == []
    world.change_domain(conditions=seen.conditions[::-1])
    assert world.wanted() == []


def test_a_node_with_rows_in_two_cliques_is_listed_and_counted_once_and_as_not_ready() -> None:
    world = a_made_world(num_nodes=2)
    world.put_cdc([Row("a", "old", 0, "Ready")], clique="cluster.1")
    world.put_cdc([Row("a", "new", 0, "Ready")], clique="cluster.2")
    world.run_until_quiet()
    assert world.objects[DOMAIN].status == "NotReady"
    assert [node.name for node in world.objects[DOMAIN].nodes] == ["a"]
    world.put_cdc([Row("a", "new", 0, "NotReady")], clique="cluster.2")
    world.run_until_quiet()
    assert world.objects[DOMAIN].nodes == (DomainNode("a", "new", "cluster.2", 0, "NotReady"),)


def test_while_an_old_pod_ends_the_new_one_speaks_for_a_fabric_less_node() -> None:
    world = a_made_world()
    put_daemon(world, "a", "", uid="new", name="new", ip="new", ready=True)
    put_daemon(world, "a", "", uid="old", name="old", ip="old", ready=False, terminating=True)
    world.run_until_quiet()
    assert world.objects[DOMAIN].nodes == (DomainNode("a", "new", "", -1, "Ready"),)
    assert world.objects[DOMAIN].status == "Ready"


def test_beyond_the_bound_only_fabric_less_nodes_are_listed() -> None:
    world = a_made_world(Settings(DRIVER, status_rows=3))
    world.put_cdc(rows_of(2))
    put_daemon(world, "bare", "")
    world.run_until_quiet()
    assert [node.name for node in world.objects[DOMAIN].nodes] == ["bare", "n0000", "n0001"]
    world.put_cdc(rows_of(3))
    world.run_until_quiet()
    assert [node.name for node in world.objects[DOMAIN].nodes] == ["bare"]
    assert world.objects[DOMAIN].status == "Ready"


def test_a_status_never_outgrows_what_the_api_stores_and_keeps_the_ready_nodes() -> None:
    world = a_made_world()
    for number in range(LARGEST + 2):
        put_daemon(world, f"n{number:05d}", "", ready=number >= 2)
    [effect] = world.effects()
    assert isinstance(effect, WriteStatus)
    assert effect.status == "NotReady"
    assert [node.name for node in effect.nodes] == [f"n{number:05d}" for number in range(2, LARGEST + 2)]


def test_a_full_clique_is_told_by_a_condition_and_one_event_for_each_node_that_waits() -> None:
    world = a_made_world()
    world.put_cdc(rows_of(2), waiting=("z", "y"), clique="cluster.2")
    world.put_cdc(rows_of(2, prefix="m"), waiting=("x",), clique="cluster.1")
    world.run_until_quiet()
    [condition] = world.objects[DOMAIN].conditions
    assert (condition.type, condition.status, condition.reason) == ("CliqueFull", "True", "CliqueFull")
    assert condition.message.endswith("cluster.1/x, cluster.2/y, cluster.2/z.")
    told = sorted(event.message for event in world.posted.values())
    assert len(told) == 3
    for message, (node, clique) in zip(told, [("x", 1), ("y", 2), ("z", 2)], strict=True):
        assert f"Node {node} " in message
        assert f"clique cluster.{clique}," in message
    names = {target.name for target in world.posted}
    world.put_cdc(rows_of(3), waiting=("z",), clique="cluster.2")
    world.run_until_quiet()
    assert {target.name for target in world.posted} == names
    world.put_cdc(rows_of(3), clique="cluster.2")
    world.put_cdc(rows_of(3, prefix="m"), clique="cluster.1")
    world.run_until_quiet()
    assert world.objects[DOMAIN].conditions == ()


def test_messages_and_events_about_waiting_nodes_are_bounded() -> None:
    world = a_made_world()
    waiting = [f"w{number:04d}" for number in range(MOST_EVENTS + 900)]
    world.put_cdc(waiting=waiting)
    world.run_until_quiet()
    [condition] = world.objects[DOMAIN].conditions
    assert condition.message.count("/w") == NAMED
    assert condition.message.endswith(f"and {len(waiting) - NAMED} more.")
    assert len(world.posted) == MOST_EVENTS


def test_an_event_message_stays_within_what_the_api_takes() -> None:
    world = World()
    world.put_daemon_set(terminating=True, others=[f"{'f' * 250}.org/{number}" for number in range(30)])
    world.put_domain(terminating=True)
    world.run_until_quiet()
    [event] = [event for event in world.posted.values() if event.reason == "HeldByFinalizer"]
    assert len(event.message) == 1000


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(["Ready", "NotReady", ""])), max_size=6),
    bare=st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans(), st.sampled_from(["", "ip"])), max_size=4),
    waiting=st.lists(st.sampled_from("uvw"), max_size=3),
    shown=st.lists(st.builds(DomainNode, name=st.sampled_from("abcdef")), max_size=3),
    num_nodes=st.integers(0, 8),
    bound=st.integers(0, 6),
)
def test_a_status_that_was_written_and_seen_calls_for_no_other_write(
    *,
    rows: list[tuple[str, str]],
    bare: list[tuple[str, bool, str]],
    waiting: list[str],
    shown: list[DomainNode],
    num_nodes: int,
    bound: int,
) -> None:
    world = a_made_world(Settings(DRIVER, status_rows=bound), num_nodes=num_nodes, status="NotReady")
    world.change_domain(nodes=tuple(shown))
    world.put_cdc([Row(name, "ip", 0, status) for name, status in rows], waiting)
    for name, ready, ip in bare:
        put_daemon(world, name, "", ip=ip, ready=ready)
    writes = [effect for effect in world.wanted() if isinstance(effect, WriteStatus)]
    assert len(writes) <= 1
    world.carry_out()
    assert world.wanted() == []
    nodes = world.objects[DOMAIN].nodes
    assert [node.name for node in nodes] == sorted({node.name for node in nodes})
    assert world.objects[DOMAIN].uid == UID


def test_the_conditions_of_others_stay_and_ours_keep_the_time_of_their_transition() -> None:
    theirs = Condition("Audited", "True", "Done", "", "2026-01-01T00:00:00Z")
    ours = Condition("SpecValid", "False", "InvalidSpec", "old words", "2026-02-02T00:00:00Z")
    state = apply_domain(None, DomainSeen("u", 1, "ns", "job", conditions=(ours, theirs)))

    [write] = [effect for effect in domain_effects(state, Settings("driver")) if isinstance(effect, WriteStatus)]

    assert [one.type for one in write.conditions] == ["SpecValid", "Audited"]
    assert dict(write.since) == {"SpecValid": "2026-02-02T00:00:00Z", "Audited": "2026-01-01T00:00:00Z"}
    settled = DomainSeen("u", 2, "ns", "job", status=write.status, conditions=(theirs, write.conditions[0]))
    again = domain_effects(apply_domain(state, settled), Settings("driver"))
    assert not any(isinstance(effect, WriteStatus) for effect in again)

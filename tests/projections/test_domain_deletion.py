from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from eventlog.events import DomainGone, NodeSeen, Row
from projections.effects import DeleteObject, PostEvent, SetFinalizers, Target, UnlabelNode
from tests.projections.domain_world import (
    CDC,
    CHILD,
    DAEMON_SET,
    DAEMON_TEMPLATE,
    DOMAIN,
    DRIVER,
    FINALIZER,
    UID,
    WORKLOAD_TEMPLATE,
    World,
    a_daemon_set,
)

ABSENT, PRESENT, TERMINATING = "absent", "present", "terminating"
CHILD_STATES = (ABSENT, PRESENT, TERMINATING)
HALF_DONE = list(
    product(CHILD_STATES, CHILD_STATES, CHILD_STATES, (ABSENT, PRESENT), CHILD_STATES, (ABSENT, "fabric", "bare"))
)
"""Workload template, daemon template, DaemonSet, node labels, CDC, daemon pods."""


def a_half_done_world(case: tuple[str, ...]) -> World:
    workload, template, daemon_set, labels, cdc, pods = case
    world = World()
    if workload != ABSENT:
        world.put_template(WORKLOAD_TEMPLATE, terminating=workload == TERMINATING)
    if template != ABSENT:
        world.put_template(DAEMON_TEMPLATE, terminating=template == TERMINATING)
    if daemon_set != ABSENT:
        world.put_daemon_set(terminating=daemon_set == TERMINATING)
    for node in ("n1", "n2", "n3"):
        if labels != ABSENT:
            world.put_node(node)
        if pods != ABSENT:
            world.put_pod(node, "" if pods == "bare" else "cluster.1")
    if cdc != ABSENT:
        world.put_cdc([Row("n1", "ip", 0)], terminating=cdc == TERMINATING)
    return world


@pytest.mark.parametrize("finalizers", [(FINALIZER,), ("other/holder", FINALIZER), ("other/holder",)])
def test_a_terminating_domain_ends_from_every_half_done_state(finalizers: tuple[str, ...]) -> None:
    for case in HALF_DONE:
        world = a_half_done_world(case)
        world.put_domain(terminating=True, finalizers=finalizers)
        world.run_until_quiet()
        if "other/holder" in finalizers:
            assert set(world.objects) == {DOMAIN}, case
            assert world.objects[DOMAIN].finalizers == ("other/holder",), case
        else:
            assert not world.objects, case
        assert world.effects() == (), case


def test_the_leftovers_of_a_domain_that_is_gone_are_cleaned_up_from_every_half_done_state() -> None:
    for case in HALF_DONE:
        world = a_half_done_world(case)
        world.fold(DomainGone(UID, 1000, inferred="a complete list of ComputeDomains lacks it"))
        world.run_until_quiet()
        assert not world.objects, case
        assert world.effects() == (), case


def test_each_step_of_the_deletion_is_called_for_at_once_and_none_waits_for_another() -> None:
    world = a_half_done_world((PRESENT, PRESENT, PRESENT, PRESENT, PRESENT, "fabric"))
    world.put_domain(terminating=True, finalizers=(FINALIZER,))
    effects = {effect.target: effect for effect in world.effects()}
    nodes = [Target("nodes", "", name) for name in ("n1", "n2", "n3")]
    assert set(effects) == {WORKLOAD_TEMPLATE, DAEMON_TEMPLATE, DAEMON_SET, *nodes}
    assert all(isinstance(effects[target], UnlabelNode) for target in nodes)
    assert all(isinstance(effects[target], DeleteObject) for target in effects if target not in nodes)


def test_a_step_that_never_succeeds_holds_up_only_the_end() -> None:
    world = a_half_done_world((PRESENT, PRESENT, PRESENT, PRESENT, PRESENT, "fabric"))
    world.put_domain(terminating=True, finalizers=(FINALIZER,))
    stuck = Target("nodes", "", "n2")
    for _ in range(10):
        for effect in world.wanted():
            if effect.target != stuck:
                world.carry_out_one(effect)
        world.pass_time()
    assert set(world.objects) == {DOMAIN, stuck}
    assert [effect.target for effect in world.effects()] == [stuck]
    world.run_until_quiet()
    assert not world.objects


def test_the_daemon_template_goes_though_its_daemon_set_was_never_made() -> None:
    world = World()
    world.put_template(DAEMON_TEMPLATE)
    world.put_domain(terminating=True, finalizers=(FINALIZER,))
    assert [(type(effect), effect.target) for effect in world.effects()] == [(DeleteObject, DAEMON_TEMPLATE)]
    world.run_until_quiet()
    assert not world.objects


def test_the_finalizer_stays_until_the_last_daemon_pod_is_gone() -> None:
    for clique in ("cluster.1", ""):
        world = World()
        world.put_domain(terminating=True, finalizers=(FINALIZER,))
        world.put_pod("n1", clique, terminating=True)
        assert world.effects() == ()
        world.remove(Target("pods", DRIVER, "daemon-n1"))
        seen = world.objects[DOMAIN]
        assert world.effects() == (SetFinalizers(DOMAIN, UID, seen.resource_version, UID, ()),)


@pytest.mark.parametrize("clique", ["cluster.1", ""])
def test_a_cdc_stays_until_the_last_daemon_pod_is_gone(clique: str) -> None:
    world = World()
    world.put_domain(terminating=True, finalizers=(FINALIZER,))
    world.put_cdc([Row("n1", "ip", 0)])
    world.put_pod("n1", clique, terminating=True)
    assert world.effects() == ()
    world.remove(Target("pods", DRIVER, "daemon-n1"))
    assert [(type(effect), effect.target) for effect in world.effects()] == [(DeleteObject, CDC)]


def test_a_cdc_that_is_on_its_way_out_is_not_deleted_again_and_holds_up_the_end() -> None:
    world = World()
    world.put_domain(terminating=True, finalizers=(FINALIZER,))
    world.put_cdc(terminating=True)
    assert world.effects() == ()
    world.remove(CDC)
    assert [effect.target for effect in world.effects()] == [DOMAIN]


def test_a_finalizer_of_others_is_told_only_once_it_is_all_that_holds_the_object() -> None:
    world = World()
    world.show(DAEMON_SET, a_daemon_set(finalizers=("other/holder",)))
    world.put_template(DAEMON_TEMPLATE, terminating=True, others=("other/holder",))
    world.put_domain(terminating=True, finalizers=(FINALIZER,))
    assert not any(isinstance(effect, PostEvent) for effect in world.effects())
    world.run_until_quiet()
    assert {event.message.split(",")[0].split()[-1] for event in world.posted.values()} == {f"{DRIVER}/{CHILD}"}
    assert len(world.posted) == 2


def test_a_template_that_is_somebody_elses_is_left_alone_and_does_not_hold_up_the_end() -> None:
    world = World()
    world.put_template(WORKLOAD_TEMPLATE, owned=False, others=("their/finalizer",))
    world.put_template(DAEMON_TEMPLATE, owned=False, terminating=True, others=(FINALIZER,))
    theirs = dict(world.objects)
    world.put_domain(terminating=True, finalizers=(FINALIZER,))
    world.run_until_quiet()
    assert world.objects == theirs


def test_finalizers_of_others_on_our_objects_are_kept_and_what_they_hold_is_told() -> None:
    world = World()
    world.put_daemon_set(others=("other/holder",))
    world.put_template(WORKLOAD_TEMPLATE, others=("other/holder",))
    world.put_domain(terminating=True, finalizers=(FINALIZER,))
    world.run_until_quiet()
    assert set(world.objects) == {DOMAIN, DAEMON_SET, WORKLOAD_TEMPLATE}
    for target in (DAEMON_SET, WORKLOAD_TEMPLATE):
        assert world.objects[target].terminating
        assert world.objects[target].finalizers == ("other/holder",)
    assert sorted(event.reason for event in world.posted.values()) == ["HeldByFinalizer", "HeldByFinalizer"]
    for target in (DAEMON_SET, WORKLOAD_TEMPLATE):
        world.remove(target)
    world.run_until_quiet()
    assert not world.objects


def test_children_of_an_earlier_install_in_another_namespace_go_as_well() -> None:
    world = World()
    for namespace in ("old-driver", DRIVER):
        world.put_daemon_set(namespace)
        world.put_template(Target("resourceclaimtemplates", namespace, DAEMON_SET.name))
    world.put_domain(terminating=True, finalizers=(FINALIZER,))
    world.run_until_quiet()
    assert not world.objects


def test_a_domain_without_a_spec_can_be_deleted() -> None:
    world = World()
    world.put_domain(template="", mode="", terminating=True, finalizers=(FINALIZER,))
    world.run_until_quiet()
    assert not world.objects


def test_a_node_that_is_labelled_after_the_domain_is_gone_loses_the_label_again() -> None:
    world = World()
    world.put_node("n1")
    world.put_domain(terminating=True, finalizers=(FINALIZER,))
    world.run_until_quiet()
    world.put_node("n1")
    assert [type(effect) for effect in world.effects()] == [UnlabelNode]
    world.run_until_quiet()
    assert not world.objects


def test_a_domain_that_was_taken_for_gone_and_is_seen_later_is_served_again() -> None:
    world = World()
    world.put_domain()
    world.run_until_quiet()
    world.fold(DomainGone(UID, world.version, inferred="a list lacked it"))
    assert any(isinstance(effect, DeleteObject) for effect in world.effects())
    world.show(DOMAIN, world.objects[DOMAIN])
    assert world.effects() == ()


def test_a_terminating_domain_makes_nothing_and_its_status_is_left_as_it_is() -> None:
    world = World()
    world.put_domain(terminating=True, finalizers=("other/holder",), status="", num_nodes=3)
    assert world.effects() == ()


def test_a_node_that_came_back_under_a_new_uid_is_unlabelled_under_that_uid() -> None:
    world = World()
    world.put_domain(terminating=True, finalizers=(FINALIZER,))
    world.put_node("n1")
    old = world.objects[Target("nodes", "", "n1")]
    world.show(Target("nodes", "", "n1"), replace(old, uid="reborn"))
    world.fold(NodeSeen("n1", old.uid, old.resource_version, "cluster.1", UID))
    [effect] = world.effects()
    assert isinstance(effect, UnlabelNode)
    assert effect.uid == "reborn"


@settings(deadline=None)
@given(st.sampled_from(HALF_DONE), st.data())
def test_a_domain_ends_whatever_subset_of_its_steps_succeeds_and_though_nodes_are_labelled_again(
    case: tuple[str, ...], data: st.DataObject
) -> None:
    world = a_half_done_world(case)
    world.put_domain(terminating=True, finalizers=(FINALIZER,))
    for _ in range(data.draw(st.integers(0, 6))):
        for effect in world.wanted():
            if data.draw(st.booleans()):
                world.carry_out_one(effect)
        if data.draw(st.booleans()):
            world.pass_time()
        if DOMAIN in world.objects and data.draw(st.booleans()):
            world.put_node("late")
    world.run_until_quiet()
    assert not world.objects


def test_a_domain_that_was_fully_made_ends_with_nothing_left() -> None:
    world = World()
    world.put_domain(num_nodes=2)
    world.run_until_quiet()
    for node, clique in (("n1", "cluster.1"), ("n2", "")):
        world.put_node(node, clique)
        world.put_pod(node, clique)
    world.put_cdc([Row("n1", "ip-n1", 0, "Ready")])
    world.run_until_quiet()
    assert world.objects[DOMAIN].status == "Ready"
    world.change_domain(terminating=True)
    world.run_until_quiet()
    assert not world.objects

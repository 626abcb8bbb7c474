from msgspec.structs import replace

from projections.effects import CreateClaimTemplate, CreateDaemonSet, PostEvent, SetFinalizers, WriteStatus
from projections.settings import Settings
from tests.projections.domain_world import (
    CHILD,
    DAEMON_SET,
    DAEMON_TEMPLATE,
    DOMAIN,
    DRIVER,
    FINALIZER,
    UID,
    WORKLOAD_TEMPLATE,
    World,
)


def test_a_new_domain_gets_the_finalizer_before_anything_is_made_for_it() -> None:
    world = World()
    world.put_domain(finalizers=("other/holder",))
    seen = world.objects[DOMAIN]
    assert world.effects() == (SetFinalizers(DOMAIN, UID, seen.resource_version, UID, ("other/holder", FINALIZER)),)


def test_with_the_finalizer_both_claim_templates_are_made_and_the_daemon_set_waits_for_its_own() -> None:
    world = World()
    world.put_domain(finalizers=(FINALIZER,), mode="All", status="Ready")
    assert world.effects() == (
        CreateClaimTemplate(DAEMON_TEMPLATE, UID, 0, "Daemon"),
        CreateClaimTemplate(WORKLOAD_TEMPLATE, UID, 0, "Workload", "All"),
    )
    world.put_template(DAEMON_TEMPLATE)
    world.put_template(WORKLOAD_TEMPLATE)
    assert world.effects() == (CreateDaemonSet(DAEMON_SET, UID, 0),)


def test_a_domain_is_made_step_by_step_and_then_calls_for_nothing() -> None:
    world = World()
    world.put_domain()
    world.run_until_quiet()
    assert set(world.objects) == {DOMAIN, DAEMON_SET, DAEMON_TEMPLATE, WORKLOAD_TEMPLATE}
    assert world.objects[DOMAIN].status == "Ready"
    assert world.effects() == ()
    assert not world.posted


def test_where_the_hosts_run_imex_no_daemons_are_made_and_a_workload_gets_a_single_channel() -> None:
    world = World(Settings(DRIVER, host_managed=True))
    world.put_domain(finalizers=(FINALIZER,), mode="All", num_nodes=4)
    made = [effect for effect in world.effects() if isinstance(effect, CreateClaimTemplate)]
    assert made == [CreateClaimTemplate(WORKLOAD_TEMPLATE, UID, 0, "Workload", "Single")]
    world.run_until_quiet()
    assert set(world.objects) == {DOMAIN, WORKLOAD_TEMPLATE}
    assert world.objects[DOMAIN].status == "Ready"


def test_a_daemon_set_of_an_earlier_install_elsewhere_is_kept_and_its_claim_template_restored_beside_it() -> None:
    world = World()
    world.put_daemon_set("old-driver")
    world.put_domain()
    world.run_until_quiet()
    assert {(target.resource, target.namespace) for target in world.objects if target.name == CHILD} == {
        ("daemonsets", "old-driver"),
        ("resourceclaimtemplates", "old-driver"),
    }


def test_children_that_somebody_deletes_are_let_go_and_made_again() -> None:
    world = World()
    world.put_domain()
    world.run_until_quiet()
    before = {target: seen.uid for target, seen in world.objects.items() if target != DOMAIN}
    for target in before:
        world.show(target, replace(world.objects[target], terminating=True))
    world.run_until_quiet()
    for target, uid in before.items():
        assert world.objects[target].uid != uid
        assert not world.objects[target].terminating


def test_a_workload_template_name_that_is_taken_is_told_once_and_not_fought_over() -> None:
    world = World()
    world.put_template(WORKLOAD_TEMPLATE, owned=False)
    theirs = world.objects[WORKLOAD_TEMPLATE]
    world.put_domain()
    world.run_until_quiet()
    assert world.objects[WORKLOAD_TEMPLATE] == theirs
    domain = world.objects[DOMAIN]
    assert domain.status == "NotReady"
    [condition] = domain.conditions
    assert (condition.type, condition.status, condition.reason) == ("WorkloadTemplateReady", "False", "NameTaken")
    assert "team/train-channel" in condition.message
    assert "delete or rename" in condition.message
    [event] = world.posted.values()
    assert (event.target.namespace, event.regarding, event.reason) == ("team", "train", "NameTaken")
    assert event.message == condition.message


def test_the_workload_template_is_made_as_soon_as_its_name_is_free() -> None:
    world = World()
    world.put_template(WORKLOAD_TEMPLATE, owned=False, uid="theirs")
    world.put_domain()
    world.run_until_quiet()
    world.remove(WORKLOAD_TEMPLATE)
    world.run_until_quiet()
    assert world.objects[WORKLOAD_TEMPLATE].owned
    assert world.objects[DOMAIN].status == "Ready"
    assert world.objects[DOMAIN].conditions == ()


def test_a_daemon_template_name_that_is_taken_holds_up_the_daemon_set_and_is_told() -> None:
    world = World()
    world.put_template(DAEMON_TEMPLATE, owned=False)
    world.put_domain()
    world.run_until_quiet()
    assert DAEMON_SET not in world.objects
    assert [condition.type for condition in world.objects[DOMAIN].conditions] == ["DaemonTemplateReady"]


def test_a_domain_without_a_spec_gets_nothing_but_a_condition_and_an_event() -> None:
    world = World()
    world.put_domain(template="", mode="")
    world.run_until_quiet()
    assert set(world.objects) == {DOMAIN}
    domain = world.objects[DOMAIN]
    assert domain.finalizers == ()
    assert domain.status == "NotReady"
    [condition] = domain.conditions
    assert (condition.type, condition.status, condition.reason) == ("SpecValid", "False", "InvalidSpec")
    assert [event.reason for event in world.posted.values()] == ["InvalidSpec"]


def test_a_template_name_that_no_object_can_have_is_an_invalid_spec() -> None:
    for name in ("", "Upper", "under_score", "-dash", "dot.", "a" * 254, "new\nline"):
        world = World()
        world.put_domain(template=name)
        world.run_until_quiet()
        assert set(world.objects) == {DOMAIN}, name
        assert [condition.reason for condition in world.objects[DOMAIN].conditions] == ["InvalidSpec"], name


def test_a_crd_that_keeps_no_conditions_does_not_make_a_write_repeat() -> None:
    world = World(Settings(DRIVER, conditions=False), keeps_conditions=False)
    world.put_template(WORKLOAD_TEMPLATE, owned=False)
    world.put_domain()
    world.run_until_quiet()
    assert world.wanted() == []
    assert [event.reason for event in world.posted.values()] == ["NameTaken"]


def test_before_the_domain_has_been_seen_its_children_call_for_nothing() -> None:
    world = World()
    world.put_daemon_set()
    world.put_template(WORKLOAD_TEMPLATE)
    world.put_node("n1")
    world.put_cdc()
    world.put_pod("n1")
    assert world.effects() == ()


def test_the_first_effects_are_a_finalizer_and_no_status_write_beside_it() -> None:
    world = World()
    world.put_domain(status="")
    assert not any(isinstance(effect, WriteStatus | PostEvent) for effect in world.effects())


def test_the_daemon_set_is_not_made_while_its_claim_template_is_on_its_way_out() -> None:
    world = World()
    world.put_domain(finalizers=(FINALIZER,), status="Ready")
    world.put_template(WORKLOAD_TEMPLATE)
    world.put_template(DAEMON_TEMPLATE, terminating=True)
    assert [type(effect) for effect in world.effects()] == [SetFinalizers]


def test_a_domain_that_states_no_allocation_mode_gets_a_single_channel() -> None:
    world = World()
    world.put_domain(finalizers=(FINALIZER,), mode="")
    made = [effect.mode for effect in world.effects() if effect.target == WORKLOAD_TEMPLATE]
    assert made == ["Single"]


def test_a_terminating_template_of_somebody_else_keeps_its_finalizers_even_one_that_is_named_like_ours() -> None:
    world = World()
    world.put_domain(finalizers=(FINALIZER,))
    world.put_template(WORKLOAD_TEMPLATE, owned=False, terminating=True, others=(FINALIZER,))
    assert WORKLOAD_TEMPLATE not in {effect.target for effect in world.effects()}


def test_a_daemon_template_name_that_is_taken_is_nobodys_concern_where_the_hosts_run_imex() -> None:
    world = World(Settings(DRIVER, host_managed=True))
    world.put_template(DAEMON_TEMPLATE, owned=False)
    world.put_domain()
    world.run_until_quiet()
    assert not world.posted
    assert world.objects[DOMAIN].conditions == ()

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.events import (
    AnyEvent,
    CdcGone,
    CdcSeen,
    ClaimTemplateGone,
    ClaimTemplateSeen,
    DaemonPodGone,
    DaemonPodSeen,
    DaemonSetGone,
    DaemonSetSeen,
    DomainGone,
    IndexAssigned,
    NodeGone,
    NodeSeen,
    RelistBegan,
    Row,
)
from projections.buckets import bucket_of, values
from projections.domain import DomainState, apply_domain
from projections.lifecycle import domain_effects
from projections.tombstones import LIMIT, bury, gone_at
from tests.projections.domain_world import CHILD, DRIVER, SETTINGS, UID, a_domain

CLIQUES = ("", "cluster.1", "cluster.2")


def folded(events: list[AnyEvent]) -> DomainState:
    state = DomainState()
    for event in events:
        state = apply_domain(state, event)
    return state


def encoded(state: DomainState) -> bytes:
    return msgspec.json.encode(state, order="deterministic")


def sighting(kind: str, number: int, version: int, variant: int) -> AnyEvent:
    """One of the objects of a kind, as seen at a version; `variant` decides about what may change in it."""
    clique, flag, name = CLIQUES[variant % 3], variant % 2 == 0, f"{kind}-{number}"
    match kind:
        case "domain":
            return a_domain(resource_version=version, terminating=flag, status="Ready" if flag else "")
        case "daemon-set":
            return DaemonSetSeen(UID, name, version, f"ns-{number}", CHILD, terminating=flag)
        case "template":
            return ClaimTemplateSeen(UID, "Daemon", name, version, f"ns-{number}", CHILD, owned=flag)
        case "cdc":
            rows = tuple(Row(f"n{i}", "ip", i, "Ready" if flag else "NotReady") for i in range(variant))
            return CdcSeen(UID, CLIQUES[1 + number % 2], f"ns-{number}", name, name, version, rows)
        case "node":
            return NodeSeen(name, name, version, clique, UID)
        case _:
            return DaemonPodSeen(UID, "n1", DRIVER, name, name, version, clique, ready=flag)


def deletion(kind: str, number: int, version: int) -> AnyEvent:
    name = f"{kind}-{number}"
    match kind:
        case "domain":
            return DomainGone(UID, version)
        case "daemon-set":
            return DaemonSetGone(UID, name, version)
        case "template":
            return ClaimTemplateGone(UID, "Daemon", name, version)
        case "cdc":
            return CdcGone(UID, CLIQUES[1 + number % 2], name, version)
        case "node":
            return NodeGone(name, name, version, "unlabelled")
        case _:
            return DaemonPodGone(UID, "n1", name, version)


KINDS = ("domain", "daemon-set", "template", "cdc", "node", "pod")


@st.composite
def histories(draw: st.DrawFn) -> list[list[AnyEvent]]:
    """Histories of distinct objects, each in the order of its versions; a step is a sighting or a deletion."""
    objects = draw(st.sets(st.tuples(st.sampled_from(KINDS), st.integers(0, 3)), min_size=1, max_size=6))
    objects = {(kind, 0 if kind == "domain" else number) for kind, number in objects}
    drawn = []
    for kind, number in sorted(objects):
        steps = draw(st.lists(st.integers(-1, 5), min_size=1, max_size=5))
        drawn.append(
            [
                deletion(kind, number, version) if step < 0 else sighting(kind, number, version, step)
                for version, step in enumerate(steps, start=1)
            ]
        )
    return drawn


@settings(deadline=None)
@given(histories(), st.data())
def test_neither_order_nor_duplicates_nor_stale_records_change_the_final_state(
    drawn: list[list[AnyEvent]], data: st.DataObject
) -> None:
    in_order = [event for history in drawn for event in history]
    again = data.draw(st.lists(st.sampled_from(in_order), max_size=10))
    shuffled = data.draw(st.permutations([*in_order, *again]))
    expected = folded(in_order)
    assert folded(shuffled) == expected
    assert encoded(folded(shuffled)) == encoded(expected)
    assert domain_effects(folded(shuffled), SETTINGS) == domain_effects(expected, SETTINGS)


@settings(deadline=None)
@given(histories(), st.data())
def test_a_fold_leaves_the_state_before_it_as_it_was(drawn: list[list[AnyEvent]], data: st.DataObject) -> None:
    state = DomainState()
    for event in data.draw(st.permutations([event for history in drawn for event in history])):
        before = encoded(state)
        after = apply_domain(state, event)
        assert encoded(state) == before
        state = after


@settings(deadline=None)
@given(histories(), st.data())
def test_the_row_counts_are_those_of_the_cdcs_and_a_snapshot_gives_the_state_back(
    drawn: list[list[AnyEvent]], data: st.DataObject
) -> None:
    state = folded(data.draw(st.permutations([event for history in drawn for event in history])))
    rows = [row for cdcs in values(state.cdcs) for cdc in cdcs for row in cdc.rows]
    assert (state.rows, state.unready_rows) == (len(rows), sum(row.status != "Ready" for row in rows))
    assert all(values(state.cdcs))
    assert msgspec.json.decode(encoded(state), type=DomainState) == state


def test_what_does_not_concern_a_domain_as_a_whole_changes_nothing() -> None:
    state = folded([a_domain()])
    assert apply_domain(state, RelistBegan("nodes", "start")) is state
    assert apply_domain(state, IndexAssigned(UID, "n1", 0, 18)) is state
    assert apply_domain(None, RelistBegan("nodes", "start")) == DomainState()


@pytest.mark.parametrize("kind", ["daemon-set", "template", "cdc", "node"])
def test_a_newer_uid_under_the_same_name_replaces_the_old_object_for_good(kind: str) -> None:
    old = sighting(kind, 1, 5, 1)
    new = msgspec.structs.replace(sighting(kind, 1, 9, 1), uid="new")
    late = sighting(kind, 1, 8, 2)
    for events in ([old, new, late], [new, old, late], [new, late, old]):
        assert uids_of_children(folded(events)) == ["new"], events
        old_is_gone = deletion(kind, 1, 20)
        assert uids_of_children(folded([*events, old_is_gone])) == ["new"], events


@pytest.mark.parametrize("kind", ["daemon-set", "template", "cdc", "node"])
def test_the_old_object_of_a_name_stays_gone_though_the_new_one_goes_as_well(kind: str) -> None:
    old = sighting(kind, 1, 5, 1)
    new = msgspec.structs.replace(sighting(kind, 1, 9, 1), uid="new")
    new_is_gone = msgspec.structs.replace(deletion(kind, 1, 20), uid="new")
    late = sighting(kind, 1, 7, 2)
    for events in ([old, new], [new, old]):
        assert uids_of_children(folded([*events, new_is_gone, late])) == [], events


@pytest.mark.parametrize("kind", KINDS)
def test_a_deletion_counts_against_a_sighting_of_the_same_version_whichever_comes_first(kind: str) -> None:
    seen, gone = sighting(kind, 1, 5, 1), deletion(kind, 1, 5)
    state = folded([seen, gone])
    assert state == folded([gone, seen])
    assert uids_of_children(state) == []
    assert state.domain is None
    assert not state.fabric_pods
    assert not state.bare_pods


def test_of_two_deletions_of_a_domain_the_later_counts() -> None:
    for events in ([DomainGone(UID, 10), DomainGone(UID, 20)], [DomainGone(UID, 20), DomainGone(UID, 10)]):
        assert folded([*events, a_domain(resource_version=15)]).domain is None
        assert folded([*events, a_domain(resource_version=21)]).domain is not None


def uids_of_children(state: DomainState) -> list[str]:
    cdcs = [cdc for cdcs in values(state.cdcs) for cdc in cdcs]
    return [seen.uid for seen in (*state.daemon_sets, *state.templates, *cdcs, *values(state.nodes))]


def test_a_new_domain_under_an_old_name_has_a_state_of_its_own() -> None:
    reborn = a_domain(uid="another-uid", resource_version=50)
    old = folded([a_domain(), DomainGone(UID, 40)])
    assert folded([reborn]) == apply_domain(None, reborn)
    assert old.domain is None
    assert domain_effects(old, SETTINGS) == ()


def test_tombstones_are_bounded_and_those_with_the_highest_versions_stay() -> None:
    uids = [uid for uid in (f"uid-{i}" for i in range(30_000)) if bucket_of(uid) == "07"][: LIMIT + 10]
    stones = {}
    for version, uid in enumerate(uids):
        stones = bury(stones, uid, version)
    assert len(stones["07"]) == LIMIT
    assert [gone_at(stones, uid) for uid in uids[:10]] == [-1] * 10
    assert gone_at(stones, uids[-1]) == len(uids) - 1


def test_state_and_effects_are_the_same_bytes_whatever_the_hash_seed() -> None:
    printed = {
        subprocess.run(
            [sys.executable, "-c", FOLD_A_WORLD],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(printed) == 1
    assert b"write-status" in printed.pop()


FOLD_A_WORLD = """
import msgspec
from eventlog.events import Row
from projections.lifecycle import domain_effects
from tests.projections.domain_world import World

world = World()
world.put_domain()
world.run_until_quiet()
for number in range(40):
    world.put_node(f"n{number}")
    world.put_pod(f"n{number}", "" if number % 2 else "cluster.1")
    world.put_cdc([Row(f"n{number}", "ip")], ["x", "y", "z"], f"cluster.{number}")
print(msgspec.json.encode(world.state, order="deterministic").decode())
print(msgspec.json.encode(domain_effects(world.state, world.settings)).decode())
"""

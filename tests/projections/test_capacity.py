"""Choosing an index takes steps in proportion to who is there, whatever capacity the log states."""

import pytest

from eventlog.events import AnyEvent, DaemonSetSeen, DomainSeen, IndexAssigned, IndexRefused, IndexReleased, NodeSeen
from projections.clique import CliqueState
from projections.fold import apply
from projections.index import objection, propose
from projections.settings import Settings

CLIQUE, DOMAIN = "fabric.1", "cd-uid"
SETTINGS = Settings(namespace="driver")
ABSURD = 10**18


def folded(*events: AnyEvent) -> CliqueState:
    state = CliqueState()
    for event in events:
        after = apply(state, CLIQUE, event)
        assert isinstance(after, CliqueState)
        state = after
    return state


def domain(capacity: int, *nodes: str) -> list[AnyEvent]:
    joined = [NodeSeen(node, f"uid-{node}", 10 + number, CLIQUE, DOMAIN) for number, node in enumerate(nodes)]
    daemons = DaemonSetSeen(DOMAIN, "ds", 2, "driver", "daemons", capacity)
    return [DomainSeen(DOMAIN, 1, "team", "cd", "template", "Single"), daemons, *joined]


def test_an_absurd_capacity_gives_the_lowest_indices() -> None:
    proposed = propose(folded(*domain(ABSURD, "a", "b", "c")), SETTINGS)
    assert [(one.node, one.index) for one in proposed if isinstance(one, IndexAssigned)] == [
        ("a", 0),
        ("b", 1),
        ("c", 2),
    ]


def test_a_refusal_with_an_absurd_capacity_is_judged_and_not_admissible() -> None:
    assert objection(folded(*domain(18, "a")), IndexRefused(DOMAIN, "a", ABSURD)) == "an index is free"


def test_a_refusal_is_admissible_only_if_the_indices_below_its_capacity_are_taken() -> None:
    assigned = IndexAssigned(DOMAIN, "a", 5, 18, "never used")
    state = folded(*domain(18, "a", "b"), assigned)
    assert objection(state, IndexRefused(DOMAIN, "b", 1)) == "an index is free"
    assert (
        objection(folded(*domain(18, "a", "b"), IndexAssigned(DOMAIN, "a", 0, 18, "")), IndexRefused(DOMAIN, "b", 1))
        == ""
    )


@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("b", "a")])
def test_where_each_index_was_used_the_longest_released_comes_first(first: str, second: str) -> None:
    held = {"a": 0, "b": 1}
    events: list[AnyEvent] = domain(2, "a", "b")
    events += [IndexAssigned(DOMAIN, node, index, 2, "never used") for node, index in held.items()]
    for version, node in enumerate((first, second), start=100):
        events += [NodeSeen(node, f"uid-{node}", version, CLIQUE, ""), IndexReleased(DOMAIN, node, held[node], "")]
    state = folded(*events, NodeSeen("c", "uid-c", 200, CLIQUE, DOMAIN))
    assert propose(state, SETTINGS) == [IndexAssigned(DOMAIN, "c", held[first], 2, "longest released")]

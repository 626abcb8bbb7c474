"""No event that decodes stops a fold, nor what is computed from it: one forged record must not end every controller."""

from hypothesis import given
from hypothesis import strategies as st

from controller.observing.seeding import observed
from eventlog import codec
from eventlog.events import AnyEvent
from eventlog.record import Record
from projections.clique import CliqueState
from projections.desired import clique_effects, desired_rows
from projections.domain import DomainState
from projections.index import propose
from projections.invariants import indices_are_unique
from projections.lifecycle import domain_effects
from projections.partition import PartitionFold, digest, restore
from projections.settings import Settings
from tests.eventlog.any_event import any_event

NAMES = st.sampled_from(["", "a", "b", "fabric.1", "True", "2026-11-29T00:00:00Z"]) | st.text(max_size=3)
KEYS = st.sampled_from(["fabric.1", "d", "", "watch/nodes", "controller/c", "watch/.", "x" * 99])


@given(st.lists(st.tuples(KEYS, any_event(NAMES)), max_size=12), st.booleans())
def test_any_events_under_any_keys_fold_and_have_consequences(
    events: list[tuple[str, AnyEvent]], host_managed: bool
) -> None:
    fold, settings = PartitionFold(), Settings("driver", host_managed=host_managed)
    for offset, (key, event) in enumerate(events):
        entry = codec.entry(key, event, timestamp_ms=offset, controller="c")
        fold.apply(Record("t", 0, offset, key, offset, entry.headers, entry.value))
        state = fold.aggregates[key]
        list(observed(key, state))
        if isinstance(state, CliqueState):
            propose(state, settings)
            list(clique_effects(state, key, settings))
            assert indices_are_unique(state) == []
            for domain in state.domains:
                desired_rows(state, domain)
        elif isinstance(state, DomainState):
            list(domain_effects(state, settings))
    restored = restore(fold.snapshot())
    assert restored is not None
    assert digest([restored]) == digest([fold])

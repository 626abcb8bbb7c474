"""Both engines, given equal records, fold equal states, decide alike and want the same written."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventlog import codec
from eventlog.kafka import KafkaPlace
from eventlog.record import Entry
from tests.controller.test_normaliser_in_any_order import Scenario
from tests.integration import side_by_side

pytestmark = pytest.mark.integration

STEPS = 250


def records(seed: int) -> list[Entry]:
    """Give what a normaliser made of a random cluster's life."""
    scenario = Scenario(seed)
    for _ in range(STEPS):
        scenario.step()
    return [
        codec.entry(key, event, timestamp_ms=number, controller="observer")
        for number, (key, event) in enumerate(scenario.observer.log)
    ]


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), cut=st.floats(0.0, 1.0))
def test_equal_records_give_equal_states_decisions_and_effects(
    new_place: Callable[[], KafkaPlace], tmp_path: Path, seed: int, cut: float
) -> None:
    entries = records(seed)
    at = int(len(entries) * cut)
    one = asyncio.run(side_by_side.embedded(tmp_path, entries[:at], entries[at:]))
    other = asyncio.run(side_by_side.faust(new_place(), entries[:at], entries[at:]))
    assert one == other

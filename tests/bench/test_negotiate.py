"""The negotiation that cliquelog is compared with behaves as the peer's did. On virtual time: nothing here is timed."""

from statistics import fmean

import msgspec
import pytest

from bench.formation import Outcome, Plan, Shape, form
from bench.negotiate import central_queue, negotiating
from simulation.capacity import Limits
from simulation.costs import Costs

SPREAD = Shape(5, 18, apart_s=0.0, join_s=11.0, address_s=(1.0, 3.0))
CLOSE = Shape(10, 18, apart_s=8.0, join_s=0.5, address_s=(1.0, 3.0))
CLOSEST = Shape(10, 18, apart_s=8.0, join_s=0.5, address_s=(1.0, 1.5))
CROWD = Shape(8, 18, apart_s=0.0, join_s=2.0, address_s=(1.0, 2.0))


def formed(shape: Shape, limits: Limits, seed: int = 1) -> Outcome:
    return form(negotiating, Plan(shape, limits, Costs(), seed, patience_s=3600.0))


@pytest.mark.parametrize(
    ("shape", "least", "most"),
    [(SPREAD, 0.04, 0.12), (CLOSE, 0.6, 0.6), (CLOSEST, 1.43, 1.43)],
    ids=["13 s", "2.5 s", "1 s"],
)
def test_conflicts_and_writes_per_node_are_the_peers_within_a_factor_of_two(
    shape: Shape, least: float, most: float
) -> None:
    outcomes = [formed(shape, Limits(cores=2), seed) for seed in (1, 2, 3)]
    assert [len(one.ready_s) for one in outcomes] == [shape.rows] * 3
    assert [one.accepted for one in outcomes] == pytest.approx([2 + 1 / 18] * 3)
    assert least / 2 <= fmean(one.per_node(409) for one in outcomes) <= most * 2
    assert [one.per_node(429) for one in outcomes] == [0.0] * 3


def test_on_a_server_short_of_capacity_conflicts_and_throttles_rise_together_and_times_explode() -> None:
    calm, starved = (formed(CROWD, Limits(seats=40, queue=40, cores=cores)) for cores in (16, 2))
    assert len(calm.ready_s) == len(starved.ready_s) == CROWD.rows
    assert calm.per_node(429) == 0 < starved.per_node(429)
    assert starved.per_node(409) > 5 * calm.per_node(409)
    assert starved.row_s[-1] > 5 * calm.row_s[-1]
    assert starved.accepted == calm.accepted


def test_equal_seeds_give_equal_formations_and_others_give_others() -> None:
    once, again, other = (formed(CROWD, Limits(cores=4), seed) for seed in (7, 7, 8))
    assert msgspec.json.encode(once) == msgspec.json.encode(again)
    assert once.row_s != other.row_s


def test_the_central_queue_writes_twice_for_each_node_without_a_conflict_and_lags_behind_at_its_clients_rate() -> None:
    shape = Shape(4, 16, apart_s=0.0, join_s=2.0, address_s=(1.0, 2.0))
    outcome = form(central_queue, Plan(shape, Limits(), Costs(), 1, patience_s=3600.0))
    assert len(outcome.ready_s) == shape.rows
    assert (outcome.accepted, outcome.per_node(409)) == (2.0, 0.0)
    # All IPs are there within 4 s; the rows take what 5 requests a second leave them.
    assert outcome.row_s[-1] > 5


def test_a_formation_that_does_not_end_is_given_up_with_what_there_is() -> None:
    outcome = form(negotiating, Plan(SPREAD, Limits(), Costs(), 1, patience_s=6.0))
    assert 0 < len(outcome.row_s) < SPREAD.rows

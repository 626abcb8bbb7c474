"""Formations that are measured, on virtual time and in real time, at tiny sizes. How fast they are is no matter."""

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from msgspec.structs import replace

from bench import pace, scale, strategies
from bench.chart import Series, draw
from bench.real import SimulationFailed, simulate
from bench.virtual import Formed, form_virtually
from controller.simulating.sides import STRATEGIES
from controller.writing.pacing import Pace
from simulation.capacity import Limits
from simulation.formation import Plan
from simulation.timing import Timing

PLAN = Plan(nodes=54, clique_size=18, seed=1, window_s=2.0, wave=54)


def formed(strategy: str = "cliquelog", settings: Pace | None = None, cores: int = 8) -> Formed:
    return form_virtually(PLAN, strategy, Limits(cores=cores), settings or Pace(), Timing())


def test_the_whole_controller_forms_a_domain_on_virtual_time_and_equal_seeds_give_equal_figures() -> None:
    once, again = formed(), formed()
    assert msgspec.json.encode(once) == msgspec.json.encode(again)
    assert (once.rows_ready, once.cliques, once.refused, once.throttled) == (54, 3, {409: 0, 429: 0}, 0)
    assert 0 < once.last_row.p50 < once.row.p50 <= once.row.p99
    assert once.single.p50 > 0, "single changes were made afterwards"


def test_a_longer_wait_saves_writes_and_costs_time() -> None:
    shortest, longest = (formed(settings=pace.curve()[name]) for name in ("0.1", "4"))
    assert longest.written < shortest.written / 1.5
    assert longest.row.p99 > 4 * shortest.row.p99


def test_every_pace_of_the_curve_keeps_a_burst_going_for_longer_than_its_longest_wait() -> None:
    for tried in pace.curve().values():
        assert tried.first_wait_s <= tried.max_wait_s < tried.quiet_s


@pytest.mark.parametrize("variants", [pace.variants(), pace.guards()])
def test_each_variant_changes_the_default_and_no_two_are_the_same(variants: dict[str, Pace]) -> None:
    assert variants.pop("defaults") == Pace()
    assert len({msgspec.json.encode(one) for one in [Pace(), *variants.values()]}) == len(variants) + 1


def test_the_curve_is_a_table_and_a_chart() -> None:
    tried = [pace.Tried(name, [formed(), formed()]) for name in ("a", "b & c")]
    table = pace.tabulate("", "", pace.USUAL, tried)
    assert [len(row) for row in table.rows] == [len(table.columns)] * 2
    drawn = ElementTree.fromstring(pace.chart(tried))  # noqa: S314 - our own
    texts = ["".join(one.itertext()) for one in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"b & c", "CDC writes per clique", "nodes come within 1 s"} <= set(texts)


def test_a_chart_places_its_points_between_its_axes() -> None:
    drawn = ElementTree.fromstring(draw("x", "y", [Series("s", [(0.0, 0.0, "first"), (7.0, 0.3, "last")])]))  # noqa: S314
    places = [(float(one.attrib["cx"]), float(one.attrib["cy"])) for one in drawn.iter() if "cx" in one.attrib]
    (left, bottom), (right, top) = places
    assert left < right
    assert top < bottom


def test_the_three_strategies_serve_the_same_nodes_on_the_same_server() -> None:
    by_name = {name: formed(name) for name in STRATEGIES}
    assert {one.rows_ready for one in by_name.values()} == {54}
    assert by_name["negotiate"].written == 3 + 2 * 54, "each clique's creation, and two writes for each daemon"
    assert by_name["central-queue"].written == 2 * 54
    assert by_name["cliquelog"].requests_per_clique < by_name["negotiate"].requests_per_clique / 5


def test_a_server_short_of_capacity_makes_daemons_that_negotiate_collide_more() -> None:
    ample, short = (formed("negotiate", cores=cores) for cores in (16, 1))
    assert short.refused[409] > 2 * ample.refused[409]
    assert short.requests_per_clique > ample.requests_per_clique
    assert short.written == ample.written


def test_strategies_are_measured_on_ample_and_on_short_servers_of_each_size() -> None:
    assert [(case.title, case.cores, case.ample) for case in strategies.cases(5_040)] == [
        ("1,008 in 11 s", 16, True),
        ("5,040 in 11 s", 80, True),
        ("1,008 in 1 s", 256, True),
        ("1,008 in 1 s, IPs too", 256, True),
        ("1,008 in 11 s", 2, False),
        ("5,040 in 11 s", 10, False),
    ]
    assert {case.nodes for case in strategies.cases(90)} == {90}


def test_a_growth_exponent_is_that_of_the_power_law() -> None:
    nodes = [1_000, 5_000, 50_000]
    assert scale.exponent(nodes, [7.0 * one**1.5 for one in nodes]) == pytest.approx(1.5)
    assert scale.exponent(nodes, [one / 3 for one in nodes]) == pytest.approx(1.0)


def test_nodes_join_in_waves_of_which_each_is_in_random_order() -> None:
    plan = replace(PLAN, nodes=40, wave=18)
    names = list(plan.machines())
    order = plan.arrivals()
    for wave in (slice(0, 18), slice(18, 36), slice(36, 40)):
        assert sorted(order[wave]) == names[wave]
    assert order != names
    assert sorted(replace(plan, wave=40).arrivals()[:18]) != names[:18]


def test_a_run_in_real_time_that_cannot_be_says_why(tmp_path: Path) -> None:
    with pytest.raises(SimulationFailed, match="19"):
        simulate(replace(PLAN, clique_size=19), tmp_path)

"""The bounds on writes while a clique fills, over many seeded arrival patterns, in virtual seconds."""

import heapq
import itertools
import random
import statistics
from collections import Counter

import msgspec
import pytest

from controller.writing.pacing import History, Pace, earliest, wanted, written
from eventlog.events import Row
from projections.effects import SetFinalizers, Target, WriteCdc, WriteStatus

PACE = Pace()
TARGET = Target("computedomaincliques", "driver", "cd.clique.1")
LATENCY_S = 0.03


def cdc(*, complete: bool = False, early: bool = False, expected: int = 0) -> WriteCdc:
    """`expected` rows have no address yet, besides one that has."""
    rows = (Row("n", "10.0.0.1", 0), *(Row(f"n{number}", "", number) for number in range(1, expected + 1)))
    return WriteCdc(TARGET, "cd", 1, "clique.1", "uid", rows, complete=complete, early=early)


class Formation(msgspec.Struct):
    """What a simulated filling of one clique came to."""

    writes: int
    slowest_row_s: float
    last_row_s: float


class Nodes(msgspec.Struct, frozen=True):
    """How 18 nodes come: within how many seconds, and from joining to address, from the row that shows it to Ready."""

    within_s: float
    address_s: tuple[float, float]
    ready_s: tuple[float, float]


PEERS = Nodes(11.0, (1.1, 3.6), (0.5, 1.5))
"""As the peer was measured with, for the address and the mean of the readiness."""


def form(nodes: Nodes, seed: int) -> Formation:
    """Drive the policy as the coalescer does: one write out at a time, the oldest unwritten change decides.

    What only joins is early, and does not age; the last address and the last Ready row make the clique complete.
    """
    rng = random.Random(seed)
    history, since, free_at, now = History(), None, 0.0, 0.0
    counts, unwritten = Counter[str](), dict[tuple[str, int], float]()
    pending = [(rng.uniform(0.0, nodes.within_s), "joins", node) for node in range(18)]
    heapq.heapify(pending)
    writes, delays = 0, dict[tuple[str, int], float]()
    while pending or since is not None:
        news = {what for what, _ in unwritten}
        whole = counts["ready"] == counts["joins"] or (counts["address"] == counts["joins"] and "address" in news)
        effect = cdc(complete=whole, early=news == {"joins"}, expected=counts["joins"] - counts["address"])
        history = wanted(history, effect, now)
        due = None if since is None else max(earliest(PACE, history, effect, since), free_at, now)
        if pending and (due is None or pending[0][0] <= due):
            now, what, node = heapq.heappop(pending)
            if since is None or (effect.early and what != "joins"):
                since = now
            counts[what] += 1
            unwritten[what, node] = now
            if what == "joins":
                heapq.heappush(pending, (now + rng.uniform(*nodes.address_s), "address", node))
            continue
        assert due is not None
        assert since is not None
        now, writes = due, writes + 1
        history = written(PACE, history, effect, since, now, rng.random())
        for (what, node), at in unwritten.items():
            delays[what, node] = now - at
            if what == "address":
                heapq.heappush(pending, (now + rng.uniform(*nodes.ready_s), "ready", node))
        since, free_at, unwritten = None, now + LATENCY_S, {}
    shown = {what: [delay for (kind, _), delay in delays.items() if kind == what] for what in ("address", "ready")}
    return Formation(writes, max(*shown["address"], *shown["ready"]), shown["ready"][-1])


def test_a_clique_whose_nodes_arrive_within_a_second_takes_about_four_writes() -> None:
    formations = [form(msgspec.structs.replace(PEERS, within_s=1.0), seed) for seed in range(1000)]
    assert statistics.mean(one.writes for one in formations) <= 4.05
    assert max(one.writes for one in formations) <= 5


def test_a_clique_whose_nodes_arrive_over_eleven_seconds_takes_at_most_eight_writes_in_the_mean() -> None:
    formations = [form(PEERS, seed) for seed in range(1000)]
    assert statistics.mean(one.writes for one in formations) <= 8


def test_a_clique_that_is_whole_after_almost_every_arrival_takes_hardly_more() -> None:
    formations = [form(Nodes(11.0, (0.3, 1.0), (0.5, 1.5)), seed) for seed in range(1000)]
    assert statistics.mean(one.writes for one in formations) <= 9


@pytest.mark.parametrize("within_s", [1.0, 11.0, 60.0])
def test_no_row_lags_by_more_than_the_longest_wait_and_the_last_one_hardly(within_s: float) -> None:
    formations = [form(msgspec.structs.replace(PEERS, within_s=within_s), seed) for seed in range(300)]
    assert max(one.slowest_row_s for one in formations) <= PACE.max_wait_s + 1e-9
    assert max(one.last_row_s for one in formations) <= 0.25


def test_a_change_of_a_quiet_object_is_written_at_once() -> None:
    assert earliest(PACE, History(), cdc(), 100.0) <= 100.0 + 0.011
    assert earliest(PACE, History(written=97.0, burst=5), cdc(), 100.0) <= 100.0 + 0.011


def test_the_wait_grows_with_each_write_of_a_burst_up_to_its_bound() -> None:
    waits = [earliest(PACE, History(written=99.9, burst=burst), cdc(), 100.0) - 100.0 for burst in (1, 2, 3, 1000)]
    assert waits == pytest.approx([PACE.first_wait_s, PACE.max_wait_s, PACE.max_wait_s, PACE.max_wait_s])


def test_a_wait_is_shortened_at_random_by_the_spread_at_most() -> None:
    history = written(PACE, History(), cdc(), 50.0, 99.9, 1.0)
    assert earliest(PACE, history, cdc(), 100.0) == 100.0 + PACE.first_wait_s * (1 - PACE.spread)


def test_rows_whose_daemons_do_not_run_yet_wait_for_more_of_them() -> None:
    assert earliest(PACE, History(), cdc(early=True), 100.0) == 100.0 + PACE.early_gather_s


def test_a_clique_that_becomes_complete_again_and_again_is_not_written_for_every_arrival() -> None:
    history, times = History(), []
    for arrival in range(100):
        since = arrival * 0.01
        if times and since < times[-1]:
            continue  # This arrival goes with the write that is due already.
        now = earliest(PACE, history, cdc(complete=True), since)
        history = written(PACE, history, cdc(complete=True), since, now, 0.0)
        times.append(now)
    assert len(times) <= 6
    assert all(later - earlier >= PACE.complete_gap_s - 1e-9 for earlier, later in itertools.pairwise(times))


def test_a_complete_clique_does_not_wait_for_the_pace_of_partial_writes() -> None:
    history = History(written=99.99, burst=7, completed=90.0)
    assert earliest(PACE, history, cdc(complete=True), 100.0) <= 100.0 + 0.011


def test_a_clique_that_a_node_has_just_joined_is_not_taken_for_complete() -> None:
    history = History(written=99.9, burst=7)
    for joined, expected in ((99.0, 3), (99.5, 4), (99.8, 2)):
        history = wanted(history, cdc(expected=expected), joined)
    due = earliest(PACE, history, cdc(complete=True), 99.9)
    assert due == pytest.approx(99.5 + PACE.settle_s), "the last one that joined counts, not the last that was served"


def test_the_first_status_goes_at_once_and_the_next_keeps_its_distance() -> None:
    status = WriteStatus(Target("computedomains", "team", "cd"), "cd", 1, "cd", "NotReady")
    assert earliest(PACE, History(), status, 100.0) == 100.0
    history = written(PACE, History(), status, 100.0, 100.0, 0.0)
    assert earliest(PACE, history, status, 100.5) == 100.0 + PACE.status_gap_s


def test_a_finalizer_does_not_wait_for_the_status_of_the_same_object() -> None:
    finalizers = SetFinalizers(Target("computedomains", "team", "cd"), "cd", 1, "cd", ())
    assert earliest(PACE, History(status=100.0), finalizers, 100.5) == 100.5

"""The bounds on writes while a clique fills, over many seeded arrival patterns, in virtual seconds."""

import itertools
import random
import statistics

import msgspec
import pytest

from controller.pacing import History, Pace, earliest, written
from eventlog.events import Row
from projections.effects import SetFinalizers, Target, WriteCdc, WriteStatus

PACE = Pace()
TARGET = Target("computedomaincliques", "driver", "cd.clique.1")
LATENCY_S = 0.03


def cdc(*, complete: bool = False) -> WriteCdc:
    return WriteCdc(TARGET, "cd", 1, "clique.1", "uid", (Row("n", "10.0.0.1", 0),), complete=complete)


class Formation(msgspec.Struct):
    """What a simulated filling of one clique came to."""

    writes: int
    slowest_row_s: float
    last_row_s: float


def changes(seed: int, span_s: float, ready_s: tuple[float, float]) -> list[tuple[float, str]]:
    """18 nodes: each joins, gets its pod's address, gets ready. Each of the three changes the clique's rows."""
    rng = random.Random(seed)
    result = []
    for _ in range(18):
        joins = rng.uniform(0.0, span_s)
        ready = joins + rng.uniform(*ready_s)
        result += [(joins, "joins"), (min(joins + rng.uniform(0.3, 1.0), ready), "address"), (ready, "ready")]
    return sorted(result)


def form(pattern: list[tuple[float, str]]) -> Formation:
    """Drive the policy as the coalescer does: one write out at a time, the oldest unwritten change decides."""
    history, since, free_at = History(), None, 0.0
    expected = ready = writes = 0
    slowest = last = 0.0
    pending = list(reversed(pattern))
    while pending or since is not None:
        effect = cdc(complete=0 < expected == ready)
        due = None if since is None else max(earliest(PACE, history, effect, since), free_at)
        if pending and (due is None or pending[-1][0] <= due):
            now, what = pending.pop()
            expected += what == "joins"
            ready += what == "ready"
            since = now if since is None else since
            continue
        assert due is not None
        assert since is not None
        now = max(due, pattern[len(pattern) - len(pending) - 1][0])
        history = written(PACE, history, effect, since, now)
        slowest, last, since, free_at, writes = max(slowest, now - since), now, None, now + LATENCY_S, writes + 1
    return Formation(writes, slowest, last - pattern[-1][0])


def test_a_clique_whose_nodes_arrive_within_a_second_takes_at_most_four_writes() -> None:
    formations = [form(changes(seed, 1.0, (1.0, 2.0))) for seed in range(1000)]
    assert max(one.writes for one in formations) <= 4
    assert min(one.writes for one in formations) >= 2


def test_a_clique_whose_nodes_arrive_over_eleven_seconds_takes_at_most_eight_writes_in_the_mean() -> None:
    formations = [form(changes(seed, 11.0, (2.0, 4.0))) for seed in range(1000)]
    assert statistics.mean(one.writes for one in formations) <= 8


@pytest.mark.parametrize(("span_s", "ready_s"), [(1.0, (1.0, 2.0)), (11.0, (2.0, 4.0)), (60.0, (0.1, 30.0))])
def test_no_row_lags_by_more_than_the_longest_wait_and_the_last_one_hardly(
    span_s: float, ready_s: tuple[float, float]
) -> None:
    formations = [form(changes(seed, span_s, ready_s)) for seed in range(300)]
    assert max(one.slowest_row_s for one in formations) <= PACE.max_wait_s + 1e-9
    assert max(one.last_row_s for one in formations) <= 0.25


def test_a_change_of_a_quiet_object_is_written_at_once() -> None:
    assert earliest(PACE, History(), cdc(), 100.0) <= 100.0 + 0.011
    assert earliest(PACE, History(written=97.0, burst=5), cdc(), 100.0) <= 100.0 + 0.011


def test_the_wait_grows_with_each_write_of_a_burst_up_to_its_bound() -> None:
    waits = [earliest(PACE, History(written=99.9, burst=burst), cdc(), 100.0) - 100.0 for burst in (1, 2, 3, 1000)]
    assert waits == [PACE.first_wait_s, PACE.max_wait_s, PACE.max_wait_s, PACE.max_wait_s]


def test_a_clique_that_becomes_complete_again_and_again_is_not_written_for_every_arrival() -> None:
    history, times = History(), []
    for arrival in range(100):
        since = arrival * 0.01
        if times and since < times[-1]:
            continue  # This arrival goes with the write that is due already.
        now = earliest(PACE, history, cdc(complete=True), since)
        history = written(PACE, history, cdc(complete=True), since, now)
        times.append(now)
    assert len(times) <= 6
    assert all(later - earlier >= PACE.complete_gap_s - 1e-9 for earlier, later in itertools.pairwise(times))


def test_a_complete_clique_does_not_wait_for_the_pace_of_partial_writes() -> None:
    history = History(written=99.99, burst=7, completed=90.0)
    assert earliest(PACE, history, cdc(complete=True), 100.0) <= 100.0 + 0.011


def test_the_first_status_goes_at_once_and_the_next_keeps_its_distance() -> None:
    status = WriteStatus(Target("computedomains", "team", "cd"), "cd", 1, "cd", "NotReady")
    assert earliest(PACE, History(), status, 100.0) == 100.0
    history = written(PACE, History(), status, 100.0, 100.0)
    assert earliest(PACE, history, status, 100.5) == 100.0 + PACE.status_gap_s


def test_a_finalizer_does_not_wait_for_the_status_of_the_same_object() -> None:
    finalizers = SetFinalizers(Target("computedomains", "team", "cd"), "cd", 1, "cd", ())
    assert earliest(PACE, History(status=100.0), finalizers, 100.5) == 100.5

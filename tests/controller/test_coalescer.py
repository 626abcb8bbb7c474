"""The coalescer alone: what it asks for, when, and what it makes of outcomes. Virtual time, no I/O."""

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.writing.coalescer import Coalescer, Depth, Limits
from controller.writing.pacing import Pace
from controller.writing.work import Applied, Conflict, Failed, Gone, Refresh, Refreshed, Refused, Throttled, Work, Write
from eventlog.events import Row
from projections.effects import AnyEffect, DeleteObject, PostEvent, SetFinalizers, Target, WriteCdc

LIMITS = Limits()


def target(name: str = "cd.clique.1") -> Target:
    return Target("computedomaincliques", "driver", name)


def cdc(version: int, *ips: str, name: str = "cd.clique.1", complete: bool = False) -> WriteCdc:
    rows = tuple(Row(f"node-{index}", ip, index) for index, ip in enumerate(ips))
    return WriteCdc(target(name), "cd", version, "clique.1", "uid" if version else "", rows, complete=complete)


def event(name: str) -> PostEvent:
    return PostEvent(Target("events", "team", name), "cd", 0, "cd", "CliqueFull", "full")


class Bench:
    """A coalescer and its virtual time."""

    def __init__(self, limits: Limits = LIMITS, seed: int = 0) -> None:
        self.now = 1000.0
        self.coalescer = Coalescer(Pace(), limits, random.Random(seed))

    def want(self, *effects: AnyEffect, owner: str = "clique.1", position: str = "0/1") -> None:
        self.coalescer.replace(self.now, owner, {one.target: one for one in effects}, position)

    def work(self, until: float) -> Work | None:
        """Give the next work, letting time pass up to `until`."""
        while True:
            work, ask_at = self.coalescer.next(self.now)
            if work is not None or ask_at is None or ask_at > until:
                return work
            assert ask_at > self.now or ask_at == self.now, "a wake-up lies in the past"
            self.now = max(self.now, ask_at)

    def write(self, within: float = 10.0) -> Write:
        work = self.work(self.now + within)
        assert isinstance(work, Write), work
        return work

    def idle(self, seconds: float) -> bool:
        """Say whether nothing is asked for that long; time passes."""
        end = self.now + seconds
        work = self.work(end)
        self.now = end
        return work is None

    def done(self, outcome: object, name: str = "cd.clique.1") -> None:
        self.coalescer.done(self.now, target(name), outcome)  # type: ignore[arg-type]


def test_a_thousand_wishes_during_one_write_lead_to_exactly_one_more_write() -> None:
    bench = Bench()
    bench.want(cdc(1, "10.0.0.0"))
    first = bench.write()
    for number in range(1000):
        bench.want(cdc(1, f"10.0.{number // 256}.{number % 256}"), position=f"0/{number}")
        assert bench.work(bench.now) is None, "a second write is out"
    bench.done(Applied(2))
    newest = cdc(2, "10.0.3.231")
    bench.want(newest, position="0/1001")
    assert bench.write() == Write(newest, "0/1001")
    bench.done(Applied(3))
    bench.want()
    assert bench.idle(60.0)
    assert first.effect == cdc(1, "10.0.0.0")


def test_an_effect_from_before_our_own_write_is_not_sent() -> None:
    bench = Bench()
    bench.want(cdc(1, "10.0.0.1"))
    bench.write()
    bench.done(Applied(5))
    bench.want(cdc(4, "10.0.0.1", "10.0.0.2"))
    assert bench.idle(4.9)
    bench.want(cdc(5, "10.0.0.1", "10.0.0.2"))
    assert bench.write().effect.resource_version == 5


def test_a_watch_event_that_overtakes_the_answer_does_not_hold_the_slot() -> None:
    bench = Bench()
    bench.want(cdc(1, "10.0.0.1"))
    bench.write()
    bench.want(cdc(5, "10.0.0.1", "10.0.0.2"))
    bench.done(Applied(5))
    assert bench.write().effect.resource_version == 5


def test_a_write_that_is_not_seen_again_is_looked_up_after_a_while() -> None:
    bench = Bench()
    bench.want(cdc(1, "10.0.0.1"))
    bench.write()
    bench.done(Applied(5))
    assert bench.idle(LIMITS.hold_s - 0.1)
    assert bench.work(bench.now + 0.2) == Refresh(target(), "clique.1")
    bench.done(Refreshed(5))
    assert bench.idle(LIMITS.hold_s - 0.1), "the fold has not seen version 5 yet"
    bench.want()
    assert bench.idle(60.0)


def test_a_write_that_the_server_takes_for_no_change_is_not_sent_again() -> None:
    bench = Bench()
    bench.want(cdc(5, "10.0.0.1"))
    bench.write()
    bench.done(Applied(5))
    for _ in range(60):
        bench.want(cdc(5, "10.0.0.1"))
        assert bench.idle(1.0)
    bench.want()
    bench.want(cdc(5, "10.0.0.1"))
    assert bench.idle(60.0), "it was taken for no change, whether or not it was wanted all the time"


@pytest.mark.parametrize("other", [cdc(5, "10.0.0.1", "10.0.0.2"), cdc(6, "10.0.0.1")])
def test_after_a_write_that_changed_nothing_other_content_or_a_newer_version_is_sent(other: WriteCdc) -> None:
    bench = Bench()
    bench.want(cdc(5, "10.0.0.1"))
    bench.write()
    bench.done(Applied(5))
    assert bench.idle(30.0)
    bench.want(other)
    assert bench.write().effect == other
    bench.done(Applied(7))
    bench.want(cdc(7, "10.0.0.1"))
    assert bench.write().effect == cdc(7, "10.0.0.1")


def test_what_is_wanted_while_a_write_that_changes_nothing_is_out_is_sent() -> None:
    bench = Bench()
    bench.want(cdc(5, "10.0.0.1"))
    bench.write()
    bench.want(cdc(5, "10.0.0.2"))
    bench.done(Applied(5))
    assert bench.write().effect == cdc(5, "10.0.0.2")


def test_a_deletion_that_is_answered_with_the_object_as_it_was_is_tried_until_the_object_is_seen_to_be_gone() -> None:
    bench = Bench()
    delete = DeleteObject(target(), "cd", 5, "uid")
    bench.want(delete)
    bench.write()
    bench.done(Applied(5))
    assert bench.write().effect == delete


def test_a_wish_that_comes_and_goes_does_not_make_us_forget_that_our_write_is_unseen() -> None:
    bench = Bench()
    bench.want(cdc(2, "10.0.0.1"))
    bench.write()
    bench.done(Applied(3))
    bench.want()  # the fold, still at version 2, wants again what it sees there
    bench.want(cdc(2, "10.0.0.2"))
    assert bench.idle(4.9)
    bench.want(cdc(3, "10.0.0.2"))
    bench.write()


def test_a_wish_that_goes_while_the_write_is_out_leaves_the_hold_as_well() -> None:
    bench = Bench()
    bench.want(cdc(2, "10.0.0.1"))
    bench.write()
    bench.want()
    bench.done(Applied(3))
    bench.want(cdc(2, "10.0.0.2"))
    assert bench.idle(4.9)
    bench.want(cdc(3, "10.0.0.2"))
    bench.write()


def test_after_a_success_the_back_off_starts_anew() -> None:
    bench = Bench()
    for version in range(1, 40):
        bench.want(cdc(version, f"10.0.0.{version}"))
        bench.write()
        bench.done(Throttled(0.0))
        began = bench.now
        bench.write()
        assert bench.now - began <= LIMITS.backoff_s + Pace().max_wait_s
        bench.done(Applied(version + 1))


def test_nothing_is_read_for_a_write_whose_wish_came_true() -> None:
    bench = Bench()
    bench.want(cdc(1, "10.0.0.1"))
    bench.write()
    bench.done(Applied(5))
    bench.want()
    assert bench.idle(60.0)
    assert bench.coalescer.depth() == Depth(0, 0, 0)


def test_an_object_deleted_after_our_write_is_created_again_at_once() -> None:
    bench = Bench()
    bench.want(cdc(1, "10.0.0.1"))
    bench.write()
    bench.done(Applied(5))
    bench.want(cdc(0, "10.0.0.1"))
    assert bench.write(within=2.1).effect == cdc(0, "10.0.0.1")


def test_a_conflict_leads_to_a_live_read_and_the_next_write_waits_for_the_fold_to_see_it() -> None:
    bench = Bench()
    bench.want(cdc(1, "10.0.0.1"))
    versions = iter(range(10, 100))
    for _ in range(2):
        bench.write()
        bench.done(Conflict())
        assert isinstance(bench.work(bench.now + 1.0), Refresh)
        live = next(versions)
        bench.done(Refreshed(live))
        assert bench.work(bench.now + 1.0) is None, "the stale effect would be sent again"
        bench.want(cdc(live, "10.0.0.1", "10.0.0.9"))
    assert bench.write().effect == cdc(11, "10.0.0.1", "10.0.0.9")


def test_conflicts_without_end_are_retried_ever_more_rarely() -> None:
    bench = Bench()
    bench.want(cdc(1, "10.0.0.1"))
    writes = 0
    end = bench.now + 120.0
    while (work := bench.work(end)) is not None:
        writes += isinstance(work, Write)
        bench.done(Conflict() if isinstance(work, Write) else Refreshed(1))
    assert 10 <= writes <= 60


def test_a_time_out_leads_to_a_live_read_before_the_next_write() -> None:
    bench = Bench()
    bench.want(cdc(1, "10.0.0.1"))
    bench.write()
    bench.done(Failed("timed out", None))
    bench.want(cdc(1, "10.0.0.1", "10.0.0.2"))
    assert bench.work(bench.now + 1.0) == Refresh(target(), "clique.1")
    bench.done(Refreshed(1))
    assert bench.write().effect == cdc(1, "10.0.0.1", "10.0.0.2")


def test_an_object_that_is_not_there_is_left_to_the_watch_and_looked_up_if_that_stays_silent() -> None:
    bench = Bench()
    bench.want(cdc(7, "10.0.0.1"))
    bench.write()
    bench.done(Gone())
    bench.want(cdc(7, "10.0.0.2"))
    assert bench.idle(LIMITS.hold_s - 0.1)
    assert bench.work(bench.now + 0.2) == Refresh(target(), "clique.1")
    bench.done(Refreshed(0))
    bench.want(cdc(0, "10.0.0.2"))
    assert bench.write().effect == cdc(0, "10.0.0.2")


def test_144_throttled_objects_come_back_spread_out_and_none_beyond_the_cap() -> None:
    bench = Bench(Limits(writes_per_s=1000.0, burst=1000))
    names = [f"cd.clique.{number}" for number in range(144)]
    bench.want(*(cdc(1, "10.0.0.1", name=name) for name in names))
    rounds = 8
    for _ in range(rounds):
        for _ in names:
            bench.write(within=LIMITS.backoff_cap_s + 1.0)
        for name in names:
            bench.done(Throttled(0.0), name)
    began = bench.now
    times = []
    for _ in names:
        bench.write(within=LIMITS.backoff_cap_s)
        times.append(bench.now - began)
    assert max(times) <= LIMITS.backoff_cap_s
    tenths = [sum(tenth <= time / LIMITS.backoff_cap_s * 10 < tenth + 1 for time in times) for tenth in range(10)]
    assert min(tenths) >= 3, tenths
    assert max(tenths) <= 40, tenths


def test_retry_after_pauses_every_object_and_ends_without_a_burst() -> None:
    bench = Bench(Limits(writes_per_s=100.0, burst=50))
    names = [f"cd.clique.{number}" for number in range(51)]
    bench.want(cdc(1, "10.0.0.1", name=names[0]))
    bench.write()
    bench.done(Throttled(30.0), names[0])
    bench.want(*(cdc(1, "10.0.0.1", name=name) for name in names[1:]), owner="other")
    assert bench.idle(29.9)
    began = bench.now
    times = []
    for _ in names:
        bench.write()
        times.append(bench.now - began)
    assert times[0] >= 0.1
    assert sum(time <= 0.2 for time in times) <= 11, "a burst follows the pause"


def test_a_newer_wish_replaces_what_is_sent_after_a_pause_and_does_not_shorten_it() -> None:
    bench = Bench()
    bench.want(cdc(1, "10.0.0.1"))
    bench.write()
    bench.done(Throttled(20.0))
    bench.want(cdc(1, "10.0.0.2"))
    assert bench.idle(19.9)
    assert bench.write().effect == cdc(1, "10.0.0.2")


def test_a_server_that_throttles_without_a_time_is_given_a_second() -> None:
    bench = Bench()
    bench.want(cdc(1, "10.0.0.1"))
    bench.write()
    bench.done(Throttled(None))
    assert bench.idle(LIMITS.retry_after_s - 0.01)
    bench.write(within=LIMITS.backoff_s + 0.1)


def test_a_pause_of_years_is_not_taken_at_its_word() -> None:
    bench = Bench()
    bench.want(cdc(1, "10.0.0.1"))
    bench.write()
    bench.done(Throttled(1e9))
    bench.write(within=LIMITS.retry_after_cap_s + LIMITS.backoff_s + 0.1)


def test_a_refused_write_is_tried_again_rarely() -> None:
    bench = Bench()
    bench.want(cdc(1, "10.0.0.1"))
    bench.write()
    bench.done(Refused("no permission"))
    assert bench.idle(LIMITS.refused_s - 0.1)
    bench.write(within=LIMITS.refused_s)


def test_complete_cliques_go_first_and_then_what_was_wanted_longest() -> None:
    bench = Bench(Limits(writes_per_s=1.0, burst=1))
    bench.want(cdc(1, "10.0.0.1", name="spender"), owner="spender")
    bench.write()
    for name, complete in (("old", False), ("young", False), ("full", True)):
        bench.want(cdc(1, "10.0.0.1", name=name, complete=complete), owner=name)
        bench.now += 0.1
    assert [bench.write().target.name for _ in range(3)] == ["full", "old", "young"]


def test_all_writes_together_stay_below_the_ceiling() -> None:
    bench = Bench(Limits(writes_per_s=100.0, burst=20))
    bench.want(*(cdc(1, "10.0.0.1", name=f"cd.clique.{number}") for number in range(500)))
    began, times = bench.now, []
    for _ in range(500):
        bench.write()
        times.append(bench.now - began)
    assert all(sum(start <= time <= start + 1.0 for time in times) <= 121 for start in (0.0, 1.0, 2.0, 3.0))
    assert times[-1] <= 5.0


def test_what_is_no_longer_wanted_is_not_written() -> None:
    bench = Bench()
    bench.want(cdc(1, "10.0.0.1"), cdc(1, "10.0.0.1", name="other"))
    bench.want(cdc(1, "10.0.0.1", name="other"))
    assert bench.write().target.name == "other"
    assert bench.idle(60.0)


def test_an_aggregate_does_not_drop_what_another_one_wants() -> None:
    bench = Bench()
    bench.want(cdc(1, "10.0.0.1"), owner="a")
    bench.want(cdc(2, "10.0.0.1"), owner="b")
    bench.want(owner="a")
    assert bench.write().effect == cdc(2, "10.0.0.1")


def test_an_event_is_posted_once_while_its_reason_lasts() -> None:
    bench = Bench()
    bench.want(event("full"))
    assert bench.write().effect == event("full")
    bench.coalescer.done(bench.now, event("full").target, Applied(3))
    for _ in range(3):
        bench.want(event("full"), cdc(1, "10.0.0.1"))
    assert bench.write().target == target()
    assert bench.idle(4.9)


def test_an_event_whose_answer_was_lost_is_posted_again_without_a_read() -> None:
    bench = Bench()
    bench.want(event("full"))
    bench.write()
    bench.coalescer.done(bench.now, event("full").target, Failed("timed out", None))
    assert bench.write().effect == event("full")


def test_an_object_whose_live_state_does_not_help_is_read_ever_more_rarely() -> None:
    bench = Bench()
    bench.want(cdc(1, "10.0.0.1"))
    bench.write()
    bench.done(Applied(5))
    began, reads = bench.now, 0
    while bench.work(began + 600.0) == Refresh(target(), "clique.1"):
        reads += 1
        bench.done(Refreshed(5))
    assert 10 <= reads <= 14


def test_a_deletion_whose_answer_has_no_version_is_not_sent_twice_before_it_is_seen() -> None:
    bench = Bench()
    delete = DeleteObject(target(), "cd", 4, "uid")
    bench.want(delete)
    bench.write()
    bench.done(Applied(None))
    bench.want(delete)
    assert bench.idle(4.9)
    finalizers = SetFinalizers(target(), "cd", 5, "uid", ())
    bench.want(finalizers)
    assert bench.write(within=0.0).effect == finalizers


def test_objects_at_rest_are_forgotten() -> None:
    bench = Bench(Limits(writes_per_s=1e6, burst=10_000))
    for number in range(5000):
        name = f"cd.clique.{number}"
        bench.want(cdc(1, "10.0.0.1", name=name), owner=name)
    for _ in range(5000):
        write = bench.write()
        bench.done(Applied(2), write.target.name)
        bench.want(owner=write.target.name)
    assert bench.idle(660.0)
    assert not bench.coalescer._slots
    assert not bench.coalescer._owned
    assert not bench.coalescer._later
    assert not bench.coalescer._ready


class World:
    """One object in an API server, seen by the fold with a lag; others may write it too."""

    def __init__(self) -> None:
        self.version, self.rows = 1, ()  # type: tuple[int, tuple[Row, ...]]
        self.seen: list[tuple[int, tuple[Row, ...]]] = [(1, ())]
        self.conflicts = 0

    def patch(self, effect: WriteCdc) -> Applied | Conflict:
        if effect.resource_version != self.version:
            self.conflicts += 1
            return Conflict()
        self.put(effect.rows)
        return Applied(self.version)

    def put(self, rows: tuple[Row, ...]) -> None:
        self.version, self.rows = self.version + 1, rows
        self.seen.append((self.version, rows))


steps = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.integers(0, 2)),
        st.tuples(st.just("pass"), st.integers(0, 60)),
        st.tuples(st.just("watch"), st.integers(1, 3)),
        st.tuples(st.just("work"), st.just(0)),
        st.tuples(st.just("write"), st.just(0)),
        st.tuples(st.just("answer"), st.sampled_from([0, 0, 0, 1, 2])),
    ),
    max_size=60,
)


class Machine:
    """Drives a coalescer against a World as the engine and the applier do, one step at a time."""

    def __init__(self) -> None:
        self.bench, self.world = Bench(), World()
        self.folded = self.world.seen[0]
        self.wanted: tuple[Row, ...] = ()
        self.out: Work | None = None

    def fold(self) -> None:
        version, rows = self.folded
        self.bench.want(
            *([] if rows == self.wanted else [WriteCdc(target(), "cd", version, "clique.1", "uid", self.wanted)])
        )

    def step(self, what: str, number: int) -> None:
        if what == "change":
            self.wanted = (Row("node", f"10.0.0.{number}", 0),) if number else ()
            self.fold()
        elif what == "write":
            for part, amount in (("pass", 21), ("work", 0), ("answer", 0)):
                self.step(part, amount)
        elif what == "pass":
            self.bench.now += number / 10
        elif what == "watch":
            for _ in range(number):
                newer = [one for one in self.world.seen if one[0] > self.folded[0]]
                if newer:
                    self.folded = newer[0]
                    self.fold()
        elif what == "work":
            work, _ = self.bench.coalescer.next(self.bench.now)
            assert work is None or self.out is None, "two requests for one object are out"
            self.out = work or self.out
        elif self.out is not None:
            self.answer(number)

    def answer(self, fault: int) -> None:
        work, self.out = self.out, None
        if isinstance(work, Refresh):
            self.bench.done(Refreshed(self.world.version))
            return
        assert isinstance(work, Write)
        assert isinstance(work.effect, WriteCdc)
        if fault == 1:
            self.bench.done(Throttled(1.0))
            return
        outcome = self.world.patch(work.effect)
        self.bench.done(Failed("answer lost", None) if fault == 2 else outcome)


LOST_WHILE_UNWANTED = [
    ("change", 1),
    ("pass", 1),
    ("work", 0),
    ("change", 0),
    ("answer", 2),
    ("change", 1),
    ("write", 0),
]

SEEN_LATE = [
    ("change", 1),
    ("write", 0),
    ("change", 0),
    ("pass", 29),
    ("write", 0),
    ("pass", 60),
    ("change", 1),
    ("write", 0),
]


@given(steps)
@example(LOST_WHILE_UNWANTED)
@example(SEEN_LATE)
@settings(max_examples=300, deadline=None)
def test_whatever_the_order_of_events_we_never_conflict_with_ourselves_and_end_with_what_is_wanted(
    sequence: list[tuple[str, int]],
) -> None:
    machine = Machine()
    for what, number in sequence:
        machine.step(what, number)
    for _ in range(200):
        for what, number in (("watch", 3), ("work", 0), ("answer", 0), ("pass", 5)):
            machine.step(what, number)
    assert machine.world.rows == machine.wanted
    assert machine.out is None
    assert machine.bench.idle(60.0), "writes go on although nothing changes"
    assert machine.world.conflicts == 0

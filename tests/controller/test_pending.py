"""What the coalescer says that an object's next write waits for, in each state that a write can be in."""

import pytest

from controller.writing.coalescer import Limits
from controller.writing.work import Applied, Failed, Throttled
from projections.audit.situation import Delay
from tests.controller.test_coalescer import Bench, cdc, target


def pending(bench: Bench, name: str = "cd.clique.1") -> tuple[Delay, float] | None:
    found = bench.coalescer.pending(bench.now, target(name))
    return None if found is None else (found.delay, pytest.approx(found.wait_s, abs=1e-6))  # type: ignore[return-value]


def test_nothing_waits_where_nothing_is_wanted() -> None:
    bench = Bench()
    assert pending(bench) is None
    bench.want(cdc(5, "10.0.0.1"))
    bench.want()
    assert pending(bench) is None


def test_a_write_is_paced_then_due_then_on_the_way_then_held_until_it_is_seen() -> None:
    bench = Bench()
    bench.want(cdc(5, "10.0.0.1"))
    assert pending(bench) == ("paced", 0.01)
    bench.now += 0.02
    assert pending(bench) == ("queued", 0.0)
    bench.write()
    assert pending(bench) == ("in-flight", 0.0)
    bench.done(Applied(9))
    assert pending(bench) == ("held", 5.0)
    bench.now += 2.0
    assert pending(bench) == ("held", 3.0)


def test_a_failed_write_backs_off() -> None:
    bench = Bench()
    bench.want(cdc(5, "10.0.0.1"))
    bench.write()
    bench.done(Failed("HTTP 500", 3.0))
    found = bench.coalescer.pending(bench.now, target())
    assert found is not None
    assert found.delay == "throttled"  # What a server asks for holds for all writes.
    assert 3.0 <= found.wait_s <= 3.2
    other = Bench(seed=1)
    other.want(cdc(5, "10.0.0.1"))
    other.write()
    other.done(Failed("reset", None))
    found = other.coalescer.pending(other.now, target())
    assert found is not None
    assert found.delay == "backing-off"


def test_a_pause_that_the_server_asked_one_object_for_holds_the_others_as_well() -> None:
    bench = Bench()
    bench.want(cdc(5, "10.0.0.1"), cdc(5, "10.0.0.2", name="cd.clique.2"))
    name = bench.write().effect.target.name
    bench.done(Throttled(30.0), name)
    (other,) = {"cd.clique.1", "cd.clique.2"} - {name}
    # After the pause the bucket is empty: one more token has to come.
    assert pending(bench, other) == ("throttled", 30.0 + 1 / Limits().writes_per_s)


def test_the_ceiling_holds_writes_back() -> None:
    bench = Bench(Limits(writes_per_s=1.0, burst=1))
    bench.want(cdc(5, "10.0.0.1"), cdc(5, "10.0.0.2", name="cd.clique.2"))
    name = bench.write().effect.target.name
    (other,) = {"cd.clique.1", "cd.clique.2"} - {name}
    assert pending(bench, other) == ("throttled", 1.0)


def test_a_write_that_the_server_takes_for_no_change_is_futile() -> None:
    bench = Bench()
    bench.want(cdc(5, "10.0.0.1"))
    bench.write()
    bench.done(Applied(5))
    assert pending(bench) == ("futile", 0.0)

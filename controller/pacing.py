"""Pacing: when an object that has an unwritten change may be written.

The problem is a trade. Whoever waits for a row wants it at once; the API server, and every daemon that watches the
object, want few writes. The policy (rule 7): the first change of a quiet object goes at once; while more keep coming,
a change waits for company, longer after each write; the write that completes a clique does not wait, because a gang
waits for it. The wait is counted from the oldest unwritten change, so `max_wait_s` bounds how long any row can lag.

Everything here is pure: times are seconds of a monotonic clock, given by the caller.
"""

import math

import msgspec

from projections.effects import AnyEffect, WriteCdc, WriteStatus


class Pace(msgspec.Struct, frozen=True):
    """The settings of the trade, in seconds.

    `gather_s`: one fold batch brings several changes; the first would otherwise go alone. `create_gather_s`: the same
    for a CDC that is to be created with no address in it yet: the nodes of a domain join together, and their daemons
    take longer than this to start and ask for their index. `quiet_s`: no write for this
    long, and the next change starts a new burst; longer than `max_wait_s` and the usual time to the next change, or a
    slowly filling clique would always look quiet. `first_wait_s`, `growth`, `max_wait_s`: the wait before the second
    write of a burst, its factor, its bound. `complete_gap_s`: "all rows are there" comes and goes as nodes join one
    by one; this keeps it from turning every arrival into a write. `status_gap_s`: a ComputeDomain's status is for
    people (rule 11).
    """

    gather_s: float = 0.01
    create_gather_s: float = 0.5
    quiet_s: float = 3.0
    first_wait_s: float = 0.5
    growth: float = 4.0
    max_wait_s: float = 2.0
    complete_gap_s: float = 0.2
    status_gap_s: float = 3.0


class History(msgspec.Struct, frozen=True):
    """What pacing remembers of one object: when it was written last, and how many writes the present burst has."""

    written: float = -math.inf
    burst: int = 0
    completed: float = -math.inf
    status: float = -math.inf


def earliest(pace: Pace, history: History, effect: AnyEffect, since: float) -> float:
    """Give the earliest time to write `effect`, whose oldest unwritten change was seen at `since`."""
    match effect:
        case WriteCdc(complete=True):
            return max(since + pace.gather_s, history.completed + pace.complete_gap_s)
        case WriteCdc(uid="", rows=rows) if not any(row.ip for row in rows):
            return since + max(pace.create_gather_s, _wait(pace, history, since))
        case WriteCdc():
            return since + max(pace.gather_s, _wait(pace, history, since))
        case WriteStatus():
            return max(since, history.status + pace.status_gap_s)
        case _:
            return since


def written(pace: Pace, history: History, effect: AnyEffect, since: float, now: float) -> History:
    """Give the history after `effect` was sent at `now`."""
    match effect:
        case WriteCdc(complete=complete):
            burst = 1 if _quiet(pace, history, since) else history.burst + 1
            return History(now, burst, now if complete else history.completed, history.status)
        case WriteStatus():
            return msgspec.structs.replace(history, status=now)
        case _:
            return history


def keep_s(pace: Pace) -> float:
    """Give for how long after a write an object's history can still delay another."""
    return max(pace.quiet_s, pace.status_gap_s, pace.complete_gap_s)


def _quiet(pace: Pace, history: History, since: float) -> bool:
    return since - history.written >= pace.quiet_s


def _wait(pace: Pace, history: History, since: float) -> float:
    if _quiet(pace, history, since):
        return 0.0
    # The exponent is bounded because a long burst would overflow a float; the minimum is reached long before.
    return min(pace.first_wait_s * pace.growth ** min(history.burst - 1, 32), pace.max_wait_s)

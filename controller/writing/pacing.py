"""Pacing: when an object that has an unwritten change may be written.

The problem is a trade. Whoever waits for a row wants it at once; the API server, and every daemon that watches the
object, want few writes. The policy (rule 7): the first change of a quiet object goes at once; while more keep coming,
a change waits for company, longer after each write; the write that completes a clique does not wait, because a gang
waits for it. The wait is counted from the oldest unwritten change, so `max_wait_s` bounds how long any row can lag.

Everything here is pure: times are seconds of a monotonic clock, given by the caller.
"""

import math

import msgspec
from msgspec.structs import replace

from projections.effects import AnyEffect, WriteCdc, WriteStatus


class Pace(msgspec.Struct, frozen=True):
    """The settings of the trade, in seconds.

    `gather_s`: one fold batch brings several changes; the first would otherwise go alone. `early_gather_s`: the same
    for rows without an address: the nodes of a domain join together, and their daemons take longer than this to start
    and ask for their index. `quiet_s`: no write for this long, and the next change starts a new burst; longer than
    `max_wait_s` and the usual time to the next change, or a slowly filling clique would always look quiet.
    `first_wait_s`, `growth`, `max_wait_s`: the wait before the second write of a burst, its factor, its bound.
    `spread`: the share by which each wait is shortened at random, at most: the cliques of one domain start together,
    and would otherwise be written together ever after. `complete_gap_s` and `settle_s`: "all rows are there" comes and
    goes as nodes join one by one; the distance to the last write of that kind and to the last node that joined keep it
    from turning every arrival into a write. `status_gap_s`: a ComputeDomain's status is for people (rule 11).
    """

    gather_s: float = 0.01
    early_gather_s: float = 1.0
    quiet_s: float = 3.0
    first_wait_s: float = 1.7
    growth: float = 4.0
    max_wait_s: float = 1.9
    spread: float = 0.1
    complete_gap_s: float = 0.2
    settle_s: float = 1.0
    status_gap_s: float = 3.0


class History(msgspec.Struct, frozen=True):
    """What pacing remembers of one object: when it was written last, and how many writes the present burst has.

    `drawn` is random, within 0..1: how much of the `spread` the next wait is shortened by. `expected` is how many rows
    had no address when the object was wanted last, `joined` when they last became more: a node joined then.
    """

    written: float = -math.inf
    burst: int = 0
    completed: float = -math.inf
    status: float = -math.inf
    drawn: float = 0.0
    expected: int = 0
    joined: float = -math.inf


def earliest(pace: Pace, history: History, effect: AnyEffect, since: float) -> float:
    """Give the earliest time to write `effect`, whose oldest unwritten change was seen at `since`."""
    match effect:
        case WriteCdc(complete=True):
            gap = max(history.completed + pace.complete_gap_s, history.joined + pace.settle_s)
            return since + max(pace.gather_s, min(gap - since, _wait(pace, history, since)))
        case WriteCdc(early=True):
            return since + max(pace.early_gather_s, _wait(pace, history, since))
        case WriteCdc():
            return since + max(pace.gather_s, _wait(pace, history, since))
        case WriteStatus():
            return max(since, history.status + pace.status_gap_s)
        case _:
            return since


def wanted(history: History, effect: AnyEffect, now: float) -> History:
    """Give the history after `effect` was wanted at `now`."""
    if not isinstance(effect, WriteCdc):
        return history
    expected = sum([not row.ip for row in effect.rows])
    if expected == history.expected:
        return history
    return replace(history, expected=expected, joined=now if expected > history.expected else history.joined)


def written(pace: Pace, history: History, effect: AnyEffect, since: float, now: float, drawn: float) -> History:
    """Give the history after `effect` was sent at `now`; `drawn` is a new random number within 0..1."""
    match effect:
        case WriteCdc(complete=complete):
            burst = 1 if _quiet(pace, history, since) else history.burst + 1
            completed = now if complete else history.completed
            return replace(history, written=now, burst=burst, completed=completed, drawn=drawn)
        case WriteStatus():
            return replace(history, status=now)
        case _:
            return history


def keep_s(pace: Pace) -> float:
    """Give for how long after a write an object's history can still delay another."""
    return max(pace.quiet_s, pace.status_gap_s, pace.complete_gap_s, pace.settle_s)


def _quiet(pace: Pace, history: History, since: float) -> bool:
    return since - history.written >= pace.quiet_s


def _wait(pace: Pace, history: History, since: float) -> float:
    if _quiet(pace, history, since):
        return 0.0
    # The exponent is bounded because a long burst would overflow a float; the minimum is reached long before.
    longest = min(pace.first_wait_s * pace.growth ** min(history.burst - 1, 32), pace.max_wait_s)
    return longest * (1.0 - pace.spread * history.drawn)

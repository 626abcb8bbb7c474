"""The work of `cliquelog replay`: one pass over a log, as it was recorded and as it would have been with our rules.

Invariant: memory grows with the members of a history and with the changes of their indices, not with its records. An
act is told as it comes and not kept, and two reruns are compared while both go through the same records.
"""

import asyncio
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from functools import partial
from itertools import groupby

import msgspec

from controller.history.rerun import Act, Decided, Rerun, Written
from controller.history.timeline import Until, in_time_order
from controller.writing.pacing import Pace
from eventlog.codec import UndecodableRecord
from eventlog.events import AnyEvent
from eventlog.log import EventLog
from eventlog.record import Position, Record
from projections.audit.change import Change, change_of
from projections.audit.holdings import Holding, Holdings
from projections.audit.timeline import answer
from projections.partition import PartitionFold, digest
from projections.settings import Settings

Member = tuple[str, str, str]
"""Clique, domain and node."""


class Rules(msgspec.Struct, frozen=True):
    """What a rerun is made with."""

    settings: Settings
    pace: Pace


class Course(msgspec.Struct, frozen=True):
    """How it went: each member's indices in order, without repetition, and the writes of clique objects.

    `holdings` counts holdings, `refused` writes that were refused; a rerun has none.
    """

    indices: Mapping[Member, tuple[int, ...]]
    holdings: int
    writes: int
    refused: int

    @property
    def changed(self) -> list[Member]:
        """The members that had more than one index."""
        return sorted(member for member, indices in self.indices.items() if len(set(indices)) > 1)


class Beside(msgspec.Struct, frozen=True):
    """What came of other rules, and the first acts that differ: None on a side without more; None if all agree."""

    replayed: Course
    divergence: tuple[Act | None, Act | None] | None


class Outcome(msgspec.Struct, frozen=True):
    """What a pass gave: `digests` by partition of the state as recorded, `digest` of all of it; times in Unix ms.

    `known` are the domains that the history shows themselves: of any other our rules decide nothing. `beside` is what
    came of the second rules, None if there were none.
    """

    records: int
    begin_ms: int
    end_ms: int
    digests: Mapping[int, str]
    digest: str
    recorded: Course
    replayed: Course
    known: frozenset[str]
    beside: Beside | None


class _Follower:
    """Follows holdings, and counts writes."""

    def __init__(self) -> None:
        self._holdings = Holdings()
        self._indices: defaultdict[Member, list[tuple[int, Position, int]]] = defaultdict(list)
        """The begins of each member's holdings that have ended, with their indices; of a run of one, first and last."""
        self._ended = 0
        self.writes = self.refused = 0

    def take(self, change: Change) -> None:
        for one in self._holdings.take(change):
            self._ended += 1
            _insert(self._indices[_member(one)], one)
        code = answer(change)
        self.refused += code is not None and code >= 400
        self.writes += code is not None and code < 400

    def course(self) -> Course:
        """Give how it went so far. Call it once, at the end."""
        lasting = self._holdings.lasting()
        for one in lasting:
            _insert(self._indices[_member(one)], one)
        course = {member: _without_repetition(held) for member, held in sorted(self._indices.items())}
        return Course(course, self._ended + len(lasting), self.writes, self.refused)


class _Recorded:
    """The log's own course: its fold, and what that shows of holdings and writes."""

    def __init__(self, folds: list[PartitionFold]) -> None:
        self.folds = folds
        self.follower = _Follower()

    def take(self, time_ms: int, record: Record) -> AnyEvent | None:
        """Fold the record and give its event; None if it is none, which every fold passes over."""
        fold = self.folds[record.partition]
        before = fold.aggregates.get(record.key)
        event = fold.apply(record)
        if event is None or isinstance(event, UndecodableRecord):
            return None
        position = Position(record.partition, record.offset)
        after = fold.aggregates[record.key]
        self.follower.take(change_of(position, time_ms, record.key, event, before, after))
        return event


class Comparison:
    """Finds the first difference of two reruns that take the same records; acts that agree are forgotten."""

    def __init__(self) -> None:
        """Know of no act."""
        self._sides: tuple[deque[Act], deque[Act]] = deque(), deque()
        self._differ = False

    def acted(self, side: int, act: Act) -> None:
        """Take an act of one side, 0 or 1."""
        if not self._differ or not self._sides[side]:
            self._sides[side].append(act)

    def compare(self) -> None:
        """Compare: both have taken in the same records, so what one alone has done by now is a difference."""
        one, other = self._sides
        while not self._differ and (one or other):
            if one and other and _essence(one[0]) == _essence(other[0]):
                one.popleft()
                other.popleft()
                continue
            self._differ = True
            for side in self._sides:
                while len(side) > 1:
                    side.pop()

    @property
    def divergence(self) -> tuple[Act | None, Act | None] | None:
        """The first acts that differ, None where one side has no more; None if there is no difference."""
        one, other = (next(iter(side), None) for side in self._sides)
        return (one, other) if self._differ else None


class _Replayed:
    """A rerun, and its course."""

    def __init__(self, rules: Rules, acted: Callable[[Act], None]) -> None:
        self.follower = _Follower()
        self.run = Rerun(rules.settings, rules.pace, acted, self.follower.take)


async def rerun(
    log: EventLog, rules: Rules, beside: Rules | None, until: Until, *, speed: float | None, show: Callable[[Act], None]
) -> Outcome:
    """Go through the log, with other rules `beside` if asked for; `show` is told each act of `rules` as it comes.

    `speed` is how many times as fast as the records' times; None does not wait. Raises LogError.
    """
    comparison = Comparison()

    def acted(act: Act) -> None:
        show(act)
        if beside is not None:
            comparison.acted(0, act)

    recorded = await _begin(log)
    runs = [_Replayed(rules, acted)]
    if beside is not None:
        runs.append(_Replayed(beside, partial(comparison.acted, 1)))
    records = begin_ms = end_ms = 0
    async for time_ms, record in in_time_order(log, until):
        if speed is not None and records:
            await asyncio.sleep(max(0, time_ms - end_ms) / 1000 / speed)
        records, begin_ms, end_ms = records + 1, begin_ms or time_ms, max(end_ms, time_ms)
        event = recorded.take(time_ms, record)
        if event is not None:
            for one in runs:
                one.run.take(time_ms, record, event)
            comparison.compare()
    for one in runs:
        one.run.end()
    comparison.compare()
    courses = [one.follower.course() for one in runs]
    return Outcome(
        records,
        begin_ms,
        end_ms,
        {number: digest([fold]) for number, fold in enumerate(recorded.folds) if fold.aggregates},
        digest(recorded.folds),
        recorded.follower.course(),
        courses[0],
        frozenset(runs[0].run.known),
        Beside(courses[1], comparison.divergence) if beside is not None else None,
    )


async def recorded_course(log: EventLog) -> Course:
    """Give what a log recorded, with no rerun. Raises LogError."""
    recorded = await _begin(log)
    async for time_ms, record in in_time_order(log, Until()):
        recorded.take(time_ms, record)
    return recorded.follower.course()


async def _begin(log: EventLog) -> _Recorded:
    return _Recorded([PartitionFold(await log.beginning_offset(partition)) for partition in range(log.partitions)])


def _essence(act: Act) -> object:
    """Give what makes two acts the same: not the capacity that a decision was made with, which a setting changes."""
    match act:
        case Decided(position=position, clique=clique, decision=decision):
            return (position, clique, type(decision), decision.node, getattr(decision, "index", None))
        case Written(time_ms=time_ms, effect=effect):
            return (time_ms, effect.target, effect.rows, effect.waiting)


def _member(one: Holding) -> Member:
    return (one.clique, one.domain, one.node)


def _insert(held: list[tuple[int, Position, int]], one: Holding) -> None:
    """Put a holding where it began, and drop what is then between two of the same index."""
    entry = (one.begin.time_ms, one.begin.position, one.index)
    place = bisect_left(held, entry)
    held.insert(place, entry)
    for middle in (place + 1, place, place - 1):
        if 0 < middle < len(held) - 1 and held[middle - 1][2] == held[middle][2] == held[middle + 1][2]:
            del held[middle]


def _without_repetition(held: list[tuple[int, Position, int]]) -> tuple[int, ...]:
    return tuple(index for index, _ in groupby(index for _, _, index in held))

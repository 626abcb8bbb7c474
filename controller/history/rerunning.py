"""The work of `cliquelog replay`: one pass over a log, as it was recorded and as it would have been with our rules."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import msgspec

from controller.history.rerun import Act, Decided, Rerun, Written
from controller.history.timeline import Until, in_time_order
from controller.writing.pacing import Pace
from eventlog.codec import UndecodableRecord
from eventlog.log import EventLog
from eventlog.record import Position
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


class Outcome(msgspec.Struct, frozen=True):
    """What a pass gave: `digests` by partition of the state as recorded, `digest` of all of it; times in Unix ms."""

    records: int
    begin_ms: int
    end_ms: int
    digests: Mapping[int, str]
    digest: str
    recorded: Course
    replayed: Course
    acts: tuple[Act, ...]


class _Follower:
    """Follows holdings, and counts writes."""

    def __init__(self) -> None:
        self._holdings = Holdings()
        self._ended: list[Holding] = []
        self.writes = self.refused = 0

    def take(self, change: Change) -> None:
        self._ended.extend(self._holdings.take(change))
        code = answer(change)
        self.refused += code is not None and code >= 400
        self.writes += code is not None and code < 400

    def course(self) -> Course:
        held = sorted([*self._ended, *self._holdings.lasting()], key=_begin)
        indices: defaultdict[Member, list[int]] = defaultdict(list)
        for one in held:
            of_member = indices[one.clique, one.domain, one.node]
            if of_member[-1:] != [one.index]:
                of_member.append(one.index)
        course = {member: tuple(of_member) for member, of_member in sorted(indices.items())}
        return Course(course, len(held), self.writes, self.refused)


async def rerun(
    log: EventLog, rules: Rules, until: Until, *, speed: float | None, show: Callable[[Act], None]
) -> Outcome:
    """Go through the log; `show` is told each act as it comes. Raises LogError, codec.UndecodableRecord.

    `speed` is how many times as fast as the records' times; None does not wait.
    """
    acts: list[Act] = []

    def acted(act: Act) -> None:
        acts.append(act)
        show(act)

    recorded, replayed = _Follower(), _Follower()
    run = Rerun(rules.settings, rules.pace, acted, replayed.take)
    folds = [PartitionFold(await log.beginning_offset(partition)) for partition in range(log.partitions)]
    records = begin_ms = end_ms = 0
    async for time_ms, record in in_time_order(log, until):
        if speed is not None and records:
            await asyncio.sleep(max(0, time_ms - end_ms) / 1000 / speed)
        records, begin_ms, end_ms = records + 1, begin_ms or time_ms, max(end_ms, time_ms)
        fold = folds[record.partition]
        before = fold.aggregates.get(record.key)
        event = fold.apply(record)
        if isinstance(event, UndecodableRecord):
            continue  # What is no event is passed over, as by every fold.
        if event is not None:
            position = Position(record.partition, record.offset)
            recorded.take(change_of(position, time_ms, record.key, event, before, fold.aggregates[record.key]))
        run.take(time_ms, record)
    run.end()
    digests = {number: digest([fold]) for number, fold in enumerate(folds) if fold.aggregates}
    return Outcome(records, begin_ms, end_ms, digests, digest(folds), recorded.course(), replayed.course(), tuple(acts))


def divergence(one: Sequence[Act], other: Sequence[Act]) -> tuple[Act | None, Act | None] | None:
    """Give the first acts in which two reruns differ, None where one has no more; None if they are equal."""
    for mine, theirs in zip(one, other, strict=False):
        if _essence(mine) != _essence(theirs):
            return mine, theirs
    shorter = min(len(one), len(other))
    if len(one) == len(other):
        return None
    return next(iter(one[shorter:]), None), next(iter(other[shorter:]), None)


def _essence(act: Act) -> object:
    """Give what makes two acts the same: not the capacity that a decision was made with, which a setting changes."""
    match act:
        case Decided(position=position, clique=clique, decision=decision):
            return (position, clique, type(decision), decision.node, getattr(decision, "index", None))
        case Written(time_ms=time_ms, effect=effect):
            return (time_ms, effect.target, effect.rows, effect.waiting)


def _begin(one: Holding) -> tuple[int, Position, str, int]:
    return (one.begin.time_ms, one.begin.position, one.node, one.index)

"""How a history went over time: daemons, rows, and writes, in steps of one width and for each clique.

Problem: a history has up to millions of records, and a chart has room for a few hundred points. Invariant: memory is
bounded by the steps and the cliques, never by the records. Reason for going by the fold's states: a duplicate or a
stale record must not count.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate

import msgspec

from eventlog.events import CdcSeen, WriteAnswered
from projections.audit.change import Change
from projections.clique import CliqueState, Membership
from projections.desired import CDCS

STEPS_MAX = 400
WIDTHS_MS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(second * 1000 for second in (1, 2, 5, 10, 15, 30)),
    *(minute * 60_000 for minute in (1, 2, 5, 10, 15, 30)),
    *(hour * 3_600_000 for hour in (1, 2, 3, 6, 12)),
)
"""Widths of a step that people can reckon with; a history that needs wider ones takes whole days."""
DAY_MS = 86_400_000
_NONE = Membership()


class Level(msgspec.Struct, frozen=True):
    """How many there are: daemon pods that stay, those of them that are Ready, rows, and rows that are Ready."""

    pods: int = 0
    pods_ready: int = 0
    rows: int = 0
    rows_ready: int = 0

    def __add__(self, other: "Level") -> "Level":
        """Give the sum."""
        return Level(
            self.pods + other.pods,
            self.pods_ready + other.pods_ready,
            self.rows + other.rows,
            self.rows_ready + other.rows_ready,
        )

    def __sub__(self, other: "Level") -> "Level":
        """Give the difference."""
        return self + Level(-other.pods, -other.pods_ready, -other.rows, -other.rows_ready)


class Writes(msgspec.Struct):
    """Writes of clique objects: those that went through, refused with 409, refused with 429, refused otherwise."""

    accepted: int = 0
    conflicts: int = 0
    throttled: int = 0
    refused: int = 0

    def count(self, code: int) -> None:
        """Count the answer to a write by its HTTP status."""
        if code < 400:
            self.accepted += 1
        elif code == 409:
            self.conflicts += 1
        elif code == 429:
            self.throttled += 1
        else:
            self.refused += 1


class Tally(msgspec.Struct):
    """What a domain did in a clique: its level at the end of the history, its writes in all and by step.

    `first_ms` is when its first daemon or row showed, `formed_ms` when the most rows that it ever had Ready were so
    for the first time; None if there were none.
    """

    level: Level
    writes: Writes
    steps: dict[int, Writes]
    first_ms: int | None = None
    formed_ms: int | None = None
    most_ready: int = 0


class Timeline:
    """Follows all records of a history whose first and last times are known."""

    def __init__(self, begin_ms: int, end_ms: int) -> None:
        """Choose the width of a step."""
        self.begin_ms = begin_ms
        self.width_ms = step_width(end_ms - begin_ms)
        self.tallies: dict[tuple[str, str], Tally] = {}
        self._last = (end_ms - begin_ms) // self.width_ms
        self._changes: defaultdict[int, Level] = defaultdict(Level)

    def take(self, change: Change) -> None:
        """Count what the record changes."""
        after = change.after
        if not isinstance(after, CliqueState):
            return
        before = change.before if isinstance(change.before, CliqueState) else CliqueState()
        step = min(max((change.time_ms - self.begin_ms) // self.width_ms, 0), self._last)
        for domain in _changed(change, before, after):
            difference = level_of(after.domains.get(domain, _NONE)) - level_of(before.domains.get(domain, _NONE))
            if difference != Level():
                self._changes[step] += difference
                self._rise(self._tally(change.key, domain), difference, change.time_ms)
        code = answer(change)
        if code is not None:
            tally = self._tally(change.key, getattr(change.event, "domain", ""))
            tally.writes.count(code)
            tally.steps.setdefault(step, Writes()).count(code)

    def levels(self) -> list[Level]:
        """Give the level at the end of each step."""
        return list(accumulate(self._changes[step] for step in range(self._last + 1)))

    def writes(self) -> list[Writes]:
        """Give the writes of all cliques in each step."""
        steps = [Writes() for _ in range(self._last + 1)]
        for tally in self.tallies.values():
            for step, writes in tally.steps.items():
                total = steps[step]
                total.accepted += writes.accepted
                total.conflicts += writes.conflicts
                total.throttled += writes.throttled
                total.refused += writes.refused
        return steps

    def _tally(self, clique: str, domain: str) -> Tally:
        return self.tallies.setdefault((clique, domain), Tally(Level(), Writes(), {}))

    @staticmethod
    def _rise(tally: Tally, difference: Level, time_ms: int) -> None:
        tally.level += difference
        tally.first_ms = time_ms if tally.first_ms is None else tally.first_ms
        if tally.level.rows_ready > tally.most_ready:
            tally.most_ready, tally.formed_ms = tally.level.rows_ready, time_ms


def step_width(span_ms: int) -> int:
    """Give the smallest width of a step, in milliseconds, of which the span needs at most STEPS_MAX."""
    for width in WIDTHS_MS:
        if span_ms // width < STEPS_MAX:
            return width
    return (span_ms // (STEPS_MAX * DAY_MS) + 1) * DAY_MS


def level_of(membership: Membership) -> Level:
    """Count a domain's daemons and rows in a clique."""
    pods = [pod for pod in membership.pods.values() if not pod.terminating]
    rows = membership.cdc.rows.values() if membership.cdc is not None else ()
    return Level(len(pods), sum(pod.ready for pod in pods), len(rows), sum(row.status == "Ready" for row in rows))


def _changed(change: Change, before: CliqueState, after: CliqueState) -> Iterator[str]:
    """Give the domains whose pods or rows are others now."""
    if before.domains is after.domains:
        return
    for domain in change.domains:
        old, new = before.domains.get(domain, _NONE), after.domains.get(domain, _NONE)
        if old.pods is not new.pods or old.cdc is not new.cdc:
            yield domain


def answer(change: Change) -> int | None:
    """Give the HTTP status of the write of a clique object that the record tells of; None if it tells of none."""
    before = change.before if isinstance(change.before, CliqueState) else CliqueState()
    match change.event:
        case CdcSeen(domain=domain, resource_version=version) if change.clique is not None:
            return 200 if version > before.domains.get(domain, _NONE).cdc_version else None
        case WriteAnswered(clique=clique, resource=resource, code=code) if clique == change.key and resource == CDCS:
            return code
        case _:
            return None

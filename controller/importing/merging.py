"""Merging: several inputs in one order.

Problem: clocks of API servers differ, lines of an audit log are written when a request ends, and a watch states no
times at all. Invariant: of one object, what is told within the window comes out by resourceVersion, and once (its end
apart, which may have the version of the one before); all else
comes by time, and what has no time by resourceVersion. Streamed: no more is held than the window and one line an
input. Pure.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from msgspec.structs import replace

from controller.importing.told import Lost, ObjectTold, Told

SKEW_MS = 5000
"""How far the clocks of API servers may differ, and how long a line of an audit log may be late."""


class Source(Protocol):
    """An input whose lines state their times, roughly in order; `first_ms` is that of its first one.

    Where the order is its own (`in_order`), nothing in it is to be moved.
    """

    first_ms: int

    @property
    def in_order(self) -> bool:
        """Whether the order is its own."""

    def told(self) -> Iterator[Told]:
        """Open it, and give what it tells."""


def merged(timed: Sequence[Source], untimed: Sequence[Iterable[Told]], skew_ms: int) -> Iterator[Told]:
    """Give what the inputs tell in one order; the `untimed` ones are dated as far as their objects mention times."""
    if len(timed) == 1 and timed[0].in_order and not untimed:
        yield from timed[0].told()
        return
    if len(timed) == 1 and not untimed:
        yield from _settled(timed[0].told(), skew_ms)
        return
    watches = _Watches()
    risen = [_risen(number, one, watches) for number, one in enumerate(untimed)]
    dated = _dated(heapq.merge(*risen, key=lambda pair: pair[0]))
    one_by_one = _opened_in_turn(timed, skew_ms)
    yield from _settled(heapq.merge(one_by_one, dated, key=lambda told: told.time_ms), skew_ms)


def _opened_in_turn(sources: Sequence[Source], skew_ms: int) -> Iterator[Told]:
    """Merge by time, and open a source only when its time comes: of rotated files there may be hundreds."""
    closed = sorted(enumerate(sources), key=lambda pair: (pair[1].first_ms, pair[0]), reverse=True)
    is_open: list[tuple[int, int, Told, Iterator[Told]]] = []
    while closed or is_open:
        while closed and (not is_open or closed[-1][1].first_ms - skew_ms <= is_open[0][0]):
            number, source = closed.pop()
            _advance(is_open, number, source.told())
        if is_open:
            _, number, told, rest = heapq.heappop(is_open)
            yield told
            _advance(is_open, number, rest)


def _advance(is_open: list[tuple[int, int, Told, Iterator[Told]]], number: int, rest: Iterator[Told]) -> None:
    told = next(rest, None)
    if told is not None:
        heapq.heappush(is_open, (told.time_ms, number, told, rest))


class _Watches:
    """Watches that state no times, and the holes between one and the next.

    A watch begins with what is there then. What was deleted since the one before it ended, none of them tells.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[int, str], bool] = {}

    def come(self, number: int, told: ObjectTold) -> None:
        """Note that an input is a watch of this kind, which has not ended."""
        if told.watched is not None:
            self._open.setdefault((number, told.resource.plural), False)

    def passed(self, number: int, told: ObjectTold) -> None:
        """Note that what the input told has had its place in the order."""
        if told.watched:
            self._open[number, told.resource.plural] = True

    def ended(self, number: int, source: str) -> Iterator[Told]:
        """Give the holes behind an input: kinds of which other watches go on, none of which had begun by then."""
        for plural in sorted(kind for one, kind in self._open if one == number):
            del self._open[number, plural]
            others = [has_begun for (_, kind), has_begun in self._open.items() if kind == plural]
            if others and not any(others):
                cause = f"a watch of {plural} ended, and the next one does not tell what was deleted between them"
                yield Lost(source, 0, plural, cause)


def _risen(number: int, untimed: Iterable[Told], watches: _Watches) -> Iterator[tuple[int, Told]]:
    """Give each with the highest resourceVersion so far: a list at the beginning of a watch is in no order."""
    highest, source = 0, ""
    for told in untimed:
        source = told.source
        if isinstance(told, ObjectTold):
            highest = max(highest, told.version)
            watches.come(number, told)
        yield highest, told
        if isinstance(told, ObjectTold):
            watches.passed(number, told)
    for lost in watches.ended(number, source):
        yield highest, lost


def _dated(pairs: Iterable[tuple[int, Told]]) -> Iterator[Told]:
    """Date what comes by resourceVersion: no earlier than what came before."""
    latest = 0
    for _, told in pairs:
        latest = max(latest, told.time_ms)
        yield replace(told, time_ms=latest)


def _settled(stream: Iterable[Told], skew_ms: int) -> Iterator[Told]:
    """Put in order what lies within the window."""
    window = _Window()
    latest = 0
    for told in stream:
        latest = max(latest, told.time_ms)
        window.put(told)
        yield from window.until(latest - skew_ms)
    yield from window.until(None)


Version = tuple[int, bool]
"""A resourceVersion, and whether it is the object's end. Of an object whose last finalizer is taken off, that end is
never stored, and the answer has the version of the one before."""


class _Window:
    """What waits. Each telling has a turn, by its time; of one object, the oldest version goes at the first turn."""

    def __init__(self) -> None:
        self._count = 0
        self._turns: list[tuple[int, int, str]] = []
        self._waiting: dict[int, Told] = {}
        self._versions: defaultdict[str, list[tuple[Version, int]]] = defaultdict(list)
        self._by_version: dict[tuple[str, Version], int] = {}
        self._void: set[int] = set()

    def put(self, told: Told) -> None:
        """Let it wait, unless that version waits already; of two accounts the one that states its time is kept."""
        number = self._count = self._count + 1
        # What is no object has a place of its own, so that nothing goes at its turn instead.
        uid, version = f"{number}", (0, False)
        if isinstance(told, ObjectTold) and not told.in_place:
            uid, version = told.object.metadata.uid, (told.version, told.gone)
            other = self._by_version.get((uid, version))
            if other is not None:
                if told.dated or not _is_dated(self._waiting[other]):
                    return
                del self._waiting[other]
                self._void.add(other)
        self._by_version[uid, version] = number
        self._waiting[number] = told
        heapq.heappush(self._turns, (told.time_ms, number, uid))
        heapq.heappush(self._versions[uid], (version, number))

    def until(self, time_ms: int | None) -> Iterator[Told]:
        """Give what has its turn before the time, or all that waits."""
        while self._turns and (time_ms is None or self._turns[0][0] < time_ms):
            _, number, uid = heapq.heappop(self._turns)
            if number in self._void:
                self._void.remove(number)
            else:
                yield self._oldest(uid)

    def _oldest(self, uid: str) -> Told:
        versions = self._versions[uid]
        version, number = heapq.heappop(versions)
        while number not in self._waiting:
            version, number = heapq.heappop(versions)
        if not versions:
            del self._versions[uid]
        del self._by_version[uid, version]
        return self._waiting.pop(number)


def _is_dated(told: Told) -> bool:
    return isinstance(told, ObjectTold) and bool(told.dated)

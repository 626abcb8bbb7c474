"""Gaps in the view of the clique objects, and what they leave uncertain of holdings.

Problem: after a watch gap a complete list shows rows as they are then; when they came, and whether they were out in
between, nobody saw; nor before the first list, or while no controller ran. Invariant: what rows alone say across a gap,
or first in a list, is inferred. What a decision gave is not: the log holds the decision, whatever the watch missed. But
where a row was there before the decision, its begin is what the row alone says. A history of versions with their counts
needs none of this: there a missing version shows by itself (`controller.importing.recorder`); but a capture has such
marks, too, and they are heeded.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate
from math import inf

from msgspec.structs import replace

from eventlog.events import RelistBegan, RelistCompleted, WatchGap
from projections.audit.change import Change
from projections.audit.holdings import Holding

RESOURCE = "computedomaincliques"
KEY = f"watch/{RESOURCE}"
IN_A_GAP = "it was first seen in a list, at the start or after a gap of the watch"
END_IN_A_GAP = "it was found to be over in a list, at the start or after a gap of the watch"
ACROSS = "the watch had a gap while it lasted"


class Gaps:
    """Follows the marks of the watch on clique objects."""

    def __init__(self) -> None:
        """Know of no gap."""
        self._gaps: list[tuple[float, float]] = []
        self._since: int | None = None
        self._is_told = False
        """Whether the gap is one of an import, whose inputs need not have lists that end it."""

    def take(self, change: Change) -> None:
        """See whether a gap began or a list has ended it."""
        if change.key != KEY:
            return
        if isinstance(change.event, WatchGap | RelistBegan) and self._since is None:
            self._since, self._is_told = change.time_ms, bool(change.source)
        elif isinstance(change.event, WatchGap) and self._is_told:
            self._gaps.append((change.time_ms, change.time_ms))
        elif isinstance(change.event, RelistCompleted) and self._since is not None:
            self._gaps.append((self._since, change.time_ms))
            self._since = None

    def marked(self, holdings: Iterable[Holding]) -> list[Holding]:
        """Give the holdings with what the gaps leave uncertain of them."""
        last = [] if self._since is None else [(self._since, self._since if self._is_told else inf)]
        gaps = sorted([*self._gaps, *last])
        if not gaps:
            return list(holdings)
        begins = [begin for begin, _ in gaps]
        # Up to each gap the latest end of one: times may go back, so that gaps overlap.
        ends = list(accumulate((end for _, end in gaps), max))
        return [_marked(one, begins, ends) for one in holdings]


def _marked(one: Holding, begins: list[float], ends: list[float]) -> Holding:
    if one.decided and not one.seen_first:
        return one
    begin_ms, end_ms = one.begin.time_ms, one.end.time_ms if one.end is not None else inf
    reasons = []
    if not one.decided and bisect_right(begins, begin_ms) < bisect_left(begins, end_ms):
        reasons.append(f"across: {ACROSS}")
    if _within(begin_ms, begins, ends):
        reasons.append(f"its begin: {IN_A_GAP}")
    if not one.decided and _within(end_ms, begins, ends):
        reasons.append(f"its end: {END_IN_A_GAP}")
    return replace(one, inferred=(*one.inferred, *reasons)) if reasons else one


def _within(time_ms: float, begins: list[float], ends: list[float]) -> bool:
    before = bisect_right(begins, time_ms)
    return before > 0 and time_ms <= ends[before - 1]

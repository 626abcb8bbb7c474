"""Gaps in the view of the clique objects, and what they leave uncertain of holdings.

Problem: after a watch gap a complete list shows rows as they are then; when they came, and whether they were out in
between, nobody saw; nor before the first list. Invariant: what rows alone say across a gap, or first in a list, is
inferred. What a decision gave is not: the log holds the decision, whatever the watch missed. But where a row was there
before the decision, its begin is what the row alone says. Each complete list stands behind a gap, also where nobody was
there to mark it: the controller was started anew, another one took over, a second recording began, or the list was
asked for because of a doubt, when a watch had ended. A history of versions with their counts needs none of this: there
a missing version shows by itself (`controller.importing.recorder`); but a capture has such marks, too.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate
from math import inf

import msgspec
from msgspec.structs import replace

from eventlog.events import AnyEvent, RelistBegan, RelistCompleted, WatchGap
from projections.audit.change import Change
from projections.audit.finding import seconds
from projections.audit.holdings import Holding

RESOURCE = "computedomaincliques"
KEY = f"watch/{RESOURCE}"
LOST_KEY = "watch/import"
"""Where an import marks lines that it did not understand: of whatever kind they told."""
IN_A_GAP = "it was first seen in a list, at the start or after a gap of the watch"
END_IN_A_GAP = "it was found to be over in a list, at the start or after a gap of the watch"
ACROSS = "the watch had a gap while it lasted"


class Spans(msgspec.Struct, frozen=True):
    """Spans of time by their begin, each with the latest end of one up to it: they may overlap, as times go back."""

    begins: list[float]
    ends: list[float]

    def hold(self, time_ms: float) -> bool:
        """Say whether the time is within one."""
        before = bisect_right(self.begins, time_ms)
        return before > 0 and time_ms <= self.ends[before - 1]

    def begin_between(self, first_ms: float, last_ms: float) -> bool:
        """Say whether one begins after the one time and before the other."""
        return bisect_right(self.begins, first_ms) < bisect_left(self.begins, last_ms)


class Unseen:
    """The times in which nobody watched a kind: from a gap, or the begin of a list, until the list is complete."""

    def __init__(self) -> None:
        """Know of none."""
        self._gaps: list[tuple[float, float]] = []
        self._since: int | None = None
        self._is_told = False
        """Whether the gap is one of an import, whose inputs need not have lists that end it."""

    def take(self, event: AnyEvent, time_ms: int) -> None:
        """Take in a mark of the watch."""
        if isinstance(event, WatchGap | RelistBegan) and self._since is None:
            self._since, self._is_told = time_ms, isinstance(event, WatchGap) and event.provenance is not None
        elif isinstance(event, WatchGap) and self._is_told:
            self._gaps.append((time_ms, time_ms))
        elif isinstance(event, RelistCompleted) and self._since is not None:
            self._gaps.append((self._since, time_ms))
            self._since = None

    def spans(self) -> Spans:
        """Give the times."""
        last = [] if self._since is None else [(self._since, self._since if self._is_told else inf)]
        gaps = sorted([*self._gaps, *last])
        return Spans([begin for begin, _ in gaps], list(accumulate((end for _, end in gaps), max)))


class Gaps:
    """Follows the marks of the watch on clique objects."""

    def __init__(self) -> None:
        """Know of no gap."""
        self._unseen = Unseen()
        self._lost: list[int] = []
        self._listed_ms = 0

    def take(self, change: Change) -> None:
        """See whether a gap began or a list has ended it."""
        if change.key == LOST_KEY and isinstance(change.event, WatchGap):
            self._lost.append(change.time_ms)
        elif change.key == KEY:
            if isinstance(change.event, RelistCompleted):
                self._listed_ms = max(self._listed_ms, change.time_ms)
            self._unseen.take(change.event, change.time_ms)

    def marked(self, holdings: Iterable[Holding]) -> list[Holding]:
        """Give the holdings with what the gaps leave uncertain of them."""
        spans, lost = self._unseen.spans(), sorted(self._lost)
        told = [self._perhaps_over(one, lost) for one in holdings] if lost else holdings
        return [_marked(one, spans) for one in told] if spans.begins else list(told)

    def _perhaps_over(self, one: Holding, lost: list[int]) -> Holding:
        """Mark a holding whose end a lost line may have told: no version and no list shows it since."""
        if one.end is not None or one.decided or one.shown_ms is None:
            return one
        place = bisect_left(lost, max(one.shown_ms, self._listed_ms + 1))
        if place == len(lost):
            return one
        wait = seconds(lost[place] - one.shown_ms)
        reason = f"still held: a line is lost {wait} after the last version that shows it, and may have told its end"
        return replace(one, inferred=(*one.inferred, reason))


def _marked(one: Holding, spans: Spans) -> Holding:
    if one.decided and not one.seen_first:
        return one
    end_ms = one.end.time_ms if one.end is not None else inf
    reasons = []
    if not one.decided and spans.begin_between(one.begin.time_ms, end_ms):
        reasons.append(f"across: {ACROSS}")
    if spans.hold(one.begin.time_ms):
        reasons.append(f"its begin: {IN_A_GAP}")
    if not one.decided and spans.hold(end_ms):
        reasons.append(f"its end: {END_IN_A_GAP}")
    return replace(one, inferred=(*one.inferred, *reasons)) if reasons else one

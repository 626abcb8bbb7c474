"""Gaps in the view of the clique objects, and what they leave uncertain of holdings.

Problem: after a watch gap a complete list shows rows as they are then; when they came, and whether they were out in
between, nobody saw. Invariant: what rows alone say across a gap is inferred. What a decision gave is not: the log holds
the decision, whatever the watch missed. Each complete list after the first one stands behind a gap, also where nobody
was there to mark it: the controller was started anew, another one took over, a second recording began, or the list
was asked for because of a doubt, when a watch had ended. A history of versions with their counts needs none of this:
there a missing version shows by itself (`controller.importing.recorder`); but a capture has such marks, too.
"""

from collections.abc import Iterable
from math import inf

from msgspec.structs import replace

from eventlog.events import RelistBegan, RelistCompleted, WatchGap
from projections.audit.change import Change
from projections.audit.holdings import Holding

RESOURCE = "computedomaincliques"
KEY = f"watch/{RESOURCE}"
IN_A_GAP = "it was first seen in a list after a gap of the watch"
END_IN_A_GAP = "it was found to be over in a list after a gap of the watch"
ACROSS = "the watch had a gap while it lasted"


class Gaps:
    """Follows the marks of the watch on clique objects."""

    def __init__(self) -> None:
        """Know of no gap."""
        self._gaps: list[tuple[float, float]] = []
        self._since: int | None = None
        self._is_complete = False

    def take(self, change: Change) -> None:
        """See whether a gap began or a list has ended it."""
        if change.key != KEY:
            return
        begins = isinstance(change.event, WatchGap) or (self._is_complete and isinstance(change.event, RelistBegan))
        if begins and self._since is None:
            self._since = change.time_ms
        elif isinstance(change.event, RelistCompleted):
            self._is_complete = True
            if self._since is not None:
                self._gaps.append((self._since, change.time_ms))
                self._since = None

    def marked(self, holdings: Iterable[Holding]) -> list[Holding]:
        """Give the holdings with what the gaps leave uncertain of them."""
        gaps = [*self._gaps, *([(self._since, inf)] if self._since is not None else [])]
        return [_marked(one, gaps) for one in holdings] if gaps else list(holdings)


def _marked(one: Holding, gaps: list[tuple[float, float]]) -> Holding:
    if one.decided:
        return one
    end_ms = one.end.time_ms if one.end is not None else inf
    reasons = set()
    for begin, end in gaps:
        if begin <= one.begin.time_ms <= end:
            reasons.add(f"its begin: {IN_A_GAP}")
        if begin <= end_ms <= end:
            reasons.add(f"its end: {END_IN_A_GAP}")
        if one.begin.time_ms < begin < end_ms:
            reasons.add(f"across: {ACROSS}")
    return replace(one, inferred=(*one.inferred, *sorted(reasons))) if reasons else one

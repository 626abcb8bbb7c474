"""Time that nodes lost to refused writes: conflicts, throttling, and the waits after them (failure cases A9, A10)."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from eventlog.events import DaemonPodGone, WriteAnswered
from projections.audit.change import Change
from projections.audit.finding import Evidence, Finding, Rule, counted, evidence, seconds
from projections.audit.holdings import Holding
from projections.desired import CDCS

LEAST_MS = 1000
"""Waits from which on a node counts as delayed."""


class _Refusals(msgspec.Struct):
    """The refused writes of a node's row since its last one that went through."""

    begin_ms: int
    first: Evidence
    count: int


class _Delay(msgspec.Struct, frozen=True):
    """What a node waited, from its first refused write to the one that went through."""

    waited_ms: int
    node: str
    count: int
    begin_ms: int
    records: tuple[Evidence, Evidence]


def _is_of_a_row(change: Change, event: WriteAnswered) -> bool:
    return event.resource == CDCS and event.clique == change.key


class WriteDelayed(Rule):
    """Follows each node from its first refused write to the change of its row."""

    code = "write-delayed"
    severity = "warning"
    title = "Nodes waited because the writes of their rows were refused"
    advice = "Compare with conflict-storm and throttled: fewer writers, or fewer writes each, is what helps."

    def __init__(self) -> None:
        """Know of no refusal."""
        self._refused: dict[tuple[str, str, str], _Refusals] = {}
        self._delays: defaultdict[tuple[str, str], list[_Delay]] = defaultdict(list)

    def take(self, change: Change) -> Iterator[Finding]:
        """Follow refusals, and the changes that end the wait."""
        event = change.event
        if isinstance(event, DaemonPodGone):
            self._refused.pop((change.key, event.domain, event.node), None)  # What comes later is another daemon's.
        elif isinstance(event, WriteAnswered) and event.code >= 400 and event.node and _is_of_a_row(change, event):
            place = (change.key, event.domain, event.node)
            refused = self._refused.setdefault(place, _Refusals(change.time_ms, evidence(change), 0))
            refused.count += 1
        for row in change.rows:
            refused_before = self._refused.pop((change.key, row.domain, row.node), None)
            if refused_before is not None:
                waited = change.time_ms - refused_before.begin_ms
                if waited >= LEAST_MS:
                    records = (refused_before.first, evidence(change))
                    delay = _Delay(waited, row.node, refused_before.count, refused_before.begin_ms, records)
                    self._delays[change.key, row.domain].append(delay)
        return iter(())

    def end(self, holdings: Sequence[Holding], end_ms: int) -> Iterator[Finding]:
        """Give one finding a clique and domain, with the node that waited longest."""
        del holdings, end_ms
        for (clique, domain), delays in sorted(self._delays.items()):
            worst = max(delays, key=lambda one: (one.waited_ms, one.node))
            total = sum(one.waited_ms for one in delays)
            nodes = len({one.node for one in delays})
            message = (
                f"{counted(nodes, 'node')} lost {seconds(total)} in all to refused writes; node {worst.node} waited "
                f"longest: {seconds(worst.waited_ms)} and {counted(worst.count, 'refused write')}"
            )
            yield Finding(self.code, self.severity, message, worst.begin_ms, worst.records, clique, domain, worst.node)

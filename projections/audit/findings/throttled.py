"""The API server asked writers to slow down (failure cases A1, B11)."""

from collections.abc import Iterator, Sequence

import msgspec

from eventlog.events import WriteAnswered
from projections.audit.change import Change
from projections.audit.finding import Evidence, Finding, Rule, counted, evidence, seconds
from projections.audit.holdings import Holding


class _Refusals(msgspec.Struct):
    """The 429 of one kind of object."""

    begin_ms: int
    end_ms: int
    records: tuple[Evidence, Evidence]
    count: int
    longest_s: int


class Throttled(Rule):
    """Counts the answers with 429, by the clique and domain that they concern."""

    code = "throttled"
    severity = "warning"
    title = "Writes were refused with 429"
    advice = "The server was short of capacity, or its fairness limits were reached: fewer writers and requests help."

    def __init__(self) -> None:
        """Know of none."""
        self._refused: dict[tuple[str, str], _Refusals] = {}

    def take(self, change: Change) -> Iterator[Finding]:
        """Count."""
        event = change.event
        if isinstance(event, WriteAnswered) and event.code == 429:
            place = (event.clique, event.domain)
            shown = evidence(change)
            one = self._refused.get(place)
            if one is None:
                one = self._refused[place] = _Refusals(change.time_ms, change.time_ms, (shown, shown), 0, 0)
            one.count += 1
            one.end_ms, one.records = max(one.end_ms, change.time_ms), (one.records[0], shown)
            one.longest_s = max(one.longest_s, event.retry_after_s)
        return iter(())

    def end(self, holdings: Sequence[Holding], end_ms: int) -> Iterator[Finding]:
        """Give one finding a clique and domain."""
        del holdings, end_ms
        for (clique, domain), one in sorted(self._refused.items()):
            asked = f"; the server asked to wait for up to {one.longest_s} s" if one.longest_s else ""
            message = (
                f"{counted(one.count, 'write')} refused with 429 within {seconds(one.end_ms - one.begin_ms)}{asked}"
            )
            yield Finding(self.code, self.severity, message, one.begin_ms, one.records, clique, domain)

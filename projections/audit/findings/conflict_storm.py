"""A storm of conflicts: many optimistic writers on one object (failure cases A1, A2, A9)."""

from collections.abc import Iterator, Sequence

from eventlog.events import CdcSeen, WriteAnswered
from projections.audit.change import Change
from projections.audit.finding import Evidence, Finding, Rule, counted, evidence, seconds
from projections.audit.holdings import Holding
from projections.desired import CDCS

LEAST = 10
"""Conflicts from which on it is a storm: a few are how optimistic locking works."""
PAUSE_MS = 10_000
"""A pause that ends one storm: longer than the peer's longest wait between two tries (6 s and a quarter)."""


class _Storm:
    """The conflicts of one clique object, one after the other."""

    def __init__(self, change: Change, accepted: int) -> None:
        self.begin_ms = self.end_ms = change.time_ms
        self.first = self.last = evidence(change)
        self.conflicts = 0
        self.accepted_before = self.accepted = accepted

    def add(self, change: Change, accepted: int) -> None:
        self.end_ms, self.last = change.time_ms, evidence(change)
        self.conflicts += 1
        self.accepted = accepted


class ConflictStorm(Rule):
    """Counts the conflicts of each clique object that come without a pause."""

    code = "conflict-storm"
    severity = "warning"
    title = "Many writes of a clique object were refused with 409"
    advice = "Each refused write is one more on the server; a single writer per object has none."

    def __init__(self) -> None:
        """Know of no conflict."""
        self._storms: dict[tuple[str, str], _Storm] = {}
        self._accepted: dict[tuple[str, str], int] = {}

    def take(self, change: Change) -> Iterator[Finding]:
        """Count."""
        event = change.event
        if isinstance(event, CdcSeen) and change.clique is not None:
            place = (change.key, event.domain)
            self._accepted[place] = self._accepted.get(place, 0) + 1
        elif isinstance(event, WriteAnswered) and event.code == 409 and event.resource == CDCS:
            place = (change.key, event.domain)
            storm = self._storms.get(place)
            if storm is None or change.time_ms - storm.end_ms > PAUSE_MS:
                yield from self._told(place)
                storm = self._storms[place] = _Storm(change, self._accepted.get(place, 0))
            storm.add(change, self._accepted.get(place, 0))

    def end(self, holdings: Sequence[Holding], end_ms: int) -> Iterator[Finding]:
        """Give the storms that lasted to the end."""
        del holdings, end_ms
        for place in sorted(self._storms):
            yield from self._told(place)

    def _told(self, place: tuple[str, str]) -> Iterator[Finding]:
        storm = self._storms.get(place)
        if storm is None or storm.conflicts < LEAST:
            return
        clique, domain = place
        accepted = counted(storm.accepted - storm.accepted_before, "change")
        message = (
            f"{counted(storm.conflicts, 'write')} of the clique's object were refused with 409 within "
            f"{seconds(storm.end_ms - storm.begin_ms)}; {accepted} went through meanwhile"
        )
        records: tuple[Evidence, ...] = (storm.first, storm.last)
        yield Finding(self.code, self.severity, message, storm.begin_ms, records, clique, domain)

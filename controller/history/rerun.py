"""A rerun: what a controller with our rules would have done with what a history shows of the cluster.

Problem: in a recorded history others wrote the rows, and what they wrote is what went wrong. Invariant: a rerun takes
from the history what happened to nodes, pods, domains and DaemonSets, and nothing of what anybody decided or wrote; its
own decisions are folded as if they had been appended, and its own writes as if the API server had taken each at once
and the watch had shown it. Fold, proposals, diff, coalescing and pacing are the controller's own, run in the time of
the records. What it leaves out: conflicts, latency, and daemons that write their row themselves before they see it.
"""

import random
from collections.abc import Callable, Mapping
from typing import get_args

import msgspec

from controller.writing.coalescer import Coalescer, Limits
from controller.writing.pacing import Pace
from controller.writing.work import Applied, Refresh, Refreshed, Write
from eventlog.events import AnyEvent, CdcGone, CdcSeen, ControllerStarted, Decision, DomainSeen, WriteAnswered
from eventlog.record import Position, Record
from projections.audit.change import Change, change_of
from projections.clique import CliqueState
from projections.desired import clique_effects
from projections.effects import AnyEffect, Target, WriteCdc
from projections.fold import apply, is_clique
from projections.index import propose
from projections.settings import Settings

DRAIN_S = 3600.0
"""Time that is given after the last record for what is still to be written: far more than any wait."""


class Decided(msgspec.Struct, frozen=True):
    """A decision, and the record after which it was made."""

    time_ms: int
    position: Position
    clique: str
    decision: Decision


class Written(msgspec.Struct, frozen=True):
    """A write of a clique object, and the record after which it was called for."""

    time_ms: int
    position: str
    effect: WriteCdc


Act = Decided | Written
IGNORED = (CdcSeen, CdcGone, WriteAnswered, ControllerStarted, *get_args(Decision))
"""What a rerun does not take from the history: what anybody wrote or decided."""


class Rerun:
    """Takes the records of a history in the order of their times, and tells what it does by `acted` and `changed`."""

    def __init__(
        self, settings: Settings, pace: Pace, acted: Callable[[Act], None], changed: Callable[[Change], None]
    ) -> None:
        """Know nothing. `changed` is told each step of a clique's state, for those who follow holdings."""
        self._settings = settings
        self._coalescer = Coalescer(pace, Limits(), random.Random(0))  # noqa: S311 - a rerun is to repeat itself
        self._acted = acted
        self._changed = changed
        self._states: dict[str, CliqueState] = {}
        self.known: set[str] = set()
        """The domains that were seen themselves: of any other nothing is decided."""
        self._version = 0
        self._position = Position(0, 0)
        self._now_ms = 0

    def take(self, time_ms: int, record: Record, event: AnyEvent) -> None:
        """Go on to the record's time, and take in its event."""
        self._advance(time_ms / 1000)
        self._now_ms = max(self._now_ms, time_ms)
        if not is_clique(record.key):
            return
        # Versions are of one history: what the rerun writes is newer than all that it has seen.
        self._version = max(self._version, int(getattr(event, "resource_version", 0)))
        if isinstance(event, IGNORED):
            return
        if isinstance(event, DomainSeen):
            self.known.add(event.uid)
        self._position = Position(record.partition, record.offset)
        self._fold(record.key, event)
        self._settle(record.key)

    def end(self) -> None:
        """Write what is still to be written."""
        self._advance(self._now_ms / 1000 + DRAIN_S)

    def _fold(self, key: str, event: AnyEvent) -> None:
        before = self._states.get(key)
        after = apply(before, key, event)
        if isinstance(after, CliqueState):
            self._states[key] = after
            self._changed(change_of(self._position, self._now_ms, key, event, before, after))

    def _settle(self, key: str) -> None:
        """Decide what is due, and want what is then to be written."""
        for decision in propose(self._states[key], self._settings):
            self._acted(Decided(self._now_ms, self._position, key, decision))
            self._fold(key, decision)
        effects: Mapping[Target, AnyEffect] = {
            effect.target: effect for effect in clique_effects(self._states[key], key, self._settings)
        }
        self._coalescer.replace(self._now_ms / 1000, key, effects, str(self._position))

    def _advance(self, until_s: float) -> None:
        """Carry out what falls due up to then."""
        now = self._now_ms / 1000
        while now <= until_s:
            work, again_s = self._coalescer.next(now)
            if isinstance(work, Write) and isinstance(work.effect, WriteCdc):
                self._write(now, work, work.effect)
            elif isinstance(work, Refresh):
                self._coalescer.done(now, work.target, Refreshed(self._version_of(work)))
            elif work is None and again_s is not None:
                now = max(now, again_s)
            else:
                return

    def _version_of(self, work: Refresh) -> int:
        """Give the object's version, 0 if it is not there: it is as it was written last, and nobody else writes it."""
        domains = self._states[work.owner].domains.values()
        cdcs = [one.cdc for one in domains if one.cdc is not None and one.cdc.name == work.target.name]
        return cdcs[0].resource_version if cdcs else 0

    def _write(self, now: float, work: Write, effect: WriteCdc) -> None:
        self._now_ms = max(self._now_ms, round(now * 1000))
        self._version += 1
        self._acted(Written(self._now_ms, work.position, effect))
        uid = effect.uid or f"rerun-{effect.target.name}"
        name, namespace = effect.target.name, effect.target.namespace
        seen = CdcSeen(
            effect.domain,
            effect.clique,
            namespace,
            name,
            uid,
            self._version,
            effect.rows,
            effect.waiting,
            work.position,
        )
        self._coalescer.done(now, effect.target, Applied(self._version))
        self._fold(effect.clique, seen)
        self._settle(effect.clique)

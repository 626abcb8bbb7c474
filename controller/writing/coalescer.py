"""The coalescer: of all that is wanted of an object, only the newest is written, one write at a time (rule 7).

The engine says after each fold what an aggregate wants (`replace`); the applier asks what to do (`next`) and tells
what came of it (`done`). Invariants:

- at most one write or read per object is out;
- after a write, nothing more is sent for the object until the fold has seen that write (rules 3 and 8): what it wants
  before that was computed from a stale object. A wait of more than `hold_s` asks for a live read;
- a write that the server took for no change (it drops fields that a CRD does not know) is not sent again before
  something else is wanted, or the same of a newer object: it would go out for ever;
- complete cliques come first, then what was wanted longest; all under one ceiling;
- a failing object backs off alone, with full jitter; a server that asks for a pause gets it from all of them.

It does no I/O and knows no clock: every `now` is the caller's monotonic time, in seconds.
"""

import heapq
import random
from collections.abc import Mapping

import msgspec

from controller.writing.bucket import TokenBucket
from controller.writing.pacing import Pace, keep_s, written
from controller.writing.slot import Hold, Sent, Slot
from controller.writing.work import (
    Applied,
    Conflict,
    Failed,
    Gone,
    Outcome,
    Refresh,
    Refreshed,
    Refused,
    Throttled,
    Work,
    Write,
)
from projections.audit.situation import Pending
from projections.effects import AnyEffect, PostEvent, Target

REMEMBERED_S = 600.0
"""For how long it is remembered of an unwanted object that a write of it was not seen yet: no watch lags longer, since
one that is silent is cut within a minute or two."""

EVENTS_REMEMBERED = 10_000
"""Bound on the names of Events that this process has sent; the API server itself forgets Events after an hour."""


class Limits(msgspec.Struct, frozen=True):
    """Limits on requests, times in seconds.

    `writes_per_s` and `burst`: the ceiling. The API server's fairness counts requests at work: at 20 ms each, 300 a
    second keep six of its seats. While 280 cliques (5,040 nodes) fill side by side they need 130 a second, and all of
    them may be written at once; at 150 a second they waited behind each other. `hold_s`: a watch event that
    has not come back for this long may never come; `hold_cap_s` bounds the wait where looking did not help.
    `backoff_s`, `backoff_cap_s`: the first wait after a failure is random between 0 and `backoff_s`, the bound doubles
    up to the cap. `refused_s`: people must act first, so retries are rare. `retry_after_s`: the pause where a
    throttling server does not say how long (failure case B10); `retry_after_cap_s`: bound on what it, or a proxy on the
    way, may ask for.
    """

    writes_per_s: float = 300.0
    burst: int = 300
    hold_s: float = 5.0
    hold_cap_s: float = 60.0
    backoff_s: float = 0.2
    backoff_cap_s: float = 10.0
    refused_s: float = 30.0
    retry_after_s: float = 1.0
    retry_after_cap_s: float = 120.0


class Depth(msgspec.Struct, frozen=True):
    """How many objects wait to be written, are being written, and wait for their last write to be seen."""

    wanted: int
    in_flight: int
    held: int


class Coalescer:
    """One slot for each object that is wanted otherwise than it is."""

    def __init__(self, pace: Pace, limits: Limits, rng: random.Random) -> None:
        self._pace = pace
        self._limits = limits
        self._rng = rng
        self._bucket = TokenBucket(limits.writes_per_s, limits.burst)
        self._slots: dict[Target, Slot] = {}
        self._owned: dict[str, set[Target]] = {}
        self._posted: dict[Target, None] = {}
        # Two heaps with lazy deletion: what is not due yet by time, what is due by urgency. An entry counts only if
        # its ticket is its slot's newest.
        self._later: list[tuple[float, int, Target]] = []
        self._ready: list[tuple[int, float, int, Target]] = []
        self._tickets = 0

    def replace(self, now: float, owner: str, effects: Mapping[Target, AnyEffect], position: str) -> None:
        """Take all that `owner` (an aggregate's key) wants now, computed at `position` (`<partition>/<offset>`).

        What it wanted before and does not want any more is dropped. Of two owners that want something of one object
        the later one counts; the projections see to it that this does not happen.
        """
        for target in self._owned.get(owner, set()) - effects.keys():
            self._drop(now, owner, target)
        for target, effect in effects.items():
            if target in self._posted:
                continue
            slot = self._slots.setdefault(target, Slot(owner))
            slot.want(now, owner, effect, position)
            self._schedule(now, target, slot)
        if effects:
            self._owned[owner] = set(effects)
        else:
            self._owned.pop(owner, None)

    def next(self, now: float) -> tuple[Work | None, float | None]:
        """Give the next thing to do now, else the time at which to ask again (None: after the next call only)."""
        self._promote(now)
        while self._ready:
            _, _, ticket, target = self._ready[0]
            slot = self._slots.get(target)
            if slot is None or slot.effect is None or slot.ticket != ticket:
                heapq.heappop(self._ready)
                continue
            free = self._bucket.ready_at(now)
            if free > now:
                return None, free
            heapq.heappop(self._ready)
            self._bucket.take(now)
            return self._start(now, slot, slot.effect), None
        return None, self._later[0][0] if self._later else None

    def done(self, now: float, target: Target, outcome: Outcome) -> None:
        """Take what came of the work on `target`."""
        slot = self._slots[target]
        slot.in_flight = False
        match outcome:
            case Applied():
                self._applied(now, target, slot, outcome)
            case Refreshed(resource_version=version):
                slot.doubt = False
                self._hold(now, slot, slot.effect.resource_version if slot.effect else 0, version)
            case Gone():
                slot.unsend()
                self._hold(now, slot, slot.sent.effect.resource_version if slot.sent else 0, None)
            case Throttled(retry_after_s=asked):
                slot.unsend()
                self._back_off(now, slot, self._limits.retry_after_s if asked is None else asked)
            case Failed(retry_after_s=asked):
                slot.unsend()
                slot.question()
                self._back_off(now, slot, asked or 0.0)
            case Conflict():
                slot.unsend()
                slot.question()
                self._back_off(now, slot, 0.0)
            case Refused():
                slot.unsend()
                slot.not_before = now + self._limits.refused_s * self._rng.uniform(1.0, 1.5)
        self._schedule(now, target, slot)

    def depth(self) -> Depth:
        """Count the slots by what they are doing."""
        slots = [slot for slot in self._slots.values() if slot.effect is not None or slot.in_flight]
        flying = sum(slot.in_flight for slot in slots)
        held = sum(slot.hold is not None and not slot.in_flight for slot in slots)
        return Depth(len(slots) - flying - held, flying, held)

    def pending(self, now: float, target: Target) -> Pending | None:
        """Say what the object's next write waits for; None if nothing of it is wanted."""
        slot = self._slots.get(target)
        if slot is None or (slot.effect is None and not slot.in_flight):
            return None
        if slot.in_flight:
            return Pending("in-flight", 0.0)
        if slot.effect == slot.futile:
            return Pending("futile", 0.0)
        free, due = self._bucket.ready_at(now), slot.due(self._pace) or now
        if slot.not_before > now:
            return Pending("throttled" if free > now else "backing-off", slot.not_before - now)
        if slot.hold is not None:
            return Pending("held", max(0.0, slot.hold.until - now))
        if due > now:
            return Pending("paced", due - now)
        return Pending("throttled", free - now) if free > now else Pending("queued", 0.0)

    def _start(self, now: float, slot: Slot, effect: AnyEffect) -> Work:
        slot.in_flight, slot.scheduled = True, None
        if slot.doubt or slot.hold is not None:
            return Refresh(effect.target, slot.owner)
        since = now if slot.since is None else slot.since
        slot.sent = Sent(effect, since, slot.history)
        slot.history = written(self._pace, slot.history, effect, since, now, self._rng.random())
        slot.since = None
        return Write(effect, slot.position)

    def _applied(self, now: float, target: Target, slot: Slot, outcome: Applied) -> None:
        slot.attempts = 0
        sent = slot.sent.effect if slot.sent else None
        if isinstance(sent, PostEvent):
            slot.drop()
            self._posted[target] = None
            if len(self._posted) > EVENTS_REMEMBERED:
                del self._posted[next(iter(self._posted))]
        elif sent is not None:
            if outcome.changed_nothing(sent) and slot.effect in (None, sent):
                slot.futile = sent
            self._hold(now, slot, sent.resource_version, outcome.resource_version)

    def _hold(self, now: float, slot: Slot, base: int, version: int | None) -> None:
        """Wait for the fold to see the object as it is now, unless it has done so already."""
        patience = self._limits.hold_s
        if slot.hold is not None:
            # A live read that the fold makes nothing of will not help the next time either: ask ever more rarely.
            patience = min(slot.hold.patience_s * 2, self._limits.hold_cap_s)
        hold = Hold(base, version, now + patience, patience)
        if slot.effect is None:
            slot.hold = hold if base > 0 else None
        elif hold.released_by(slot.effect):
            slot.hold = None
            slot.since = now if slot.since is None else slot.since
        else:
            slot.hold = hold

    def _back_off(self, now: float, slot: Slot, asked_s: float) -> None:
        """Let the slot wait as long as the server asked and a random time more; what it asked for holds for all."""
        pause = min(asked_s, self._limits.retry_after_cap_s)
        if pause > 0:
            self._bucket.pause(now + pause)
        bound = min(self._limits.backoff_cap_s, self._limits.backoff_s * 2.0 ** min(slot.attempts, 32))
        slot.attempts += 1
        slot.not_before = now + pause + self._rng.uniform(0.0, bound)

    def _drop(self, now: float, owner: str, target: Target) -> None:
        slot = self._slots.get(target)
        if slot is not None and slot.owner == owner:
            slot.drop()
            self._schedule(now, target, slot)

    def _schedule(self, now: float, target: Target, slot: Slot) -> None:
        """Put the slot where it belongs in the queue; an entry that says the same already stays."""
        unwanted = slot.effect is None and not slot.in_flight
        due = self._forget_at(now, slot) if unwanted else slot.due(self._pace)
        key = None if due is None else (due, slot.rank())
        if key == slot.scheduled:
            return
        self._tickets += 1
        slot.scheduled, slot.ticket = key, self._tickets
        if due is not None:
            heapq.heappush(self._later, (due, slot.ticket, target))

    def _forget_at(self, now: float, slot: Slot) -> float:
        """Give the time from which nothing of an unwanted object's slot can matter."""
        paced = max(slot.history.written, slot.history.status) + keep_s(self._pace)
        held = now + REMEMBERED_S if slot.hold is not None or slot.doubt else now
        return max(now, slot.not_before, paced, held)

    def _promote(self, now: float) -> None:
        """Move what has become due from the order of time to the order of urgency, and forget what is at rest."""
        while self._later:
            due, ticket, target = self._later[0]
            slot = self._slots.get(target)
            current = slot is not None and slot.ticket == ticket
            if current and due > now:
                return
            heapq.heappop(self._later)
            if slot is None or not current:
                continue
            if slot.effect is None:
                del self._slots[target]
            else:
                since = now if slot.since is None else slot.since
                heapq.heappush(self._ready, (slot.rank(), since, ticket, target))

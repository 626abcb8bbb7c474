"""One object's place in the coalescer: its newest wanted effect, the write in flight, and what it waits for."""

import math

import msgspec
from msgspec.structs import replace

from controller.writing.pacing import History, Pace, earliest, wanted
from projections.effects import AnyEffect, PostEvent, WriteCdc


class Hold(msgspec.Struct, frozen=True):
    """Reason not to write: the fold has not seen the object as it is now, so an effect from it would be stale.

    `base` is the version that the fold had computed from when the hold began. `version` is the one that it has to
    reach: a write's result, a live read's (0: the object was not there), or None where the answer had none. If the
    fold has not reached it `patience_s` later, at `until`, a live read may help.
    """

    base: int
    version: int | None
    until: float
    patience_s: float

    def released_by(self, effect: AnyEffect) -> bool:
        """Say whether the fold had seen the object as it is now (or newer) when it computed `effect`."""
        seen = effect.resource_version
        if seen == 0 and self.base > 0:
            return True  # The fold had the object and has it no longer: it saw the deletion, which came after.
        if self.version is None:
            return seen > self.base
        if self.version == 0:
            return seen == 0 or seen > self.base
        return seen >= self.version


class Sent(msgspec.Struct, frozen=True):
    """What was sent last: the effect, since when its oldest change had waited, and the history before it."""

    effect: AnyEffect
    since: float
    history: History


class Slot(msgspec.Struct):
    """The state of one object. `since` is when the oldest change that is not yet written was wanted.

    `in_flight` says that a write or a read is out; `sent` is what was last sent. `futile` is
    an effect that the server took for no change: as long as the same is wanted, it is not sent again. `doubt` says that
    a live read has to come first. `not_before` and `attempts` are the back-off's. `scheduled` is the (due, rank) that
    the queue holds for the slot, `ticket` the number of that entry: older entries are void.
    """

    owner: str
    effect: AnyEffect | None = None
    position: str = ""
    since: float | None = None
    in_flight: bool = False
    sent: Sent | None = None
    futile: AnyEffect | None = None
    hold: Hold | None = None
    doubt: bool = False
    history: History = History()
    not_before: float = -math.inf
    attempts: int = 0
    scheduled: tuple[float, int] | None = None
    ticket: int = 0

    def want(self, now: float, owner: str, effect: AnyEffect, position: str) -> None:
        """Take the newest effect; an older one that was not sent is forgotten.

        One that was early has not aged: somebody waits for the news only now, and more of it is likely to come.
        """
        if self.effect is not None and _is_early(self.effect) and not _is_early(effect):
            self.since = None
        self.owner, self.effect, self.position = owner, effect, position
        self.history = wanted(self.history, effect, now)
        if self.hold and self.hold.released_by(effect):
            self.hold = None
        if self.futile is not None and effect != self.futile:
            self.futile, self.since = None, None  # What was not sent before is no delay of this change.
        if self.since is None:
            self.since = now

    def drop(self) -> None:
        """Want nothing of the object any more; what still delays the next wish stays.

        A hold stays too: the wish may have gone because the fold, which has not seen our write, takes the object for
        what it should be. Except after a creation: a later wish to create it means, more likely, that it was seen and
        deleted since; and should it be there after all, the API server says so. A doubt stays as well: a write whose
        answer was lost may have taken effect, whatever is wanted since.
        """
        self.effect, self.since = None, None
        if self.hold is not None and self.hold.base == 0:
            self.hold = None

    def unsend(self) -> None:
        """Count the change that was sent as not written; with doubt or a hold, what was out was only a read."""
        if self.sent is None or self.doubt or self.hold:
            return
        before = self.sent.history
        self.history = replace(before, expected=self.history.expected, joined=self.history.joined)
        if self.effect is not None:
            self.since = self.sent.since if self.since is None else min(self.since, self.sent.since)

    def question(self) -> None:
        """Ask for a live read before the next write. An Event needs none: its name stands for all that it says."""
        self.doubt = self.sent is not None and not isinstance(self.sent.effect, PostEvent)

    def due(self, pace: Pace) -> float | None:
        """Give the earliest time for the next write or read; None if there is nothing to do."""
        if self.in_flight or self.effect is None:
            return None  # What comes of the request that is out decides, or the next wish.
        if self.effect == self.futile:
            return None
        if self.doubt:
            return self.not_before
        if self.hold is not None:
            return max(self.not_before, self.hold.until)
        since = -math.inf if self.since is None else self.since
        return max(self.not_before, earliest(pace, self.history, self.effect, since))

    def rank(self) -> int:
        """Give the class of urgency: complete cliques come first (rule 7)."""
        return 0 if isinstance(self.effect, WriteCdc) and self.effect.complete else 1


def _is_early(effect: AnyEffect) -> bool:
    return isinstance(effect, WriteCdc) and effect.early

"""What the coalescer asks to be done next, and how it is told what came of it.

The coalescer decides by class of outcome only; which HTTP answer means which is the applier's business.
"""

import msgspec

from projections.effects import AnyEffect, DeleteObject, Target


class Write(msgspec.Struct, frozen=True):
    """Send this effect. `position` is the log position that it was computed at, as `<partition>/<offset>`."""

    effect: AnyEffect
    position: str

    @property
    def target(self) -> Target:
        """The object that is written."""
        return self.effect.target


class Refresh(msgspec.Struct, frozen=True):
    """Read the live object and record it as an observation, because what the fold knows of it is in doubt.

    `owner` is the key of the aggregate that wants something of the object.
    """

    target: Target
    owner: str


Work = Write | Refresh


class Applied(msgspec.Struct, frozen=True):
    """The write took effect. `resource_version` is the object's version after it; None where the answer has none."""

    resource_version: int | None

    def changed_nothing(self, effect: AnyEffect) -> bool:
        """Say whether the server took the write of `effect` for no change: the version is the one it was made from.

        Never of a deletion: some servers answer it with the object as it last was.
        """
        return self.resource_version == effect.resource_version and not isinstance(effect, DeleteObject)


class Conflict(msgspec.Struct, frozen=True):
    """The object is not the one that the effect was computed from; a live read has to follow."""


class Gone(msgspec.Struct, frozen=True):
    """The object is not there. That is no proof for the fold (rule 4): the watch says so, or a live read in a while."""


class Throttled(msgspec.Struct, frozen=True):
    """The server asks to slow down; nothing was done. `retry_after_s` is None where it did not say for how long."""

    retry_after_s: float | None


class Failed(msgspec.Struct, frozen=True):
    """No usable answer came. The write may have taken effect, so a live read comes before the next one.

    `retry_after_s` is the pause that a failing server asked for, else None.
    """

    cause: str
    retry_after_s: float | None


class Refused(msgspec.Struct, frozen=True):
    """The server will not do it (bad request, no permission, unknown kind): people must act; tried again rarely."""

    cause: str


class Refreshed(msgspec.Struct, frozen=True):
    """The live object was recorded. `resource_version` is its version, 0 if there is no such object."""

    resource_version: int


Outcome = Applied | Conflict | Gone | Throttled | Failed | Refused | Refreshed

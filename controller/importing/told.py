"""What a line of an input tells: the vocabulary between the formats and the recorder.

Problem: an audit log, a watch and a list say the same things in different ways. Invariant: a format turns a line into
these, and knows nothing of the lines around it; what must be concluded from several lines is the recorder's. Pure.
"""

from datetime import UTC, datetime

import msgspec

from eventlog.events import WriteAnswered
from kube import reflector
from kube.client import Resource
from kube.names import CDCS, CLAIM_TEMPLATES, COMPUTE_DOMAINS, DAEMON_SETS, NODES, PODS
from kube.objects import Integer, KubeObject, Struct, object_decoder

MENTIONED = "the newest time that the objects mention, to the second"
"""What a record's time is taken from where the source states none."""
IMPORT = "import"
"""Stands for a resource where a whole line is missing: it may have told of any."""
UNDECODABLE = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
"""What decoding raises for bytes that are not what they should be: nested too deep, or of a time out of range, too."""


class NotUnderstood(Exception):
    """A line that is not what its format says; the message says why, and holds nothing of the line's content."""


class ObjectTold(msgspec.Struct, frozen=True):
    """An object as it was once.

    `dated` is empty if the source states the time, else what it was taken from. `generation` counts the changes of a
    CDC's content, 0 if it does not say. `gone`: it was deleted, and this is how it was last. `writer` is the user
    whose write made it so, empty if unknown; `inferred` why it is concluded, empty if the source shows it.

    `in_place`: the source has an order of its own, in which lists have their beginning and end (a capture), and
    `listed` says that it was in such a list.

    `watched` is of a watch whose list is not told apart: False where the object may be of that list, True where it
    cannot be, so that the watch had begun. None: it is of no such watch.
    """

    source: str
    time_ms: int
    resource: Resource
    object: KubeObject
    generation: int
    dated: str = ""
    gone: bool = False
    writer: str = ""
    inferred: str = ""
    in_place: bool = False
    listed: bool = False
    watched: bool | None = None

    @property
    def version(self) -> int:
        """The object's resourceVersion."""
        return self.object.metadata.resource_version


class Removed(msgspec.Struct, frozen=True):
    """An object was deleted, and all that the source tells of it is its name, and perhaps its UID."""

    source: str
    time_ms: int
    resource: Resource
    namespace: str
    name: str
    writer: str = ""
    uid: str = ""


class WantedRow(Struct, frozen=True):
    """A row in the body of a write."""

    node_name: str = ""
    ip_address: str = ""
    index: Integer | None = None
    status: str = "NotReady"


class Answered(msgspec.Struct, frozen=True):
    """A write and its answer, where the object that came of it is not told or there is none.

    `rows` are those in the write's body (None: not told), `base` the resourceVersion that it was computed from (0: not
    told), `request` what tells the request from all others.
    """

    source: str
    time_ms: int
    event: WriteAnswered
    writer: str
    request: str
    rows: tuple[WantedRow, ...] | None = None
    base: int = 0


class Lost(msgspec.Struct, frozen=True):
    """Something that the source should tell is missing here; `resource` is a plural, or `import` for a whole line.

    `namespace`: the only one that it concerns; empty if that is not known.
    """

    source: str
    time_ms: int
    resource: str
    cause: str
    namespace: str = ""


class Marked(msgspec.Struct, frozen=True):
    """A list began or was complete, or a watch had a gap, as a reflector told it."""

    source: str
    time_ms: int
    event: reflector.RelistBegan | reflector.RelistCompleted | reflector.Gap


Told = ObjectTold | Removed | Answered | Lost | Marked


class _ManagedFields(Struct, frozen=True):
    time: datetime | None = None


class _Meta(Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: Integer = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: Integer = 0
    finalizers: tuple[str, ...] = ()
    managed_fields: tuple[_ManagedFields, ...] = ()


class Outline(Struct, frozen=True):
    """What any object says of its kind, its age and its end."""

    kind: str = ""
    api_version: str = ""
    metadata: _Meta = _Meta()

    @property
    def ended(self) -> bool:
        """Whether nothing holds the object back any more from being deleted."""
        meta = self.metadata
        return meta.deletion_timestamp is not None and not meta.finalizers and meta.deletion_grace_period_seconds == 0

    @property
    def mentioned_ms(self) -> int:
        """The newest time that the object's metadata mentions, in Unix milliseconds; 0 if it mentions none."""
        meta = self.metadata
        times = [entry.time for entry in meta.managed_fields]
        ended = meta.deletion_timestamp if self.ended else None  # Until then it is a time to come.
        return max((milliseconds(time) for time in (meta.creation_timestamp, ended, *times) if time), default=0)


RESOURCES = (CDCS, PODS, COMPUTE_DOMAINS, NODES, DAEMON_SETS, CLAIM_TEMPLATES)
"""The kinds that an import takes in."""


class Objects:
    """Reads objects of the kinds that an import takes in, of whatever version of their group."""

    def __init__(self) -> None:
        """Make the decoders."""
        self._by_plural = {(one.group, one.plural): (one, object_decoder(one)) for one in RESOURCES}
        self._by_kind = {(one.group, one.kind): one for one in RESOURCES}
        self._outlines = msgspec.json.Decoder(Outline)

    def resource(self, group: str, plural: str) -> Resource | None:
        """Give the kind by its plural; None if an import does not take it in."""
        found = self._by_plural.get((group, plural))
        return found[0] if found else None

    def resource_of(self, outline: Outline) -> Resource | None:
        """Give the kind that an object says it is of; None if an import does not take it in."""
        group = outline.api_version.rpartition("/")[0]
        return self._by_kind.get((group, outline.kind))

    def outline(self, raw: msgspec.Raw | bytes) -> Outline:
        """Read the outline. Raises msgspec.DecodeError."""
        return self._outlines.decode(raw)

    def object(self, resource: Resource, raw: msgspec.Raw | bytes) -> KubeObject:
        """Read the object. Raises msgspec.DecodeError."""
        return self._by_plural[resource.group, resource.plural][1].decode(raw)


def milliseconds(time: datetime) -> int:
    """Give Unix milliseconds. Raises ValueError for a time before 1970."""
    count = int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    if count < 0:
        raise ValueError(f"the time {time} is before 1970")
    return count

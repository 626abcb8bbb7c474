"""One line of a watch, decoded strictly, and before anything is told: what does not decode changes nothing."""

import msgspec

from kube.client import ApiError, Undecodable
from kube.envelopes import Bookmark, Status, WatchEvent
from kube.objects import KubeObject
from kube.status import from_status


class Changed(msgspec.Struct, frozen=True):
    """An object was added or modified."""

    object: KubeObject

    @property
    def version(self) -> int:
        """The resourceVersion of the change."""
        return self.object.metadata.resource_version


class Removed(msgspec.Struct, frozen=True):
    """An object was deleted or no longer matches."""

    object: KubeObject

    @property
    def version(self) -> int:
        """The resourceVersion of the change."""
        return self.object.metadata.resource_version


class Progress(msgspec.Struct, frozen=True):
    """Everything up to this version has been sent (a bookmark)."""

    version: int


Change = Changed | Removed | Progress

_events = msgspec.json.Decoder(WatchEvent)


def read_change(line: bytes, decoder: msgspec.json.Decoder[KubeObject]) -> Change:
    """Decode a line. Raises the ApiError that an ERROR event or a bare Status stands for; Undecodable for nonsense.

    The line's text is not in the message: objects may hold secrets.
    """
    try:
        change = _read(line, decoder)
    except msgspec.DecodeError as error:
        raise Undecodable(f"a watch line of {len(line)} bytes: {error}") from error
    if isinstance(change, ApiError):
        raise change
    return change


def _read(line: bytes, decoder: msgspec.json.Decoder[KubeObject]) -> Change | ApiError:
    event = _events.decode(line)
    match event.type:
        case "ADDED" | "MODIFIED":
            return Changed(decoder.decode(event.object))
        case "DELETED":
            return Removed(decoder.decode(event.object))
        case "BOOKMARK":
            return Progress(int(msgspec.json.decode(event.object, type=Bookmark).metadata.version))
        case "ERROR":
            return from_status(msgspec.json.decode(event.object, type=Status), 500)
        case "":
            status = msgspec.json.decode(line, type=Status)
            if status.kind == "Status":
                return from_status(status, 500)
            raise Undecodable("a watch line that is neither an event nor a Status")
        case other:
            raise Undecodable(f"a watch event of unknown type {other[:40]!r}")

"""Our own captures: what the reflectors of a controller were told (`controller/recording/capturing.py`)."""

from collections.abc import Iterator, Sequence

import msgspec

from controller.importing.told import RESOURCES, UNDECODABLE, Marked, NotUnderstood, Objects, ObjectTold, Told
from controller.recording.capturing import FORM, AnyLine, Began, Completed, Header, Missed, Page, Watched
from kube import reflector
from kube.client import Resource, Selector
from kube.envelopes import WatchEvent
from kube.names import CDCS


class _Page(msgspec.Struct):
    items: tuple[msgspec.Raw, ...] = ()


class Capture:
    """Reads the lines."""

    timed = True

    def __init__(self, objects: Objects) -> None:
        """Read with these decoders."""
        self._objects = objects
        self._lines: msgspec.json.Decoder[AnyLine] = msgspec.json.Decoder(AnyLine)
        self._events = msgspec.json.Decoder(WatchEvent)
        self._resources = {one.plural: one for one in RESOURCES}

    def read(self, line: bytes, source: str) -> Sequence[Told]:
        """Give what the line tells. Raises NotUnderstood."""
        try:
            return tuple(self._told(self._lines.decode(line), source))
        except UNDECODABLE as error:
            raise NotUnderstood(f"it is not a line of a capture: {error}") from error

    def _told(self, line: AnyLine, source: str) -> Iterator[Told]:
        if isinstance(line, Header):
            if line.form != FORM:
                raise NotUnderstood(f"it is a capture of form {line.form[:40]!r}, and this program reads {FORM!r}")
            return
        resource = self._resources.get(line.resource)
        if resource is None:
            return
        if isinstance(line, Page):
            for item in msgspec.json.decode(line.page, type=_Page).items:
                yield self._object(resource, item, source, line.at, listed=True)
        elif isinstance(line, Watched):
            event = self._events.decode(line.event)
            if event.type in {"ADDED", "MODIFIED", "DELETED"}:
                gone = event.type == "DELETED"
                yield self._object(resource, event.object, source, line.at, gone=gone)
        else:
            yield Marked(source, line.at, _mark(line, Selector(resource)))

    def _object(
        self, resource: Resource, raw: msgspec.Raw, source: str, at: int, *, listed: bool = False, gone: bool = False
    ) -> ObjectTold:
        generation = self._objects.outline(raw).metadata.generation if resource == CDCS else 0
        found = self._objects.object(resource, raw)
        return ObjectTold(source, at, resource, found, generation, gone=gone, in_place=True, listed=listed)


def _mark(
    line: Began | Completed | Missed, selector: Selector
) -> reflector.RelistBegan | reflector.RelistCompleted | reflector.Gap:
    match line:
        case Began():
            return reflector.RelistBegan(selector, line.cause)
        case Completed():
            return reflector.RelistCompleted(selector, line.version, line.objects)
        case Missed():
            return reflector.Gap(selector, line.version, line.cause)

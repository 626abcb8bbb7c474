"""Our own captures: what the reflectors of a controller were told (`controller/recording/capturing.py`).

Nearly every line is a line of a watch, as our recorder writes it. Of which kind its object is stands at its beginning,
so it is decoded in one pass, fields and all. What that does not fit (a bookmark, an error, a line that another program
wrote anew) is decoded step by step, which also gives the reasons.
"""

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from controller.importing.told import RESOURCES, UNDECODABLE, Marked, NotUnderstood, Objects, ObjectTold, Told
from controller.recording.capturing import FORM, AnyLine, Began, Completed, Header, Milliseconds, Missed, Page, Watched
from kube import reflector
from kube.client import Resource, Selector
from kube.envelopes import WatchEvent
from kube.objects import KubeObject, type_of

T = TypeVar("T", bound=KubeObject)
_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})
_NAME = b'"resource":"'
_NAME_WITHIN = 120
"""Bytes of a line in which the kind's name begins."""


class _Page(msgspec.Struct):
    items: tuple[msgspec.Raw, ...] = ()


class _Event(msgspec.Struct, Generic[T]):
    type: str
    object: T


class _WatchLine(msgspec.Struct, Generic[T], tag_field="told", tag="watch"):
    at: Milliseconds
    resource: str
    event: _Event[T]


class Capture:
    """Reads the lines."""

    timed = True

    def __init__(self, objects: Objects) -> None:
        """Read with these decoders."""
        self._objects = objects
        self._lines: msgspec.json.Decoder[AnyLine] = msgspec.json.Decoder(AnyLine)
        self._events = msgspec.json.Decoder(WatchEvent)
        self._resources = {one.plural: one for one in RESOURCES}
        self._at_once = {one.plural.encode(): (one, _at_once(one)) for one in RESOURCES}

    def read(self, line: bytes, source: str) -> Sequence[Told]:
        """Give what the line tells. Raises NotUnderstood."""
        if (told := self._read_at_once(line, source)) is not None:
            return (told,)
        try:
            return tuple(self._told(self._lines.decode(line), source))
        except UNDECODABLE as error:
            raise NotUnderstood(f"it is not a line of a capture: {error}") from error

    def _read_at_once(self, line: bytes, source: str) -> ObjectTold | None:
        """Give what a line of a watch tells of an object; None if it is none, or does not begin like one."""
        name = line.find(_NAME, 0, _NAME_WITHIN) + len(_NAME)
        kind = self._at_once.get(line[name : line.find(b'"', name)])
        if kind is None:
            return None
        resource, decoder = kind
        try:
            found = decoder.decode(line)
        except UNDECODABLE:
            return None
        event = found.event
        if found.resource != resource.plural or event.type not in _CHANGES:
            return None
        return _object(resource, event.object, source, found.at, gone=event.type == "DELETED")

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
                yield _object(resource, self._objects.object(resource, item), source, line.at, listed=True)
        elif isinstance(line, Watched):
            event = self._events.decode(line.event)
            if event.type in _CHANGES:
                found = self._objects.object(resource, event.object)
                yield _object(resource, found, source, line.at, gone=event.type == "DELETED")
        else:
            yield Marked(source, line.at, _mark(line, Selector(resource)))


def _at_once(resource: Resource) -> msgspec.json.Decoder[_WatchLine[KubeObject]]:
    kind = type_of(resource)
    return msgspec.json.Decoder(_WatchLine[kind])  # type: ignore[valid-type]  # the parameter is known at run time only


def _object(
    resource: Resource, found: KubeObject, source: str, at: int, *, listed: bool = False, gone: bool = False
) -> ObjectTold:
    generation = found.metadata.generation
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

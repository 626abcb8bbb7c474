"""What `kubectl get ... -o json` or `-o yaml` prints: objects as they were at one moment, which is not told.

A list may leave out what a selector or a namespace left out, so that absence from it proves nothing.
"""

from collections.abc import Iterator, Sequence

import msgspec

from controller.importing.told import MENTIONED, UNDECODABLE, NotUnderstood, Objects, ObjectTold, Told


class _List(msgspec.Struct):
    items: tuple[msgspec.Raw, ...] = ()


class Snapshot:
    """Reads objects, and lists of them."""

    timed = False

    def __init__(self, objects: Objects) -> None:
        """Read with these decoders."""
        self._objects = objects

    def read(self, line: bytes, source: str) -> Sequence[Told]:
        """Give what the line tells. Raises NotUnderstood."""
        try:
            return tuple(self._told(msgspec.Raw(line), source, may_be_list=True))
        except UNDECODABLE as error:
            raise NotUnderstood(f"it is not an object of Kubernetes: {error}") from error

    def _told(self, raw: msgspec.Raw, source: str, *, may_be_list: bool) -> Iterator[Told]:
        outline = self._objects.outline(raw)
        if not outline.kind:
            raise NotUnderstood("it is not an object of Kubernetes: it has no kind")
        resource = self._objects.resource_of(outline)
        if resource is not None:
            found = self._objects.object(resource, raw)
            yield ObjectTold(source, outline.mentioned_ms, resource, found, outline.metadata.generation, MENTIONED)
        elif outline.kind.endswith("List") and may_be_list:
            for number, item in enumerate(msgspec.json.decode(raw, type=_List).items, 1):
                yield from self._told(item, f"{source}#{number}", may_be_list=False)

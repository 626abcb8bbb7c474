"""What `kubectl get ... -w -o json --output-watch-events` prints: one watch event of the API a line."""

from collections.abc import Sequence

import msgspec

from controller.importing.told import IMPORT, MENTIONED, UNDECODABLE, Lost, NotUnderstood, Objects, ObjectTold, Told
from kube.envelopes import WatchEvent


class WatchStream:
    """Reads the lines. They state no time; the objects mention some, to the second."""

    timed = False

    def __init__(self, objects: Objects) -> None:
        """Read with these decoders."""
        self._objects = objects
        self._events = msgspec.json.Decoder(WatchEvent)

    def read(self, line: bytes, source: str) -> Sequence[Told]:
        """Give what the line tells. Raises NotUnderstood."""
        try:
            event = self._events.decode(line)
            if event.type in {"ADDED", "MODIFIED", "DELETED"}:
                return self._changed(event, source)
        except UNDECODABLE as error:
            raise NotUnderstood(f"it is not a watch event: {error}") from error
        if event.type == "BOOKMARK":
            return ()
        if event.type == "ERROR":
            return (Lost(source, 0, IMPORT, "the watch ended with an error; what follows is not told"),)
        raise NotUnderstood(f"a watch event has no type {event.type[:20]!r}")

    def _changed(self, event: WatchEvent, source: str) -> Sequence[Told]:
        outline = self._objects.outline(event.object)
        resource = self._objects.resource_of(outline)
        if resource is None:
            return ()
        found = self._objects.object(resource, event.object)
        return (
            ObjectTold(
                source,
                outline.mentioned_ms,
                resource,
                found,
                outline.metadata.generation,
                dated=MENTIONED,
                gone=event.type == "DELETED",
                watched=event.type != "ADDED",
            ),
        )

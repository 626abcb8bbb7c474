"""Documents: inputs that are not a line an object, taken apart into objects.

Problem: `kubectl get -o json` and the export tools of log services print one JSON value over many lines, a list of
thousands of objects maybe, or several values one after the other; `kubectl get -o yaml` prints YAML. Invariant: JSON is
read as a stream, and an item of a list is given as soon as it is whole. YAML has no streaming form in the library, so
it is read whole, and refused beyond `YAML_MAX`. Aliases are refused: a few lines of them stand for gigabytes.
"""

from collections.abc import Iterator

import ijson
import msgspec
import yaml

from controller.importing.inputs import Stream

YAML_MAX = 64 << 20
"""Bytes of a YAML document."""
BYTES_MAX = 32 << 20
"""Bytes of one object, spaces of a pretty print included; one of Kubernetes has 1.5 MiB at most."""
DEPTH_MAX = 100
"""Brackets in brackets: the deepest objects of Kubernetes, CRD schemas, have some thirty."""
LISTS = frozenset({"items", "records", "events", "logEvents"})
"""Fields of a top-level object whose items are given one by one."""


class Unreadable(Exception):
    """The document, or the rest of it, cannot be read; the message says why."""


class _Bounded:
    """Gives the stream's bytes as long as what is read of one object stays within its bounds."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._left = BYTES_MAX

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise Unreadable(f"an object in it is longer than {BYTES_MAX >> 20} MiB")
        return data

    def begin(self) -> None:
        """Begin to count anew."""
        self._left = BYTES_MAX


class _Items:
    """Builds each value, but for the lists: their items are built one by one, and then the value itself is no object.

    The place is followed by hand, since the library's names of places take memory with the square of the depth.
    """

    def __init__(self) -> None:
        self._open: list[str] = []
        self._key = ""
        self._listing = 0
        self._gave = False
        self._whole = ijson.ObjectBuilder()
        self._item: ijson.ObjectBuilder | None = None

    def take(self, event: str, value: object) -> bytes | None:
        """Give the object that this part ends, if it ends one."""
        begins, ends = event in {"start_map", "start_array"}, event in {"end_map", "end_array"}
        if event == "map_key" and len(self._open) == 1:
            self._key = str(value)
        if event == "start_map" and self._listing and len(self._open) == self._listing:
            self._item = ijson.ObjectBuilder()
        (self._whole if self._item is None else self._item).event(event, value)
        if begins:
            self._begin(event)
        return self._end() if ends else None

    def _begin(self, event: str) -> None:
        self._open.append(event)
        if len(self._open) > DEPTH_MAX:
            raise Unreadable(f"it is nested deeper than {DEPTH_MAX}")
        is_list = self._open == ["start_array"] or (self._open == ["start_map", "start_array"] and self._key in LISTS)
        if is_list:
            self._listing = len(self._open)

    def _end(self) -> bytes | None:
        ended = self._open.pop()
        depth = len(self._open)
        if depth < self._listing:
            self._listing = 0
        if self._item is not None and depth == self._listing:
            found, self._item, self._gave = self._item.value, None, True
            return msgspec.json.encode(found)
        if depth:
            return None
        whole, self._whole = self._whole, ijson.ObjectBuilder()
        gave, self._gave = self._gave, False
        return msgspec.json.encode(whole.value) if ended == "start_map" and not gave else None


def json_items(stream: Stream) -> Iterator[bytes]:
    """Give each object of the JSON values in the stream: those of a list, else the value itself. Raises Unreadable."""
    bounded, items = _Bounded(stream), _Items()
    found = False
    try:
        for event, value in ijson.basic_parse(bounded, multiple_values=True, use_float=True):
            item = items.take(event, value)
            if item is not None:
                bounded.begin()
                found = True
                yield item
    except (ijson.JSONError, ValueError, OverflowError) as error:
        raise Unreadable(f"it is not JSON: {str(error).splitlines()[0].strip()}") from error
    if not found:
        raise Unreadable("it holds no JSON objects")


def yaml_items(stream: Stream) -> Iterator[bytes]:
    """Give each object of the YAML documents in the stream. Raises Unreadable."""
    text = stream.read(YAML_MAX + 1)
    if len(text) > YAML_MAX:
        raise Unreadable(f"it is longer than {YAML_MAX >> 20} MiB; get it as JSON, which is read as a stream")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=loader)):
            raise Unreadable("it has aliases, which kubectl never writes")
        for document in yaml.load_all(text, Loader=loader):
            if isinstance(document, dict) and isinstance(document.get("items"), list):
                yield from (msgspec.json.encode(one) for one in document["items"] if isinstance(one, dict))
            elif isinstance(document, dict):
                yield msgspec.json.encode(document)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Unreadable(f"it is not YAML of Kubernetes objects: {reason}") from error

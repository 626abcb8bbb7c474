"""The canonical encoding of events, its versions, and the way up from old ones.

An event is encoded as JSON with its `type` tag first, fields in declared order, defaults left out, sets and dicts in
sorted order: equal events give equal bytes, on every machine. The bytes in the log are never written anew: an old
version is lifted by its upcasters each time it is read.

Two records give no event, and they are not alike. One of a newer schema may say anything, an index too: who passes over
it folds to another state than the program that wrote it, so a reader must end there. Bytes that are no event of the
version that they state say nothing to any program, now or later: every reader passes over them and names them, since a
log that one such record could close for good would be closed by the first stray producer.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache

import msgspec

from eventlog.event import Event
from eventlog.events import AnyEvent
from eventlog.log import LogError
from eventlog.record import Entry, Headers, Record

SCHEMA_VERSION = 1
"""Version of the events that this program writes."""

Upcaster = Callable[[dict[str, object]], dict[str, object]]

UPCASTERS: Mapping[int, Upcaster] = {}
"""By version: the function that turns an event of that version, as a JSON object, into one of the next."""

_encoder = msgspec.json.Encoder(order="deterministic")


class UndecodableRecord(LogError):
    """A record that is no event of the schema version that it states; the message names it and says why."""


class NewerSchema(LogError):
    """A record of a schema version that this program does not know yet; the message names it and both versions."""


class Decoder:
    """Reads events of `version` as they are, and older ones through their upcasters, one version after the other."""

    def __init__(self, version: int, upcasters: Mapping[int, Upcaster]) -> None:
        self._version = version
        self._upcasters = upcasters
        self._decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)

    def decode(self, record: Record | Entry) -> AnyEvent:
        """Give the record's event, lifted to this decoder's version.

        Raises NewerSchema, or UndecodableRecord for bytes that are not an event of the version stated.
        """
        version = record.headers.schema_version
        if version > self._version:
            raise NewerSchema(
                f"record {_place(record)} has schema version {version} and this program reads up to {self._version}; "
                "use a newer cliquelog"
            )
        try:
            if version == self._version:
                return self._decoder.decode(record.value)
            return self._decode_old(record.value, version)
        except (msgspec.DecodeError, LookupError, RecursionError) as error:
            raise UndecodableRecord(f"record {_place(record)} cannot be decoded: {error}") from error

    def _decode_old(self, value: bytes, version: int) -> AnyEvent:
        fields = msgspec.json.decode(value, type=dict[str, object])
        for step in range(version, self._version):
            upcaster = self._upcasters.get(step)
            if upcaster is None:
                raise LookupError(f"it has schema version {version}, and nothing lifts version {step} to {step + 1}")
            fields = upcaster(fields)
        event: AnyEvent = msgspec.convert(fields, AnyEvent)
        return event


_current = Decoder(SCHEMA_VERSION, UPCASTERS)


def encode(event: Event) -> bytes:
    """Give the event's canonical bytes."""
    return _encoder.encode(event)


def entry(key: str, event: Event, *, timestamp_ms: int, controller: str) -> Entry:
    """Make the log entry that carries `event` under `key`."""
    return Entry(key, timestamp_ms, _headers(type(event), controller), encode(event))


@lru_cache(maxsize=256)
def _headers(kind: type[Event], controller: str) -> Headers:
    return Headers(str(kind.__struct_config__.tag), SCHEMA_VERSION, controller)


def decode(record: Record | Entry) -> AnyEvent:
    """Give the record's event, lifted to the current schema version; raises UndecodableRecord, NewerSchema."""
    return _current.decode(record)


def _place(record: Record | Entry) -> str:
    if isinstance(record, Record):
        return f"{record.topic} {record.partition}/{record.offset}"
    return f"of key {record.key}"

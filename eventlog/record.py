"""Records: the unit of the log, and what it promises.

The words are Kafka's, because in a cluster the log is a Kafka topic: a topic has partitions, a record has an offset
within its partition, and all records of one key are in one partition in one order. The key of a record is the clique
ID (`<clusterUUID>.<cliqueNumber>`) for what concerns one NVLink partition, the ComputeDomain's UID for what concerns a
domain as a whole, `watch/<resource>` for visibility marks and `controller/<identity>` for a controller's start.

The structs hold no containers, so they can be in no cycle: with `gc=False` the collector does not walk them by the
million.
"""

import hashlib

import msgspec

GENESIS = bytes(32)
"""Head of the hash chain of an empty partition."""


class Headers(msgspec.Struct, frozen=True, gc=False):
    """What a reader must know of a record before it decodes the event.

    `event_type` is the event's tag, `schema_version` the version that the event was encoded with, `controller` the
    identity of the process that appended it.
    """

    event_type: str
    schema_version: int
    controller: str


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A record on its way into the log: all of it but the place that the log gives it.

    `value` is the event in its canonical encoding (see `eventlog.codec`); `timestamp_ms` is Unix time in milliseconds,
    by the clock of the appending process.
    """

    key: str
    timestamp_ms: int
    headers: Headers
    value: bytes


class Record(msgspec.Struct, frozen=True, gc=False):
    """An entry with its place: `offset` rises within `partition` and may have gaps (Kafka's transaction markers)."""

    topic: str
    partition: int
    offset: int
    key: str
    timestamp_ms: int
    headers: Headers
    value: bytes


class Position(msgspec.Struct, frozen=True, order=True, gc=False):
    """A place in the log."""

    partition: int
    offset: int

    def __str__(self) -> str:
        """Give `<partition>/<offset>`, the form used in annotations and reports."""
        return f"{self.partition}/{self.offset}"


def chain(head: bytes, record: Entry | Record) -> bytes:
    """Give the partition's next head: SHA-256 over the head before and the record's canonical content.

    The place of the record is left out, so that a log that was copied to another engine keeps its heads. No field
    but the last can hold a NUL (the adapters refuse one), so the joined form is unambiguous.
    """
    headers = record.headers
    text = (
        f"{record.key}\0{record.timestamp_ms}\0{headers.event_type}\0{headers.schema_version}\0{headers.controller}\0"
    )
    return hashlib.sha256(head + text.encode() + record.value).digest()


def refusal(entry: Entry) -> str:
    """Say in one sentence why no engine may store the entry; empty if it is fit.

    A NUL would make the hash chain ambiguous, text that is not Unicode has no bytes, and the numbers must fit the
    64-bit integers of SQLite and Kafka.
    """
    headers = entry.headers
    for name, text in (("key", entry.key), ("event type", headers.event_type), ("controller", headers.controller)):
        if "\0" in text:
            return f"the {name} {text!r} contains a NUL character; leave it out"
        if not text.isascii() and _has_lone_surrogate(text):
            return f"the {name} {text!r} contains half a surrogate pair, which is not Unicode text; leave it out"
    if not 0 <= entry.timestamp_ms < 1 << 63:
        return f"the timestamp {entry.timestamp_ms} of key {entry.key!r} is not a count of milliseconds since 1970"
    if not 0 < headers.schema_version < 1 << 31:
        return f"the schema version {headers.schema_version} of key {entry.key!r} is not a positive 32-bit number"
    return ""


def _has_lone_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)

"""Records: the unit of the log, and what it promises.

The words are Kafka's, because in a cluster the log is a Kafka topic: a topic has partitions, a record has an offset
within its partition, and all records of one key are in one partition in one order. The key of a record is the clique
ID (`<clusterUUID>.<cliqueNumber>`) for what concerns one NVLink partition, the ComputeDomain's UID for what concerns a
domain as a whole, `watch/<resource>` for visibility marks and `controller/<identity>` for a controller's start.
"""

import hashlib

import msgspec

GENESIS = bytes(32)
"""Head of the hash chain of an empty partition."""


class Headers(msgspec.Struct, frozen=True):
    """What a reader must know of a record before it decodes the event.

    `event_type` is the event's tag, `schema_version` the version that the event was encoded with, `controller` the
    identity of the process that appended it.
    """

    event_type: str
    schema_version: int
    controller: str


class Entry(msgspec.Struct, frozen=True):
    """A record on its way into the log: all of it but the place that the log gives it.

    `value` is the event in its canonical encoding (see `eventlog.codec`); `timestamp_ms` is Unix time in milliseconds,
    by the clock of the appending process.
    """

    key: str
    timestamp_ms: int
    headers: Headers
    value: bytes


class Record(msgspec.Struct, frozen=True):
    """An entry with its place: `offset` rises within `partition` and may have gaps (Kafka's transaction markers)."""

    topic: str
    partition: int
    offset: int
    key: str
    timestamp_ms: int
    headers: Headers
    value: bytes


class Position(msgspec.Struct, frozen=True, order=True):
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

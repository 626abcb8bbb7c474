"""How a record of the log looks in Kafka, and how it is told from a record that somebody else put there.

Key and value are Kafka's; the three headers carry what a reader must know before it decodes the event. A topic has no
lock: other programs can write to it, and a record cannot be taken out. So what does not look like a record of ours is
not one, for every reader alike: it is passed over, and its offset becomes a gap. The same goes for what no log of ours
stores (a key in another partition than its own, above all: a second state of that key would grow there).
"""

from functools import lru_cache

from eventlog.kafka.driver import Message
from eventlog.partitioner import partition_for
from eventlog.record import Entry, Headers, Record, refusal

EVENT_TYPE = "event-type"
SCHEMA_VERSION = "schema-version"
CONTROLLER = "controller"


def message_of(entry: Entry, partition: int) -> Message:
    """Give the entry as Kafka stores it."""
    headers = entry.headers
    return Message(
        partition,
        -1,
        entry.timestamp_ms,
        entry.key.encode(),
        entry.value,
        _encoded(headers.event_type, headers.schema_version, headers.controller),
    )


def record_of(topic: str, partitions: int, message: Message) -> Record | str:
    """Give the record of a log of so many partitions that the message is, or why it is none."""
    if message.key is None:
        return "it has no key"
    if message.value is None:
        return "it has no value"
    try:
        headers = _headers(tuple(message.headers))
        key = message.key.decode()
    except ValueError as error:
        return "its key is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
    if reason := refusal(Entry(key, message.timestamp_ms, headers, message.value)):
        return reason
    if (right := partition_for(key, partitions)) != message.partition:
        return f"its key {key!r} belongs to partition {right}"
    return Record(topic, message.partition, message.offset, key, message.timestamp_ms, headers, message.value)


@lru_cache(maxsize=1 << 12)
def _encoded(event_type: str, schema_version: int, controller: str) -> tuple[tuple[str, bytes], ...]:
    return (
        (EVENT_TYPE, event_type.encode()),
        (SCHEMA_VERSION, b"%d" % schema_version),
        (CONTROLLER, controller.encode()),
    )


@lru_cache(maxsize=1 << 12)
def _headers(pairs: tuple[tuple[str, bytes], ...]) -> Headers:
    """Read the headers; few different ones come again and again. Raises ValueError with the reason."""
    found = dict(pairs)
    texts = []
    for name in (EVENT_TYPE, SCHEMA_VERSION, CONTROLLER):
        if found.get(name) is None:
            raise ValueError(f"it has no header {name}")
        try:
            texts.append(found[name].decode())
        except UnicodeDecodeError as error:
            raise ValueError(f"its header {name} is not UTF-8") from error
    event_type, version, controller = texts
    if not (version.isascii() and version.isdecimal() and len(version) <= 10):
        raise ValueError(f"its header {SCHEMA_VERSION} is not a number")
    return Headers(event_type, int(version), controller)

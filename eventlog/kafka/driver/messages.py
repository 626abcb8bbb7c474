"""The values and errors that pass between the driver and the modules around it."""

from collections.abc import Mapping, Sequence

import msgspec

from eventlog.log import LogError, LogUnreadable

MESSAGE_BYTES = 8 << 20
"""The largest record that is sent: what managed Kafka services take at most. An object of the API has 1.5 MiB at most;
the rest is for snapshots."""

Headers = Sequence[tuple[str, bytes]]


class Message(msgspec.Struct, frozen=True, gc=False):
    """A record as Kafka stores it; `offset` is -1 on its way there."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class TopicDescription(msgspec.Struct, frozen=True):
    """What the brokers say of a topic: its partitions, the fewest replicas of one of them, its effective settings."""

    name: str
    partitions: int
    replication: int
    config: Mapping[str, str]


class InstanceTaken(LogError):
    """Another process has joined the consumer group under this member's lasting name."""


class OutOfRange(Exception):
    """A read at an offset that the partition does not have any more, or not yet."""


class SendRefused(Exception):
    """The brokers did not append it, and why."""

    def __init__(self, error: LogError) -> None:
        """Carry the error of the port."""
        super().__init__(str(error))
        self.error = error


class SendUncertain(Exception):
    """The brokers may have appended it; the message says what happened."""


def changed_partitions(topic: str, recorded: int, found: int) -> LogUnreadable:
    """Give the error for a topic that has another number of partitions than the log that was made in it."""
    return LogUnreadable(
        f"topic {topic} has {found} partitions and the log in it was made with {recorded}, so that keys would go to "
        "other partitions than before: "
        + (
            f"`cliquelog copy FROM TO` reads the {recorded}; copy the log to another topic, and go on with the copy"
            if found > recorded
            else "bring back the topic that it was, or make a new log with `cliquelog topics create`"
        )
    )

"""The log port: what every engine of the log promises, and no more.

Promised: records of one partition are read in the order of their offsets; offsets rise and may have gaps; once `append`
returns, its entries are durable, in their given order within each partition. Not promised, because Kafka cannot keep
it: that an append whose outcome is unknown happened only once or not at all, a conditional append, an order between
partitions. `tests/eventlog/contract.py` states this as tests that run on every adapter.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from eventlog.record import Entry, Position, Record


class LogError(Exception):
    """Something about the log that the user must know; the message is one sentence that names the mend."""


class LogUnreadable(LogError):
    """The log cannot be opened or understood: not a log, damaged, of a newer version, on an unfit file system."""


class LogUnavailable(LogError):
    """The log cannot be written or reached now (disk full, read-only, lock held). Nothing acknowledged is lost."""


class OffsetOutOfRange(LogError):
    """A read below the beginning of a partition: those records are gone."""


class AppendOutcomeUnknown(LogError):
    """The append failed in a way that leaves open whether the entries are in the log; they may be appended again."""


class InvalidRequest(LogError):
    """The caller asked for what no engine may do: an unfit entry, a missing partition, something of a closed log."""


class EventLog(Protocol):
    """A partitioned log of records."""

    @property
    def topic(self) -> str:
        """The log's name, stated in each of its records."""

    @property
    def partitions(self) -> int:
        """How many partitions the log has; fixed when the log is created."""

    async def append(self, entries: Sequence[Entry]) -> Sequence[Position]:
        """Append the entries, durably, and give each one's position.

        An entry goes to `eventlog.partitioner.partition_for(entry.key, self.partitions)`.

        Raises InvalidRequest for an entry that `eventlog.record.refusal` objects to, LogUnavailable if nothing was
        appended, AppendOutcomeUnknown if that is not certain.
        """

    async def read(self, partition: int, offset: int, *, limit: int, timeout_s: float) -> Sequence[Record]:
        """Give up to `limit` records of the partition from `offset` on, in order; perhaps fewer than there are.

        Waits up to `timeout_s` seconds for the first one; an empty answer means that there was none in that time.
        Raises OffsetOutOfRange if `offset` lies below the partition's beginning, InvalidRequest for a partition that
        the log does not have or a limit below 1.
        """

    async def beginning_offset(self, partition: int) -> int:
        """Give the offset of the oldest record that can still be read (of the next one, in an empty partition)."""

    async def end_offset(self, partition: int) -> int:
        """Give the offset that the next record will have, or more: past all that is readable now."""

    async def settle(self, timeout_s: float) -> None:
        """Wait for the appends under way, also those that nobody waits for any more: their callers were cancelled.

        What is not acknowledged after `timeout_s` seconds is given up and not tried again, its outcome unknown.
        """

    async def close(self) -> None:
        """Release what the log holds; appends under way end first."""


class Snapshot(Protocol):
    """What a snapshot store keeps for a partition: an opaque state and the offset of the first record not in it."""

    @property
    def partition(self) -> int:
        """The partition."""

    @property
    def next_offset(self) -> int:
        """Where to go on reading."""

    @property
    def state(self) -> bytes:
        """The encoded state."""


class StoredSnapshot(msgspec.Struct, frozen=True):
    """The snapshot that the adapters of this package give."""

    partition: int
    next_offset: int
    state: bytes


class SnapshotStore(Protocol):
    """Newest snapshot of each partition. Losing one costs time, never facts: the log is the truth."""

    async def save(self, partition: int, next_offset: int, state: bytes) -> None:
        """Replace the partition's snapshot, atomically: a crash leaves the old one or the new one, whole.

        One whose `next_offset` is smaller than that of the snapshot there changes nothing: two controllers may save on
        one log, and the one that lags behind must not take back what the other has folded. An equal one replaces it.
        """

    async def load(self, partition: int) -> Snapshot | None:
        """Give the newest whole snapshot, or None."""

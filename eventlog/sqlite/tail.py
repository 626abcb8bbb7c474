"""The tail: the newest records that this process has committed itself, for the readers beside it.

Problem: a consumer reads nearly every record moments after its own process wrote it. To ask the file for it costs a
thread hop and a query, by far more than the record itself. Invariant: what is kept is committed, and stands at the
offset that the file gave it. Offsets are dense and what is committed never changes, so a record that is kept is the
one that the file would give; for all that is not kept the file is asked.
"""

from collections.abc import Sequence

import msgspec

from eventlog.record import Entry, Position, Record

LIMIT = 500
"""Records kept of a partition: more than a reader that keeps up lags behind. With 24 partitions about ten megabytes."""


class _Kept(msgspec.Struct):
    """The last entries of a partition, without a gap; `next_offset` is the one after them."""

    entries: list[Entry]
    next_offset: int


class Tail:
    """The last records of each partition, as far as this process has appended them one after the other."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._kept: dict[int, _Kept] = {}

    def add(self, entries: Sequence[Entry], positions: Sequence[Position]) -> None:
        """Take in what was committed with its positions, that of each partition in the order of its offsets."""
        for entry, position in zip(entries, positions, strict=True):
            kept = self._kept.get(position.partition)
            if kept is None or kept.next_offset != position.offset:  # At first, or another process wrote in between.
                kept = self._kept[position.partition] = _Kept([], position.offset)
            kept.entries.append(entry)
            kept.next_offset += 1
        for partition in {position.partition for position in positions}:
            del self._kept[partition].entries[:-LIMIT]

    def read(self, partition: int, offset: int, limit: int) -> list[Record]:
        """Give records from `offset` on, up to `limit`; none if the one at `offset` is not kept."""
        kept = self._kept.get(partition)
        if kept is None or offset < (first := kept.next_offset - len(kept.entries)):
            return []
        return [
            Record(self._topic, partition, place, entry.key, entry.timestamp_ms, entry.headers, entry.value)
            for place, entry in enumerate(kept.entries[offset - first : offset - first + limit], offset)
        ]

"""The tail: the newest records that this process has committed itself, for the readers beside it.

Problem: a consumer reads nearly every record moments after its own process wrote it. To ask the file for it costs a
thread hop and a query, by far more than the record itself. Invariant: what is kept is committed, and stands at the
offset that the file gave it. Offsets are dense and what is committed never changes, so a record that is kept is the
one that the file would give; for all that is not kept the file is asked.
"""

from collections.abc import Iterable

from eventlog.record import Record

LIMIT = 500
"""Records kept of a partition: more than a reader that keeps up lags behind. With 24 partitions about ten megabytes."""


class Tail:
    """The last records of each partition, as far as this process has appended them one after the other."""

    def __init__(self) -> None:
        self._kept: dict[int, list[Record]] = {}

    def add(self, records: Iterable[Record]) -> None:
        """Take in committed records, those of each partition in the order of their offsets."""
        touched = set()
        for record in records:
            kept = self._kept.setdefault(record.partition, [])
            if kept and kept[-1].offset + 1 != record.offset:
                kept.clear()  # Another process wrote in between.
            kept.append(record)
            touched.add(record.partition)
        for partition in touched:
            del self._kept[partition][:-LIMIT]

    def read(self, partition: int, offset: int, limit: int) -> list[Record]:
        """Give records from `offset` on, up to `limit`; none if the one at `offset` is not kept."""
        kept = self._kept.get(partition)
        if not kept or offset < kept[0].offset:
            return []
        first = offset - kept[0].offset
        return kept[first : first + limit]

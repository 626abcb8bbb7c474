"""The log's queries and transactions on one connection: synchronous, and for one thread at a time.

Invariant: offsets of a partition are dense, because they are taken inside the transaction that writes the records.
A transaction begins by taking the write lock (`BEGIN IMMEDIATE`): one that reads first and then writes can fail at once
and for ever when another process wrote in between.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from eventlog.log import InvalidRequest, LogUnavailable, LogUnreadable, OffsetOutOfRange, StoredSnapshot
from eventlog.partitioner import partition_for
from eventlog.record import Entry, Headers, Position, Record
from eventlog.sqlite import driver, place

_CHECKPOINT_PATIENCE_MS = 100
"""How long appends may be held up by the wait for readers to let go of the write-ahead log."""
_OFFSET_MASK = (1 << driver.OFFSET_BITS) - 1


class Storage:
    """One connection to a log's file."""

    def __init__(self, path: Path, connection: driver.Connection, meta: driver.Meta, busy_timeout_s: float) -> None:
        self.path = path
        self.meta = meta
        self._connection = connection
        self._busy_timeout_s = busy_timeout_s
        self._identity = place.identity(path)
        self._headers: dict[int, Headers] = {}
        self._header_ids: dict[Headers, int] = {}
        self._checkpoint_at = driver.WAL_LIMIT

    @classmethod
    def open(cls, path: Path, *, topic: str, partitions: int | None, create: bool, busy_timeout_s: float) -> "Storage":
        """Open a log for appending, or create it; `partitions` None takes what is there.

        Raises LogUnreadable if there is no log and `create` is false, or if the log has another topic or number of
        partitions than asked for.
        """
        path = place.resolved(path)
        if not create:
            place.refuse_absent(path)
        if partitions is not None and not 0 < partitions <= driver.MAX_PARTITIONS:
            raise InvalidRequest(f"a log cannot have {partitions} partitions; ask for 1 to {driver.MAX_PARTITIONS}")
        connection = driver.patiently(lambda: driver.open_for_writing(path, busy_timeout_s), busy_timeout_s)
        try:
            wanted = driver.Meta(topic, partitions or 24, time.time_ns() // 1_000_000)
            meta = _meta_or_create(connection, path, wanted, busy_timeout_s)
            if partitions not in (None, meta.partitions):
                raise LogUnreadable(
                    f"{path} has {meta.partitions} partitions, fixed when it was created, and {partitions} were "
                    f"asked for; ask for {meta.partitions}"
                )
            if topic != meta.topic:
                raise LogUnreadable(f"{path} is the log of topic {meta.topic!r}, not {topic!r}; give another path")
            return cls(path, connection, meta, busy_timeout_s)
        except BaseException:
            connection.close()
            raise

    @classmethod
    def open_readonly(cls, path: Path, *, busy_timeout_s: float) -> "Storage":
        """Open an existing log for reading, also while a writer is at work."""
        path = place.resolved(path)
        connection = driver.patiently(lambda: driver.open_for_reading(path, busy_timeout_s), busy_timeout_s)
        try:
            meta = driver.read_meta(connection, path)
            if meta is None:
                raise LogUnreadable(f"{path} is a SQLite file without tables, not a log; give another path")
            return cls(path, connection, meta, busy_timeout_s)
        except BaseException:
            connection.close()
            raise

    def append(self, groups: Sequence[Sequence[Entry]]) -> list[list[Position]]:
        """Append all groups in one durable transaction, and give the positions of each group's entries."""
        self._refuse_if_replaced()
        self._bound_wal()
        fresh: dict[Headers, int] = {}
        with _Transaction(self._connection, self.path, self._busy_timeout_s), driver.translated(self.path):
            positions = self._insert(groups, fresh)
        # Only now: had the transaction failed, these numbers would not exist.
        self._header_ids.update(fresh)
        return positions

    def read(self, partition: int, offset: int, limit: int) -> list[Record]:
        """Give up to `limit` records from `offset` on.

        Raises OffsetOutOfRange below the partition's beginning.
        """
        first = partition << driver.OFFSET_BITS
        topic = self.meta.topic
        with driver.translated(self.path):
            rows = self._connection.execute(
                "SELECT position, key, timestamp_ms, headers, value FROM record"
                " WHERE position >= ? AND position < ? ORDER BY position LIMIT ?",
                (first + max(offset, 0), first + (1 << driver.OFFSET_BITS), limit),
            ).fetchall()
            if (rows and rows[0][0] != first + offset) or offset < 0:
                self._refuse_below_beginning(partition, offset)
            headers = self._headers_of({row[3] for row in rows})
        return [
            Record(topic, partition, position - first, key, timestamp_ms, headers[number], value)
            for position, key, timestamp_ms, number, value in rows
        ]

    def beginning(self, partition: int) -> int:
        """Give the offset of the partition's first record; 0 if it has none."""
        return self._edge(partition, "min") or 0

    def ends(self, partitions: Iterable[int]) -> dict[int, int]:
        """Give the offset of the next record of each of the partitions."""
        edges = {partition: self._edge(partition, "max") for partition in partitions}
        return {partition: 0 if last is None else last + 1 for partition, last in edges.items()}

    def data_version(self) -> int:
        """Give a number that changes whenever another connection, of this process or another, commits."""
        with driver.translated(self.path):
            version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
            return version

    def wal_bytes(self) -> int:
        """Give the size of the write-ahead log in bytes; 0 if there is none."""
        return place.size(driver.wal_path(self.path))

    def damage(self) -> list[str]:
        """Read every page of the file and give SQLite's findings; empty for a sound file. Takes time with its size."""
        with driver.translated(self.path):
            findings = [str(row[0]) for row in self._connection.execute("PRAGMA quick_check")]
        return [] if findings == ["ok"] else findings

    def save_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Replace the partition's snapshot, unless that is a newer one; see `SnapshotStore.save`."""
        self._refuse_if_replaced()
        self._bound_wal()
        with _Transaction(self._connection, self.path, self._busy_timeout_s), driver.translated(self.path):
            self._connection.execute(
                "INSERT INTO snapshot (partition, next_offset, state) VALUES (?, ?, ?)"
                " ON CONFLICT (partition) DO UPDATE SET next_offset = excluded.next_offset, state = excluded.state"
                " WHERE excluded.next_offset >= snapshot.next_offset",
                (snapshot.partition, snapshot.next_offset, snapshot.state),
            )

    def load_snapshot(self, partition: int) -> StoredSnapshot | None:
        """Give the partition's snapshot, or None."""
        with driver.translated(self.path):
            row = self._connection.execute(
                "SELECT partition, next_offset, state FROM snapshot WHERE partition = ?", (partition,)
            ).fetchone()
        return None if row is None else StoredSnapshot(*row)

    def close(self) -> None:
        """Close the connection; the last one of a file empties its write-ahead log."""
        with driver.translated(self.path):
            self._connection.close()

    def _insert(self, groups: Sequence[Sequence[Entry]], fresh: dict[Headers, int]) -> list[list[Position]]:
        """Insert the groups' entries; header combinations that were unknown so far go to `fresh` as well."""
        ends: dict[int, int] = {}
        rows: list[driver.Row] = []
        positions = []
        for group in groups:
            places = []
            for entry in group:
                partition = partition_for(entry.key, self.meta.partitions)
                if partition not in ends:
                    ends.update(self.ends((partition,)))
                offset = ends[partition]
                ends[partition] = offset + 1
                number = self._header_ids.get(entry.headers) or fresh.get(entry.headers)
                if number is None:
                    number = fresh[entry.headers] = self._header_id(entry.headers)
                place = partition << driver.OFFSET_BITS | offset
                rows.append((place, entry.key, entry.timestamp_ms, number, entry.value))
                places.append(Position(partition, offset))
            positions.append(places)
        driver.insert_records(self._connection, rows)
        return positions

    def _header_id(self, headers: Headers) -> int:
        values = (headers.event_type, headers.schema_version, headers.controller)
        self._connection.execute(
            "INSERT OR IGNORE INTO headers (event_type, schema_version, controller) VALUES (?, ?, ?)", values
        )
        number: int = self._connection.execute(
            "SELECT id FROM headers WHERE event_type = ? AND schema_version = ? AND controller = ?", values
        ).fetchone()[0]
        return number

    def _headers_of(self, numbers: set[int]) -> Mapping[int, Headers]:
        """Give the cached header combinations, with the named ones among them."""
        if not numbers <= self._headers.keys():
            rows = self._connection.execute("SELECT id, event_type, schema_version, controller FROM headers")
            self._headers = {number: Headers(*values) for number, *values in rows}
            if missing := numbers - self._headers.keys():
                raise LogUnreadable(
                    f"{self.path} is damaged: records name headers {sorted(missing)}, which are not there; "
                    "restore it from a copy"
                )
        return self._headers

    def _edge(self, partition: int, function: str) -> int | None:
        first = partition << driver.OFFSET_BITS
        with driver.translated(self.path):
            position: int | None = self._connection.execute(
                f"SELECT {function}(position) FROM record WHERE position >= ? AND position < ?",  # noqa: S608
                (first, first + (1 << driver.OFFSET_BITS)),
            ).fetchone()[0]
        return None if position is None else position & _OFFSET_MASK

    def _refuse_below_beginning(self, partition: int, offset: int) -> None:
        beginning = self.beginning(partition)
        if offset < beginning:
            raise OffsetOutOfRange(
                f"partition {partition} of {self.path} begins at offset {beginning}, and {offset} was asked for"
            )

    def _refuse_if_replaced(self) -> None:
        """Refuse to write into a file that is no longer at its path: what was acknowledged there would be lost."""
        if place.identity(self.path) != self._identity:
            raise LogUnavailable(
                f"{self.path} was moved, deleted or replaced while open; put it back, or restart on what is there"
            )

    def _bound_wal(self) -> None:
        """Empty the write-ahead log once it is large: SQLite itself never restarts it while somebody reads.

        Done before a transaction, never after one: an error here must not make a committed append look refused.
        """
        size = self.wal_bytes()
        if size < self._checkpoint_at:
            return
        with driver.translated(self.path):
            self._connection.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_PATIENCE_MS}").fetchone()
            try:
                busy = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            finally:
                self._connection.execute(f"PRAGMA busy_timeout = {int(self._busy_timeout_s * 1000)}").fetchone()
        # A reader held on to it: try again after as much growth, so that not every append waits for that reader.
        self._checkpoint_at = size + driver.WAL_LIMIT if busy else driver.WAL_LIMIT


class _Transaction:
    """A write transaction: takes the lock at its start, commits at its end, rolls back on any error."""

    def __init__(self, connection: driver.Connection, path: Path, busy_timeout_s: float) -> None:
        self._connection = connection
        self._path = path
        self._busy_timeout_s = busy_timeout_s

    def __enter__(self) -> None:
        driver.patiently(lambda: driver.begin(self._connection, self._path), self._busy_timeout_s)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                with driver.translated(self._path, committing=True):
                    self._connection.execute("COMMIT")
        finally:
            # Some errors make SQLite roll back by itself.
            if self._connection.in_transaction:
                with driver.translated(self._path):
                    self._connection.execute("ROLLBACK")


def _meta_or_create(
    connection: driver.Connection, path: Path, wanted: driver.Meta, busy_timeout_s: float
) -> driver.Meta:
    meta = driver.read_meta(connection, path)
    # Another process may create the log between the first look and the lock.
    with _Transaction(connection, path, busy_timeout_s):
        if meta is None:
            meta = driver.read_meta(connection, path)
        if meta is None:
            driver.create_schema(connection, path, wanted)
            meta = wanted
        else:
            driver.touch(connection, path)
    return meta

"""SQLite itself: opening the file of a log, its schema, and the words for its errors. Nothing else imports the library.

A log's file is marked by SQLite's own means: the application ID says that it is a log of ours, the user version is the
version of its format. The table `log` holds one row that never changes: topic, number of partitions, time of creation.
`record` holds the records; their order is that of `position`, `partition << 40 | offset`, so that one partition lies
together and is read without an index. Headers repeat endlessly, so `headers` holds each combination once. The view
`records` shows it all in plain columns, for people with a SQLite shell.

Invariant: whatever SQLite reports leaves this package as an error of `eventlog.log`, in one sentence.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import msgspec
import sqlite_utils

from eventlog.log import AppendOutcomeUnknown, LogError, LogUnavailable, LogUnreadable
from eventlog.sqlite import place

Connection = sqlite3.Connection
T = TypeVar("T")

APPLICATION_ID = 0x434C4F47
"""`CLOG`, in the file's header."""
FORMAT_VERSION = 1
"""Version of the tables that this program writes."""
OFFSET_BITS = 40
"""Bits of a position that hold the offset; the bits above hold the partition."""
MAX_PARTITIONS = 1 << 20
"""Partitions that a position has room for."""

ROWS = 1000
"""Rows of one statement: five values each, and SQLite takes 32,766."""
Row = tuple[int, str, int, int, bytes]
"""Position, key, time, number of the headers, value."""
WAL_LIMIT = 16 << 20
"""Bytes of write-ahead log that a writer strives to stay below."""
_RETRY_PAUSE_S = 0.01
_VIEW = f"""
SELECT position >> {OFFSET_BITS} AS partition, position & {(1 << OFFSET_BITS) - 1} AS offset, key,
    strftime('%Y-%m-%dT%H:%M:%fZ', timestamp_ms / 1000.0, 'unixepoch') AS timestamp, event_type, schema_version,
    controller, CAST(value AS TEXT) AS value
FROM record JOIN headers ON headers.id = record.headers
"""  # noqa: S608 - the numbers are constants of this module


class Locked(LogUnavailable):
    """Another process holds the write lock; the transaction may be tried again."""


class Meta(msgspec.Struct, frozen=True):
    """What a log's file says of itself; fixed when it is created."""

    topic: str
    partitions: int
    created_ms: int


def open_for_writing(path: Path, busy_timeout_s: float) -> Connection:
    """Open or make the file at a resolved path, ready for durable transactions that the caller begins and ends."""
    place.refuse_unfit(path)
    with translated(path):
        connection = _connect(path, "rwc", busy_timeout_s)
        with _closed_on_error(connection):
            # Refuses the file of another program before anything is written to it.
            read_meta(connection, path)
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise LogUnreadable(f"{path} is where SQLite cannot use a write-ahead log; put it on a local disk")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT}").fetchone()
            return connection


def open_for_reading(path: Path, busy_timeout_s: float) -> Connection:
    """Open an existing file at a resolved path without the means to change it; a writer may be at work on it."""
    place.refuse_absent(path)
    with translated(path):
        try:
            connection = _connect(path, "ro", busy_timeout_s)
            with _closed_on_error(connection):
                connection.execute("PRAGMA schema_version").fetchone()
        except sqlite3.OperationalError as error:
            unshared = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
            if not unshared or place.identity(wal_path(path)) is not None:
                raise
            # The folder does not let us share a write-ahead log, and there is none: nobody writes. Read what is there.
            connection = _connect(path, "ro&immutable=1", busy_timeout_s)
        with _closed_on_error(connection):
            connection.execute("PRAGMA query_only = ON")
            return connection


def patiently(action: Callable[[], T], busy_timeout_s: float) -> T:
    """Carry out the action, again and again while another process holds a lock, until the time is over.

    SQLite's own patience (its busy timeout) does not cover every step, among them the change to a write-ahead log.
    """
    deadline = time.monotonic() + busy_timeout_s
    while True:
        try:
            return action()
        except Locked:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_RETRY_PAUSE_S)


def begin(connection: Connection, path: Path) -> None:
    """Begin a write transaction by taking the write lock."""
    with translated(path):
        connection.execute("BEGIN IMMEDIATE")


def touch(connection: Connection, path: Path) -> None:
    """Write what is there already; the caller holds a transaction.

    Proves that the file can be written: SQLite opens a read-only one without a word, and even lets it be locked.
    """
    with translated(path):
        connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")


def create_schema(connection: Connection, path: Path, wanted: Meta) -> None:
    """Make the tables in a file that has none; the caller holds a transaction."""
    with translated(path):
        database = sqlite_utils.Database(connection, execute_plugins=False)
        database.table("log").create(
            {"topic": str, "partitions": int, "created_ms": int}, not_null={"topic", "partitions", "created_ms"}
        )
        database.table("headers").create(
            {"id": int, "event_type": str, "schema_version": int, "controller": str},
            pk="id",
            not_null={"event_type", "schema_version", "controller"},
        )
        database.table("headers").create_index(["event_type", "schema_version", "controller"], unique=True)
        database.table("record").create(
            {"position": int, "key": str, "timestamp_ms": int, "headers": int, "value": bytes},
            pk="position",
            not_null={"key", "timestamp_ms", "headers", "value"},
            foreign_keys=[("headers", "headers", "id")],
        )
        database.table("snapshot").create(
            {"partition": int, "next_offset": int, "state": bytes}, pk="partition", not_null={"next_offset", "state"}
        )
        database.create_view("records", _VIEW)
        connection.execute("INSERT INTO log VALUES (?, ?, ?)", (wanted.topic, wanted.partitions, wanted.created_ms))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")


def insert_records(connection: Connection, rows: Sequence[Row]) -> None:
    """Insert rows into `record`; the caller holds a transaction.

    Many go in one statement. SQLite's work is done without the interpreter's lock, but it is asked for anew with each
    statement, and a thread that computes lets go of it only every 5 milliseconds: row by row, an append beside a busy
    thread would take minutes.
    """
    whole = len(rows) - len(rows) % ROWS
    statement = f"INSERT INTO record VALUES {', '.join(['(?, ?, ?, ?, ?)'] * ROWS)}"  # noqa: S608 - no value is in it
    for first in range(0, whole, ROWS):
        connection.execute(statement, list(chain.from_iterable(rows[first : first + ROWS])))
    connection.executemany("INSERT INTO record VALUES (?, ?, ?, ?, ?)", rows[whole:])


def read_meta(connection: Connection, path: Path) -> Meta | None:
    """Give what the file says of itself, or None for a file without any table.

    Raises LogUnreadable for a file of another program, or a format newer than this one.
    """
    with translated(path), _one_view(connection):
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if application != APPLICATION_ID:
            if application == 0 and not sqlite_utils.Database(connection, execute_plugins=False).table_names():
                return None
            raise LogUnreadable(f"{path} is a SQLite file of another program, not a cliquelog log; give another path")
        if version != FORMAT_VERSION:
            raise LogUnreadable(
                f"{path} has log format {version} and this program reads {FORMAT_VERSION}; use a newer cliquelog"
            )
        return Meta(*connection.execute("SELECT topic, partitions, created_ms FROM log").fetchone())


@contextmanager
def translated(path: Path, *, committing: bool = False) -> Iterator[None]:
    """Raise what SQLite reports in the block as an error of `eventlog.log`.

    `committing` is true for a COMMIT: a failed sync then leaves open whether the transaction is in the file.
    """
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.Error as error:
        raise _translation(path, error, committing=committing) from error


def wal_path(path: Path) -> Path:
    """Give the path of the write-ahead log that belongs to the file."""
    return path.with_name(path.name + "-wal")


def _translation(path: Path, error: sqlite3.Error, *, committing: bool) -> LogError:
    # Text that is no UTF-8 is reported without a code.
    extended = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    code = extended & 0xFF
    # A commit ends with the write of its last frame and a sync. If the write fails, the frame is not whole and never
    # counts; if the sync fails, the frame may be on disk or not.
    if committing and code == sqlite3.SQLITE_IOERR and extended != sqlite3.SQLITE_IOERR_WRITE:
        return AppendOutcomeUnknown(f"{path} had {error} at a commit; check the disk, then append again")
    kind, sentence = _SENTENCES.get(code, (LogUnreadable, "cannot be used ({}); see whether it is a cliquelog log"))
    return kind(f"{path} {sentence.format(error)}")


_SENTENCES: dict[int, tuple[type[LogError], str]] = {
    sqlite3.SQLITE_NOTADB: (LogUnreadable, "is not a SQLite file, so not a log; give another path"),
    sqlite3.SQLITE_CORRUPT: (LogUnreadable, "is damaged ({}); restore it from a copy"),
    sqlite3.SQLITE_CANTOPEN: (LogUnreadable, "cannot be opened ({}); check the rights of the file and its folder"),
    sqlite3.SQLITE_PERM: (LogUnreadable, "cannot be opened ({}); check the rights of the file and its folder"),
    sqlite3.SQLITE_BUSY: (Locked, "is locked by another process; end what holds it (a backup, a SQLite shell)"),
    sqlite3.SQLITE_LOCKED: (Locked, "is locked by another process; end what holds it (a backup, a SQLite shell)"),
    sqlite3.SQLITE_FULL: (LogUnavailable, "cannot grow because the disk is full; free space and it goes on"),
    sqlite3.SQLITE_READONLY: (LogUnavailable, "cannot be written ({}); make the file and its folder writable"),
    sqlite3.SQLITE_IOERR: (LogUnavailable, "cannot be written or read ({}); check the disk and its quota"),
}
"""By SQLite's primary result code: the error, and what the sentence says after the path."""


def _connect(path: Path, mode: str, busy_timeout_s: float) -> Connection:
    # isolation_level=None: the library begins no transaction of its own, which would be a deferred one.
    return sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?mode={mode}",
        uri=True,
        timeout=busy_timeout_s,
        isolation_level=None,
        check_same_thread=False,
    )


@contextmanager
def _one_view(connection: Connection) -> Iterator[None]:
    """Let all queries of the block see one state of the file, whatever another process commits meanwhile."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


@contextmanager
def _closed_on_error(connection: Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise

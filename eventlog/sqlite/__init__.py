"""The log in a SQLite file: `SqliteLog` and `SqliteSnapshots`.

`driver` alone speaks to the SQLite library: connections, schema, and the words for its errors. `storage` is the log's
queries and transactions on one connection. `log` is the asynchronous face: group commit, reader, wake-ups.
"""

from eventlog.sqlite.log import SqliteLog, SqliteSnapshots

__all__ = ["SqliteLog", "SqliteSnapshots"]

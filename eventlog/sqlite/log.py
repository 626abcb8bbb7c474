"""The asynchronous face of the SQLite log.

Appends that arrive while a transaction is being committed wait together and go into the next one (group commit): the
cost of a sync to disk is shared, and nobody is acknowledged before it. One thread writes, one reads, each with its own
connection, so the event loop never waits for the disk and readers never wait for the writer.

A reader that waits is woken by the appends of its own process at once, and finds them in memory (`tail.py`); by those
of others through a look at SQLite's change counter every few hundredths of a second, as long as anybody waits.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from eventlog.log import InvalidRequest, LogUnavailable, Snapshot, StoredSnapshot
from eventlog.record import Entry, Position, Record, refusal
from eventlog.sqlite.storage import Storage
from eventlog.sqlite.tail import Tail
from eventlog.waiting import Waiters

_POLL_S = 0.03
_BUSY_TIMEOUT_S = 10.0

_BATCH_LIMIT = 10_000
"""Records from which on a batch takes no more appends, so that a transaction stays short."""

R = TypeVar("R")


class _Batch:
    """Appends that will be committed together; `commit` makes the coroutine that does so."""

    def __init__(self, commit: Callable[["_Batch"], Coroutine[None, None, list[list[Position]]]]) -> None:
        self.groups: list[Sequence[Entry]] = []
        self.records = 0
        self.committed = asyncio.create_task(commit(self), name="log-commit")

    def add(self, entries: Sequence[Entry]) -> int:
        """Add an append, and give its place among the batch's groups."""
        self.groups.append(tuple(entries))
        self.records += len(entries)
        return len(self.groups) - 1


class SqliteLog:
    """An `EventLog` in a SQLite file on a local disk. Several processes may append to one file.

    Made by `open` and `open_readonly`; belongs to the event loop that it was opened in.
    """

    def __init__(self, reader: Storage, writer: Storage | None) -> None:
        self._reader = reader
        self._writer = writer
        self._reading = ThreadPoolExecutor(1, "log-reader")
        self._writing = ThreadPoolExecutor(1, "log-writer")
        self._commits = asyncio.Lock()
        self._next: _Batch | None = None
        self._waiters = Waiters()
        self._tail = Tail(reader.meta.topic)
        self._poller: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()

    @classmethod
    async def open(
        cls,
        path: str | Path,
        *,
        topic: str = "cliquelog",
        partitions: int | None = 24,
        create: bool = True,
        busy_timeout_s: float = _BUSY_TIMEOUT_S,
    ) -> "SqliteLog":
        """Open a log for appending and reading, or create it.

        An existing log keeps its number of partitions: another `partitions` is refused, None takes what is there.
        `busy_timeout_s` is how long to wait for another process's write lock. Raises LogUnreadable or LogUnavailable.
        """

        def both() -> tuple[Storage, Storage]:
            writer = Storage.open(
                Path(path), topic=topic, partitions=partitions, create=create, busy_timeout_s=busy_timeout_s
            )
            try:
                return Storage.open_readonly(Path(path), busy_timeout_s=busy_timeout_s), writer
            except BaseException:
                writer.close()
                raise

        return cls(*await asyncio.to_thread(both))

    @classmethod
    async def open_readonly(cls, path: str | Path, *, busy_timeout_s: float = _BUSY_TIMEOUT_S) -> "SqliteLog":
        """Open an existing log for reading only, also while a writer is at work on it. Raises LogUnreadable."""

        def one() -> Storage:
            return Storage.open_readonly(Path(path), busy_timeout_s=busy_timeout_s)

        return cls(await asyncio.to_thread(one), None)

    @property
    def topic(self) -> str:
        """The log's name."""
        return self._reader.meta.topic

    @property
    def partitions(self) -> int:
        """How many partitions the log has."""
        return self._reader.meta.partitions

    @property
    def wal_bytes(self) -> int:
        """Size of the write-ahead log file; bounded by the writer, so growth means a reader that holds on to it."""
        return self._reader.wal_bytes()

    async def append(self, entries: Sequence[Entry]) -> Sequence[Position]:
        """Append the entries; see `EventLog.append`. A cancelled append may still be carried out."""
        self._refuse_if_closed()
        for entry in entries:
            if reason := refusal(entry):
                raise InvalidRequest(reason)
        if not entries:
            return []
        batch = self._next
        if batch is None or batch.records >= _BATCH_LIMIT:
            batch = self._next = _Batch(self._commit)
        place = batch.add(entries)
        # Shielded: one appender that gives up must not take the others' transaction with it.
        return (await asyncio.shield(batch.committed))[place]

    async def read(self, partition: int, offset: int, *, limit: int, timeout_s: float) -> Sequence[Record]:
        """Give records from `offset` on; see `EventLog.read`."""
        self._refuse_if_closed()
        self._refuse_unknown(partition)
        if limit < 1:
            raise InvalidRequest(f"a read with limit {limit} asks for nothing; ask for 1 record or more")
        if records := self._tail.read(partition, offset, limit):
            return records
        with self._waiters.waiting(partition, offset) as arrived:
            if timeout_s <= 0 or not self._waiters.told_upto(partition, offset):
                records = await self._read(lambda storage: storage.read(partition, offset, limit))
            if records or timeout_s <= 0 or self._closed.is_set():
                return records
            poller = self._poller = self._poller or asyncio.create_task(self._poll(), name="log-poll")
            await asyncio.wait((arrived, poller), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if self._closed.is_set():
            return []
        if poller.done():
            poller.result()
        # After a time-out too: what another process appended may not have been told yet.
        return self._tail.read(partition, offset, limit) or await self._read(
            lambda storage: storage.read(partition, offset, limit)
        )

    async def beginning_offset(self, partition: int) -> int:
        """Give the offset of the partition's first record."""
        self._refuse_if_closed()
        self._refuse_unknown(partition)
        return await self._read(lambda storage: storage.beginning(partition))

    async def end_offset(self, partition: int) -> int:
        """Give the offset of the partition's next record."""
        self._refuse_if_closed()
        self._refuse_unknown(partition)
        return (await self._read(lambda storage: storage.ends((partition,))))[partition]

    async def damage(self) -> Sequence[str]:
        """Read every page of the file and give SQLite's findings; empty for a sound file. For `verify`: it is slow."""
        self._refuse_if_closed()
        return await self._read(Storage.damage)

    async def save_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Replace a partition's snapshot in the log's file, unless that is a newer one; for `SqliteSnapshots`."""
        self._refuse_if_closed()
        async with self._commits:
            await self._write(lambda storage: storage.save_snapshot(snapshot))

    async def load_snapshot(self, partition: int) -> StoredSnapshot | None:
        """Give a partition's snapshot from the log's file; for `SqliteSnapshots`."""
        self._refuse_if_closed()
        return await self._read(lambda storage: storage.load_snapshot(partition))

    async def close(self) -> None:
        """Commit what waits, end the threads and close the file."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._waiters.wake_all()
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.wait((self._poller,))
        if self._next is not None:
            # The newest batch, and so the last to take the lock.
            await asyncio.wait((self._next.committed,))
        async with self._commits:
            await asyncio.to_thread(self._release)

    def _release(self) -> None:
        self._reading.shutdown()
        self._writing.shutdown()
        self._reader.close()
        if self._writer is not None:
            self._writer.close()

    async def _commit(self, batch: _Batch) -> list[list[Position]]:
        """Commit the batch when the one before is done; until then others may join it."""
        async with self._commits:
            if self._next is batch:
                self._next = None
            positions = await self._write(lambda storage: storage.append(batch.groups))
        ends: dict[int, int] = {}
        for entries, places in zip(batch.groups, positions, strict=True):
            self._tail.add(entries, places)
            ends.update({place.partition: place.offset + 1 for place in places})
        self._waiters.wake(ends)
        return positions

    async def _write(self, transaction: Callable[[Storage], R]) -> R:
        if self._writer is None:
            raise LogUnavailable(f"{self._reader.path} was opened for reading only; open it for appending")
        return await asyncio.get_running_loop().run_in_executor(self._writing, transaction, self._writer)

    async def _read(self, query: Callable[[Storage], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._reading, query, self._reader)

    async def _poll(self) -> None:
        """Look for other processes' appends as long as somebody waits."""
        seen = -1
        try:
            while self._waiters.any_wait:
                version = await self._read(Storage.data_version)
                if version != seen:
                    # Of all partitions: a reader of any may come and wait without a look of its own.
                    self._waiters.wake(await self._read(lambda storage: storage.ends(range(self.partitions))))
                    seen = version
                await asyncio.sleep(_POLL_S)
        finally:
            self._poller = None

    def _refuse_unknown(self, partition: int) -> None:
        if not 0 <= partition < self.partitions:
            raise InvalidRequest(f"there is no partition {partition}: the log has {self.partitions}, counted from 0")

    def _refuse_if_closed(self) -> None:
        if self._closed.is_set():
            raise InvalidRequest("the log is closed; open it again to use it")


class SqliteSnapshots:
    """A `SnapshotStore` in the file of a log, written between the log's own transactions."""

    def __init__(self, log: SqliteLog) -> None:
        self._log = log

    async def save(self, partition: int, next_offset: int, state: bytes) -> None:
        """Replace the partition's snapshot, durably; see `SnapshotStore.save`."""
        await self._log.save_snapshot(StoredSnapshot(partition, next_offset, state))

    async def load(self, partition: int) -> Snapshot | None:
        """Give the partition's snapshot, or None."""
        return await self._log.load_snapshot(partition)

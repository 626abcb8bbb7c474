"""The log and its snapshots as one process has them, with what a broker, a disk or a network may do to its calls.

Invariant: what is acknowledged is in the log; everything else is what the port allows (`eventlog.log`): an append may
be in it though its outcome is unknown, in whole or in part; a reader may lag behind the writers.
"""

import asyncio
from collections.abc import Sequence

from eventlog.log import AppendOutcomeUnknown, EventLog, LogUnavailable, Snapshot, SnapshotStore, StoredSnapshot
from eventlog.record import Entry, Position, Record
from simulation.explore.faults import Latency
from simulation.explore.process import Process

READ_POLL_S = 0.25
"""How long an answer without records takes where a reader lags behind."""


class FaultyLog:
    """An EventLog for a process. `acknowledged` is what the process was told is durable."""

    def __init__(self, inner: EventLog, process: Process, latency: Latency) -> None:
        """Pass calls to `inner`, which other processes have as well."""
        self._inner = inner
        self._process = process
        self._faults = process.faults
        self._latency = latency
        self.acknowledged: list[tuple[Position, Entry]] = []

    @property
    def topic(self) -> str:
        """The log's name."""
        return self._inner.topic

    @property
    def partitions(self) -> int:
        """How many partitions the log has."""
        return self._inner.partitions

    async def append(self, entries: Sequence[Entry]) -> Sequence[Position]:
        """Append the entries."""
        name, faults, what = self._process.name, self._faults, f"append of {len(entries)}"
        await self._process.before(what)
        await asyncio.sleep(self._latency.log())
        if faults.strike(name, "append: slow", what):
            await asyncio.sleep(faults.uniform(0.1, 5))
        await self._process.alive()
        if faults.strike(name, "append: log unavailable", what):
            raise LogUnavailable("the log is not available")
        if faults.strike(name, "append: in part, outcome unknown", what):
            await self._inner.append(entries[: faults.below(len(entries)) + 1])
            await self._process.after(what)
            raise AppendOutcomeUnknown("the connection was lost")
        positions = await self._inner.append(entries)
        if faults.strike(name, "append: acknowledgement lost", what):
            raise AppendOutcomeUnknown("the connection was lost")
        await self._process.after(what)
        self.acknowledged.extend(zip(positions, entries, strict=True))
        return positions

    async def read(self, partition: int, offset: int, *, limit: int, timeout_s: float) -> Sequence[Record]:
        """Give records from `offset` on."""
        await self._process.alive()
        if self._faults.strike(self._process.name, "read: lags behind", f"partition {partition}"):
            await asyncio.sleep(max(timeout_s, READ_POLL_S))
            await self._process.alive()
            return []
        records = await self._inner.read(partition, offset, limit=limit, timeout_s=timeout_s)
        await asyncio.sleep(self._latency.log())
        await self._process.alive()
        if records and self._faults.strike(self._process.name, "read: cut short", f"partition {partition}"):
            return records[: 1 + self._faults.below(len(records))]
        return records

    async def beginning_offset(self, partition: int) -> int:
        """Give the offset of the oldest record."""
        await self._process.alive()
        return await self._inner.beginning_offset(partition)

    async def end_offset(self, partition: int) -> int:
        """Give the offset of the next record."""
        await self._process.alive()
        return await self._inner.end_offset(partition)

    async def settle(self, timeout_s: float) -> None:
        """Wait for the appends under way."""
        await self._inner.settle(timeout_s)

    async def close(self) -> None:
        """Close nothing: the log belongs to the run."""


class FaultySnapshots:
    """A SnapshotStore for a process. It keeps every state that was saved, so that an older one can be loaded."""

    def __init__(self, inner: SnapshotStore, process: Process, older: dict[int, list[StoredSnapshot]]) -> None:
        """Pass calls to `inner`; `older` is shared by all processes of a run."""
        self._inner = inner
        self._process = process
        self._older = older

    async def save(self, partition: int, next_offset: int, state: bytes) -> None:
        """Replace the partition's snapshot."""
        what = f"snapshot of partition {partition} at {next_offset}"
        await self._process.before(what)
        if self._process.faults.strike(self._process.name, "snapshot: not saved", what):
            raise LogUnavailable("the snapshot store is not available")
        await self._inner.save(partition, next_offset, state)
        self._older.setdefault(partition, []).append(StoredSnapshot(partition, next_offset, state))
        await self._process.after(what)

    async def load(self, partition: int) -> Snapshot | None:
        """Give the partition's snapshot, or an older one: losing one costs time, never facts."""
        await self._process.alive()
        older = self._older.get(partition, [])
        if older and self._process.faults.strike(self._process.name, "snapshot: older one loaded", f"of {partition}"):
            return older[self._process.faults.below(len(older))]
        return await self._inner.load(partition)

"""Reads a log for the report: once for the audit, once for the timeline and the records that the audit names."""

from collections.abc import Sequence

import msgspec

from controller.history import auditing
from controller.reporting import building
from controller.reporting.model import Page
from controller.reporting.records import view
from eventlog.log import EventLog, InvalidRequest
from eventlog.record import Entry, Position, Record
from projections.audit.timeline import Timeline


async def read(log: EventLog, place: str) -> Page:
    """Give what the page of the log, which the user names by `place`, shows. Raises LogError."""
    now = UpToNow(log, [await log.end_offset(partition) for partition in range(log.partitions)])
    audit = await auditing.audit(now)
    positions, left_out = building.wanted(audit)
    timeline = Timeline(audit.begin_ms, audit.end_ms)
    views: dict[str, msgspec.Raw] = {}
    for partition in range(now.partitions):
        async for change in auditing.changes(now, partition):
            timeline.take(change)
            if change.position in positions:
                views[str(change.position)] = msgspec.Raw(msgspec.json.encode(view(change)))
    return building.page(place, audit, timeline, views, left_out)


class UpToNow:
    """A log as it is now: what is appended later is not in it, so that it can be read twice."""

    def __init__(self, log: EventLog, ends: Sequence[int]) -> None:
        """Give what is before these offsets, one a partition."""
        self._log = log
        self._ends = ends

    @property
    def topic(self) -> str:
        """The log's name."""
        return self._log.topic

    @property
    def partitions(self) -> int:
        """How many partitions the log has."""
        return self._log.partitions

    async def append(self, entries: Sequence[Entry]) -> Sequence[Position]:
        """Refuse: what is appended could not be read here. Raises InvalidRequest."""
        raise InvalidRequest(f"{len(entries)} entries were to be appended to what is there for reading only")

    async def read(self, partition: int, offset: int, *, limit: int, timeout_s: float) -> Sequence[Record]:
        """Give the partition's records from the offset on."""
        return await self._log.read(partition, offset, limit=limit, timeout_s=timeout_s)

    async def beginning_offset(self, partition: int) -> int:
        """Give the offset of the oldest record."""
        return await self._log.beginning_offset(partition)

    async def end_offset(self, partition: int) -> int:
        """Give the end that the partition had."""
        return self._ends[partition]

    async def settle(self, timeout_s: float) -> None:
        """Wait for the appends under way."""
        await self._log.settle(timeout_s)

    async def close(self) -> None:
        """Close the log."""
        await self._log.close()

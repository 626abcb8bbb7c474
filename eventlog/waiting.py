"""Readers that wait for the next record of a partition, in one event loop.

A reader registers before it looks at the log, so an append between its look and its wait is not missed. Who appends
tells the new end offsets; only readers that these concern are woken. What was told last is remembered: a reader that
has read so far need not look before it waits.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class Waiters:
    """The readers that wait now, each for a record at its offset or later."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], tuple[int, int]] = {}
        self._ends: dict[int, int] = {}

    @contextmanager
    def waiting(self, partition: int, offset: int) -> Iterator[asyncio.Future[None]]:
        """Register a reader for the time of the block; the future is done once the partition reaches past `offset`."""
        arrived = asyncio.get_running_loop().create_future()
        self._waiting[arrived] = (partition, offset)
        try:
            yield arrived
        finally:
            del self._waiting[arrived]

    def wake(self, ends: Mapping[int, int]) -> None:
        """Wake the readers that have something to read, given end offsets by partition."""
        for partition, end in ends.items():
            self._ends[partition] = max(end, self._ends.get(partition, 0))
        for arrived, (partition, offset) in self._waiting.items():
            if ends.get(partition, 0) > offset and not arrived.done():
                arrived.set_result(None)

    def told_upto(self, partition: int, offset: int) -> bool:
        """Say whether the partition's end was told, and no more than this offset."""
        return self._ends.get(partition, offset + 1) <= offset

    def wake_all(self) -> None:
        """Wake every reader: the log closes."""
        for arrived in self._waiting:
            if not arrived.done():
                arrived.set_result(None)

    @property
    def any_wait(self) -> bool:
        """Whether some reader waits."""
        return bool(self._waiting)

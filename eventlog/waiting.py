"""Readers that wait for the next record of a partition, in one event loop.

A reader registers before it looks at the log, so an append between its look and its wait is not missed. Who appends
tells the new end offsets; only readers that these concern are woken.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


class Waiters:
    """The readers that wait now, each for a record at its offset or later."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], tuple[int, int]] = {}

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
        for arrived, (partition, offset) in self._waiting.items():
            if ends.get(partition, 0) > offset and not arrived.done():
                arrived.set_result(None)

    def wake_all(self) -> None:
        """Wake every reader: the log closes."""
        for arrived in self._waiting:
            if not arrived.done():
                arrived.set_result(None)

    def partitions(self) -> frozenset[int]:
        """Give the partitions that somebody waits for."""
        return frozenset(partition for partition, _ in self._waiting.values())

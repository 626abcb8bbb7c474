"""Snapshots in a compacted topic, each in the partition of the same number as that which it is of.

Kafka keeps the last record of a key, not the newest snapshot, and knows no conditional append. So a writer looks first,
and a reader takes the newest of the last few. Two writers at the same moment can still have it that compaction keeps
the older one; that costs the time to fold the records between, never a fact.
"""

import asyncio
import time
import zlib

from eventlog.kafka.driver import MESSAGE_BYTES, Message, read_all
from eventlog.kafka.log import KafkaLog
from eventlog.log import LogUnavailable, Snapshot, StoredSnapshot

SNAPSHOT_KEY = b"snapshot"
NEXT_OFFSET = "next-offset"

_LAST = 8
"""Records that are looked at for the newest snapshot."""
_LEVEL = 1
_OVERHEAD = 1 << 10
"""Bytes that key, headers and the form of a record take at most."""


class KafkaSnapshots:
    """A `SnapshotStore` beside a log."""

    def __init__(self, log: KafkaLog) -> None:
        """Connect nothing yet."""
        self._log = log
        self._topic = log.place.snapshots
        self._saving = [asyncio.Lock() for _ in range(log.partitions)]
        self._seen: dict[int, tuple[int, int]] = {}
        """By partition: up to where the topic was looked through, and the newest snapshot's `next_offset` there."""

    async def save(self, partition: int, next_offset: int, state: bytes) -> None:
        """Replace the partition's snapshot, durably; see `SnapshotStore.save`."""
        value = await asyncio.to_thread(zlib.compress, state, _LEVEL)
        if len(value) > MESSAGE_BYTES - _OVERHEAD:
            raise LogUnavailable(
                f"the snapshot of partition {partition} takes {len(value)} bytes compressed, and Kafka is given "
                f"{MESSAGE_BYTES} at most: restarts will fold more records"
            )
        async with self._saving[partition]:
            await self._look(partition)
            seen, newest = self._seen[partition]
            if newest > next_offset:
                return
            now_ms = time.time_ns() // 1_000_000
            headers = ((NEXT_OFFSET, b"%d" % next_offset),)
            offset = await self._log.send_snapshot(Message(partition, -1, now_ms, SNAPSHOT_KEY, value, headers))
            if offset == seen:
                self._seen[partition] = (offset + 1, next_offset)

    async def load(self, partition: int) -> Snapshot | None:
        """Give the partition's newest whole snapshot, or None."""
        self._seen.pop(partition, None)
        return await self._look(partition)

    async def _look(self, partition: int) -> StoredSnapshot | None:
        """Look through what was not seen yet of the last few records, and give the newest snapshot there."""
        cluster, topic = self._log.cluster, self._topic
        seen, newest = self._seen.get(partition, (0, 0))
        end = await cluster.end(topic, partition)
        offset = max(await cluster.beginning(topic, partition), end - _LAST, seen)
        found: StoredSnapshot | None = None
        if offset < end:
            for message in await read_all(cluster, topic, partition, offset, end):
                snapshot = _snapshot(message)
                if snapshot is not None and snapshot.next_offset >= newest:
                    found, newest = snapshot, snapshot.next_offset
        self._seen[partition] = (end, newest)
        return found


def _snapshot(message: Message) -> StoredSnapshot | None:
    """Give the snapshot that the record holds; None for anything else."""
    told = dict(message.headers).get(NEXT_OFFSET, b"")
    if message.key != SNAPSHOT_KEY or message.value is None or not (told.isdigit() and len(told) < 20):
        return None
    try:
        return StoredSnapshot(message.partition, int(told), zlib.decompress(message.value))
    except zlib.error:
        return None

"""Decisions in the log, as the consumer of one process makes them and as replays find them.

A process reads back what it decided before it decides again (a log whose readers lag behind must not be filled with
repetitions), and a node's index is remembered: one that comes back gets the index that it had, if nobody took it.
"""

from collections.abc import Iterator, Sequence

from eventlog.events import AnyEvent, IndexAdopted, IndexAssigned, IndexReleased
from eventlog.log import EventLog
from eventlog.record import Entry, Position, Record

DECISIONS = frozenset({"index-assigned", "index-adopted", "index-released", "index-refused"})
"""The tags of decisions, as headers state them."""


class CheckedLog:
    """The EventLog of one process. `violations` is what was found."""

    def __init__(self, inner: EventLog) -> None:
        """Pass calls to `inner`."""
        self._inner = inner
        self._read_upto: dict[int, int] = {}
        self._decided_upto: dict[int, int] = {}
        self.violations: list[str] = []

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
        decides = [entry.headers.event_type in DECISIONS for entry in entries]
        positions = await self._inner.append(entries)
        for position, is_decision in zip(positions, decides, strict=True):
            if is_decision:
                self._judge(position)
        for position, is_decision in zip(positions, decides, strict=True):
            if is_decision:
                self._decided_upto[position.partition] = position.offset + 1
        return positions

    def _judge(self, position: Position) -> None:
        read, decided = self._read_upto.get(position.partition, 0), self._decided_upto.get(position.partition, 0)
        if read < decided:
            self.violations.append(
                f"read back: a decision was appended at {position} by a process that has read up to {read} only and "
                f"decided at {decided - 1} before"
            )

    async def read(self, partition: int, offset: int, *, limit: int, timeout_s: float) -> Sequence[Record]:
        """Give records from `offset` on."""
        records = await self._inner.read(partition, offset, limit=limit, timeout_s=timeout_s)
        if records:
            self._read_upto[partition] = records[-1].offset + 1
        return records

    async def beginning_offset(self, partition: int) -> int:
        """Give the offset of the oldest record."""
        return await self._inner.beginning_offset(partition)

    async def end_offset(self, partition: int) -> int:
        """Give the offset of the next record."""
        return await self._inner.end_offset(partition)

    async def settle(self, timeout_s: float) -> None:
        """Wait for the appends under way."""
        await self._inner.settle(timeout_s)

    async def close(self) -> None:
        """Close the log."""
        await self._inner.close()


class Memory:
    """Follows the decisions of one partition that had an effect: who had which index last."""

    def __init__(self) -> None:
        """Begin with an empty partition."""
        self._last: dict[tuple[str, str], dict[str, int]] = {}
        self._left: set[tuple[str, str, str]] = set()

    def take(self, record: Record, event: AnyEvent) -> Iterator[str]:
        """Take in a decision that had an effect; give what it forgot."""
        if not isinstance(event, IndexAssigned | IndexAdopted | IndexReleased):
            return
        place, node = (record.key, event.domain), event.node
        last = self._last.setdefault(place, {})
        if isinstance(event, IndexReleased):
            self._left.add((*place, node))
            return
        before = last.get(node)
        yield from self._taken(record, event, last)
        if isinstance(event, IndexAssigned) and before not in (None, event.index) and (*place, node) in self._left:
            yield (
                f"sticky index: {node} came back to {event.domain[:8]} and got index {event.index} at "
                f"{record.partition}/{record.offset}, though nobody took its index {before}"
            )
        self._left.discard((*place, node))
        for other in [name for name, index in last.items() if index == event.index]:
            del last[other]
        last[node] = event.index

    def _taken(self, record: Record, event: IndexAssigned | IndexAdopted, last: dict[str, int]) -> Iterator[str]:
        """Give whom the index is taken from, if it need not be, or that the node has one already.

        An index that is given a second time would no longer count as shown to the daemon that runs with it.
        """
        if isinstance(event, IndexAdopted):
            return
        if event.node in last and (record.key, event.domain, event.node) not in self._left:
            where = f"{event.domain[:8]} at {record.partition}/{record.offset}"
            yield f"arbitration: {event.node}, which holds index {last[event.node]}, is given {event.index} of {where}"
        holder = next((node for node, index in last.items() if index == event.index and node != event.node), None)
        if holder is None:
            return
        where = f"{event.domain[:8]} at {record.partition}/{record.offset}"
        if (record.key, event.domain, holder) not in self._left:
            yield f"arbitration: {event.node} is given index {event.index} of {where}, which {holder} holds"
        elif event.node not in last and len(last) < event.capacity:
            told = f"{event.node} is given index {event.index} of {where}, {holder}'s, while others are free"
            yield f"sticky index: {told}"

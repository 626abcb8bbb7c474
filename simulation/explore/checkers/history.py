"""The log explains everything.

Nothing acknowledged is lost, every snapshot is what a replay gives, and for every row that was written there is a place
in the log that accounts for it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from eventlog.codec import UndecodableRecord
from eventlog.log import StoredSnapshot
from eventlog.record import Entry, Position, Record
from kube.names import DOMAIN_LABEL
from projections.clique import CliqueState
from projections.desired import clique_effects
from projections.fold import Aggregate
from projections.invariants import indices_are_unique
from projections.partition import PartitionFold
from projections.settings import Settings
from simulation.explore.checkers.cleanup import left_behind
from simulation.explore.checkers.decisions import Memory
from simulation.explore.checkers.requests import Letting
from simulation.explore.checkers.rows import Suspicion
from simulation.store import Object

T = TypeVar("T")


def lost(acknowledged: Sequence[tuple[Position, Entry]], records: Mapping[int, Sequence[Record]]) -> Iterator[str]:
    """Give the acknowledged entries that are not in the log where it was said that they are."""
    for position, entry in acknowledged:
        partition = records[position.partition]
        there = partition[position.offset] if position.offset < len(partition) else None
        if there is None or (there.key, there.value) != (entry.key, entry.value):
            yield f"log: the acknowledged {entry.headers.event_type} at {position} is not there"


class Claims(msgspec.Struct, frozen=True):
    """What was seen of one partition, for the log to account for; each number is the offset that the thing names.

    `snapshots` that were saved, `writes` of CDCs, `suspicions` of rows, `lettings` of ComputeDomains.
    """

    snapshots: Sequence[StoredSnapshot]
    writes: Sequence[tuple[int, Object]]
    suspicions: Sequence[tuple[int, Suspicion]]
    lettings: Sequence[tuple[int, Letting]]


def unexplained(records: Sequence[Record], claims: Claims, settings: Settings) -> Iterator[str]:
    """Replay one partition; give what it does not account for, confirmed suspicions, and decisions that forget."""
    due_snapshots = sorted(claims.snapshots, key=lambda one: one.next_offset)
    due_writes, due_suspicions = _in_order(claims.writes), _in_order(claims.suspicions)
    due_lettings = _in_order(claims.lettings)
    fold, memory, held = PartitionFold(), Memory(), _Held()
    for offset in range(-1, len(records)):
        if offset >= 0:
            yield from _fold(fold, memory, records[offset])
            if due_suspicions:
                held.note(fold.aggregates[records[offset].key])
        while due_snapshots and due_snapshots[0].next_offset == offset + 1:
            if due_snapshots.pop(0).state != fold.snapshot():
                yield f"replay: the snapshot up to offset {offset + 1} is not what a replay gives"
        while due_writes and due_writes[0][0] == offset:
            yield from _unaccounted(fold, due_writes.pop(0)[1], offset, settings)
        while due_suspicions and due_suspicions[0][0] == offset:
            yield from _confirmed(fold, held, due_suspicions.pop(0)[1])
        while due_lettings and due_lettings[0][0] == offset:
            yield from left_behind(fold.aggregates, due_lettings.pop(0)[1])
    yield from _beyond("a CDC names", [offset for offset, _ in due_writes])
    yield from _beyond("a write of finalizers names", [offset for offset, _ in due_lettings])
    yield from _beyond("a snapshot goes up to", [snapshot.next_offset for snapshot in due_snapshots])


def _beyond(what: str, offsets: Sequence[int]) -> Iterator[str]:
    for offset in offsets:
        yield f"explanation: {what} offset {offset}, which the log does not have"


def _in_order(placed: Sequence[tuple[int, T]]) -> list[tuple[int, T]]:
    return sorted(placed, key=lambda one: one[0])


def _fold(fold: PartitionFold, memory: Memory, record: Record) -> Iterator[str]:
    before = fold.aggregates.get(record.key)
    event = fold.apply(record)
    if isinstance(event, UndecodableRecord):
        yield f"fold: {event}"
        return
    after = fold.aggregates[record.key]
    if isinstance(after, CliqueState):
        yield from (f"fold: {told}" for told in indices_are_unique(after))
        if event is not None and after.inadmissible == (before.inadmissible if isinstance(before, CliqueState) else 0):
            yield from memory.take(record, event)


class _Held:
    """When each node last held each index, by the count of its clique's records."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str, int], int] = {}

    def note(self, state: Aggregate | None) -> None:
        """Take in a clique's state after one more record."""
        if not isinstance(state, CliqueState):
            return
        for domain, membership in state.domains.items():
            for node, holding in membership.holdings.items():
                if holding.active:
                    self._last[domain, node, holding.index] = state.sequence

    def since(self, domain: str, node: str, index: int) -> int:
        """Give the count as of which the node last held the index; -1 if it never did."""
        return self._last.get((domain, node, index), -1)


def _confirmed(fold: PartitionFold, held: _Held, suspicion: Suspicion) -> Iterator[str]:
    """Give what is suspected, if the log knew of the pod in that clique by then, and the row was the pod's own.

    A daemon that only reads has a row of its own if its node held the index since it came; others write theirs.
    """
    clique = fold.aggregates.get(suspicion.clique)
    for domain, membership in clique.domains.items() if isinstance(clique, CliqueState) else ():
        pod = membership.pods.get(suspicion.pod)
        if pod is None or pod.ip != suspicion.address:
            continue
        if not pod.reader or held.since(domain, pod.node, suspicion.index) >= pod.since:
            yield suspicion.told


def _unaccounted(fold: PartitionFold, cdc: Object, offset: int, settings: Settings) -> Iterator[str]:
    """Give what of a CDC's rows does not follow from the log up to the place that it names."""
    name = cdc["metadata"]["name"]
    domain = cdc["metadata"]["labels"][DOMAIN_LABEL]
    key = name.removeprefix(f"{domain}.")
    state = fold.aggregates.get(key)
    effects = clique_effects(state, key, settings) if isinstance(state, CliqueState) else ()
    wanted = [
        {row.node: (row.index, row.ip, row.status) for row in effect.rows}
        for effect in effects
        if effect.domain == domain
    ]
    written = {row["nodeName"]: (row.get("index"), row["ipAddress"], row["status"]) for row in cdc.get("daemons", [])}
    if written not in wanted:
        yield f"explanation: the rows of {name[:8]}.{key[-1]}, written from offset {offset}, do not follow from the log"

"""The log explains everything.

Nothing acknowledged is lost, every snapshot is what a replay gives, and for every row that was written there is a place
in the log that accounts for it.
"""

from collections.abc import Iterator, Sequence

from eventlog.log import StoredSnapshot
from eventlog.record import Entry, Position, Record
from kube.names import DOMAIN_LABEL
from projections.clique import CliqueState
from projections.desired import clique_effects
from projections.invariants import indices_are_unique
from projections.partition import PartitionFold
from projections.settings import Settings
from simulation.explore.checkers.rows import Suspicion
from simulation.store import Object


def lost(acknowledged: Sequence[tuple[Position, Entry]], records: dict[int, Sequence[Record]]) -> Iterator[str]:
    """Give the acknowledged entries that are not in the log where it was said that they are."""
    for position, entry in acknowledged:
        partition = records[position.partition]
        there = partition[position.offset] if position.offset < len(partition) else None
        if there is None or (there.key, there.value) != (entry.key, entry.value):
            yield f"log: the acknowledged {entry.headers.event_type} at {position} is not there"


def unexplained(
    records: Sequence[Record],
    snapshots: Sequence[StoredSnapshot],
    writes: Sequence[tuple[int, Object]],
    suspicions: Sequence[tuple[int, Suspicion]],
    settings: Settings,
) -> Iterator[str]:
    """Replay one partition; give the snapshots and CDC writes that it does not account for, and confirmed suspicions.

    All are those of this partition; the number of a write or a suspicion is the offset that it names.
    """
    due_suspicions = sorted(suspicions, key=lambda one: one[0])
    due_snapshots = sorted(snapshots, key=lambda one: one.next_offset)
    due_writes = sorted(writes, key=lambda one: one[0])
    fold = PartitionFold()
    for offset in range(-1, len(records)):
        if offset >= 0:
            fold.apply(records[offset])
            state = fold.aggregates[records[offset].key]
            if isinstance(state, CliqueState):
                yield from (f"fold: {told}" for told in indices_are_unique(state))
        while due_snapshots and due_snapshots[0].next_offset == offset + 1:
            if due_snapshots.pop(0).state != fold.snapshot():
                yield f"replay: the snapshot up to offset {offset + 1} is not what a replay gives"
        while due_writes and due_writes[0][0] == offset:
            yield from _unaccounted(fold, due_writes.pop(0)[1], offset, settings)
        while due_suspicions and due_suspicions[0][0] == offset:
            yield from _confirmed(fold, due_suspicions.pop(0)[1])
    for late in due_writes:
        yield f"explanation: a CDC names offset {late[0]}, which the log does not have"


def _confirmed(fold: PartitionFold, suspicion: Suspicion) -> Iterator[str]:
    """Give what is suspected, if the log knew of the pod by then."""
    cliques = (state for state in fold.aggregates.values() if isinstance(state, CliqueState))
    pods = (membership.pods.get(suspicion.pod) for clique in cliques for membership in clique.domains.values())
    if any(pod is not None and pod.ip == suspicion.address for pod in pods):
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

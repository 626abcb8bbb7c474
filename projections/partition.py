"""One partition's fold: its aggregates, its place in the log, its hash chain.

`PartitionFold` is the one holder of state that changes: it replaces aggregates, which themselves never change. Records
before `next_offset` were folded already and are skipped, so that a partition may be restored from a snapshot and then
fed from anywhere at or before it.
"""

import hashlib

import msgspec

from eventlog import codec
from eventlog.events import AnyEvent
from eventlog.record import GENESIS, Record, chain
from projections.clique import CliqueState
from projections.domain import DomainState
from projections.fold import Aggregate, apply
from projections.visibility import ControllerState, ViewState, WatchState

SNAPSHOT_VERSION = 5
"""Version of the snapshot's form and of what the fold makes of records. Another one is not read: the log is folded from
its beginning instead. 2: an address that a pod had before is a dead one. 4: observations may have a provenance, which
the state leaves out. 5: whose view a partition holds."""


Folded = AnyEvent | codec.UndecodableRecord | None
"""What came of a record: its event, what is wrong with one that has none, or nothing: it was folded before."""


class PartitionState(msgspec.Struct, frozen=True):
    """What a snapshot holds."""

    version: int
    next_offset: int
    head: bytes
    aggregates: dict[str, CliqueState | DomainState | WatchState | ViewState | ControllerState]


class PartitionFold:
    """The folded state of one partition."""

    def __init__(
        self, next_offset: int = 0, head: bytes = GENESIS, aggregates: dict[str, Aggregate] | None = None
    ) -> None:
        """Start empty, or where a snapshot ended."""
        self.next_offset = next_offset
        self.head = head
        self.aggregates: dict[str, Aggregate] = dict(aggregates or {})

    def apply(self, record: Record) -> Folded:
        """Fold the record and give its event; None if it was folded before.

        A record that is no event is passed over, but for its place in the hash chain. Raises codec.NewerSchema and
        leaves the state as it was.
        """
        if record.offset < self.next_offset:
            return None
        event: Folded
        try:
            event = codec.decode(record)
        except codec.UndecodableRecord as error:
            event = error
        else:
            key = record.key
            self.aggregates[key] = apply(self.aggregates.get(key), key, event)
        self.head = chain(self.head, record)
        self.next_offset = record.offset + 1
        return event

    def snapshot(self) -> bytes:
        """Give the state in canonical bytes."""
        state = PartitionState(SNAPSHOT_VERSION, self.next_offset, self.head, self.aggregates)
        return msgspec.msgpack.encode(state, order="deterministic")


def restore(snapshot: bytes) -> PartitionFold | None:
    """Give the fold that the snapshot holds; None if it is of another version or not whole."""
    try:
        state = msgspec.msgpack.decode(snapshot, type=PartitionState)
    except msgspec.DecodeError:
        return None
    if state.version != SNAPSHOT_VERSION:
        return None
    return PartitionFold(state.next_offset, state.head, dict(state.aggregates))


class _Form(msgspec.Struct, frozen=True):
    """What a snapshot of any form says of itself."""

    version: int


def form_of(snapshot: bytes) -> int | None:
    """Give the version of the snapshot's form; None if it says none, because it is not whole."""
    try:
        return msgspec.msgpack.decode(snapshot, type=_Form).version
    except msgspec.DecodeError:
        return None


def digest(folds: list[PartitionFold]) -> str:
    """Give a digest of all aggregates: equal for equal records, whatever the number of partitions or the engine."""
    total = hashlib.sha256()
    aggregates = {key: state for fold in folds for key, state in fold.aggregates.items()}
    for key in sorted(aggregates):
        total.update(key.encode() + b"\0" + msgspec.msgpack.encode(aggregates[key], order="deterministic"))
    return total.hexdigest()

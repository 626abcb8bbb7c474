"""The judgement at the end of a run: the log is replayed, and all that was seen from outside is compared with it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from eventlog.log import StoredSnapshot
from eventlog.record import Entry, Position, Record
from projections.settings import Settings
from simulation.explore.checkers import cleanup, history
from simulation.explore.checkers.decisions import CheckedLog
from simulation.explore.checkers.requests import CheckedClient
from simulation.explore.checkers.rows import RowChecker

T = TypeVar("T")
Placed = Sequence[tuple[str, T]]
"""Things with the places in the log that they name."""


class Seen(msgspec.Struct, frozen=True):
    """What was seen of a run: what each process was told is durable, what each wrote, which snapshots were saved."""

    acknowledged: Sequence[Sequence[tuple[Position, Entry]]]
    logs: Sequence[CheckedLog]
    clients: Sequence[CheckedClient]
    rows: RowChecker
    snapshots: Mapping[int, Sequence[StoredSnapshot]]


def judge(records: Mapping[int, Sequence[Record]], seen: Seen, settings: Settings) -> Iterator[str]:
    """Give what the log, whose records are given by partition, does not account for."""
    for acknowledged in seen.acknowledged:
        yield from history.lost(acknowledged, records)
    for log in seen.logs:
        yield from log.violations
    suspected = [(one.position, one) for one in seen.rows.suspicions]
    finalizers = [one for client in seen.clients for one in client.finalizers]
    letting = [(cleanup.position_of(one), one) for one in finalizers if cleanup.lets_go(one)]
    for place in (place for placed in (seen.rows.writes, letting) for place, _ in placed):
        if place.partition("/")[0] not in map(str, records):
            yield f"explanation: a write names {place!r}, which is no place in the log"
    for partition, its in records.items():
        claims = history.Claims(
            seen.snapshots.get(partition, []),
            _of_partition(partition, seen.rows.writes),
            _of_partition(partition, suspected),
            _of_partition(partition, letting),
        )
        yield from history.unexplained(its, claims, settings)


def _of_partition(partition: int, placed: Placed[T]) -> list[tuple[int, T]]:
    """Give those whose place is in the partition, with the place's offset."""
    prefix = f"{partition}/"
    return [(int(place.removeprefix(prefix)), one) for place, one in placed if place.startswith(prefix)]

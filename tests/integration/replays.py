"""A log read and folded by the test itself, from its first record, and `cliquelog verify` as a process."""

import asyncio
import sys
from pathlib import Path

from controller import places
from eventlog.codec import UndecodableRecord
from eventlog.events import AnyEvent, CdcSeen
from eventlog.log import EventLog
from projections.clique import CliqueState
from projections.desired import desired_rows
from projections.partition import PartitionFold
from tests.integration.api import Object
from tests.integration.domains import Rows

BATCH = 2000


class Replay:
    """A whole log, folded. `events` are those of each key, in order."""

    def __init__(self) -> None:
        self.cliques: dict[str, CliqueState] = {}
        self.events: dict[str, list[AnyEvent]] = {}

    @classmethod
    async def of(cls, log_at: Path | str) -> "Replay":
        """Read the log in a file or at a place, without writing, and without its snapshots."""
        replay = cls()
        log, _ = await places.open_readonly(_place(log_at))
        try:
            for partition in range(log.partitions):
                await replay._fold(log, partition)
        finally:
            await log.close()
        return replay

    async def _fold(self, log: EventLog, partition: int) -> None:
        assert await log.beginning_offset(partition) == 0
        fold = PartitionFold()
        end = await log.end_offset(partition)
        while fold.next_offset < end:
            for record in await log.read(partition, fold.next_offset, limit=BATCH, timeout_s=0.0):
                event = fold.apply(record)
                assert event is not None
                assert not isinstance(event, UndecodableRecord)
                self.events.setdefault(record.key, []).append(event)
        self.cliques |= {key: state for key, state in fold.aggregates.items() if isinstance(state, CliqueState)}

    def rows(self, domain: str) -> Rows:
        """Give the rows that the replayed state asks for, as the API would show them."""
        return {
            clique: [
                {
                    "nodeName": row.node,
                    "ipAddress": row.ip,
                    "index": row.index,
                    "cliqueID": clique,
                    "status": row.status,
                }
                for row in desired_rows(state, domain).values()
            ]
            for clique, state in self.cliques.items()
            if domain in state.domains
        }

    def indices_seen(self, domain: str) -> dict[str, list[int | None]]:
        """Give, for each node, the indices that the recorded CDCs showed, each time it differs from the one before."""
        seen: dict[str, list[int | None]] = {}
        for events in self.events.values():
            for event in events:
                if isinstance(event, CdcSeen) and event.domain == domain:
                    for row in event.rows:
                        known = seen.setdefault(row.node, [])
                        if known[-1:] != [row.index]:
                            known.append(row.index)
        return seen


def by_node(rows: Rows) -> dict[str, list[Object]]:
    """Give the rows of each clique in the order of their nodes, to compare."""
    return {clique: sorted(found, key=lambda row: str(row["nodeName"])) for clique, found in rows.items()}


def _place(log_at: Path | str) -> str:
    return log_at if isinstance(log_at, str) else f"sqlite:{log_at}"


async def verify(log_at: Path | str) -> tuple[int, str]:
    """Run `cliquelog verify` on the log and give its exit code and output."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "controller", "verify", _place(log_at)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()

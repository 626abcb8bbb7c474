"""The work of `cliquelog import`: inputs into a log that was empty.

A line that cannot be understood is reported with file and line number and recorded as lost visibility, and the rest
goes on; `strict` makes it end the import instead.
"""

import asyncio
from collections.abc import Sequence
from importlib.metadata import version as version_of

import msgspec

from controller.importing.merging import merged
from controller.importing.reading import InputReport, Recognised
from controller.importing.recorder import IDENTITY, Recorder
from controller.importing.told import IMPORT
from eventlog import codec
from eventlog.events import ImportCompleted
from eventlog.log import EventLog
from eventlog.record import Entry, Position
from projections.fold import WATCH_PREFIX

BATCH = 2000
"""Records of one append: a commit each. What a commit changes then fits in SQLite's cache of pages, 2 MB."""
HANDING_OVER_S = 0.001
"""What the event loop is given to hand an append to the log's own thread, before the loop makes the next batch."""


class Imported(msgspec.Struct, frozen=True):
    """What an import made: its records, and what was read of each input."""

    records: int
    inputs: tuple[InputReport, ...]


async def run(inputs: Recognised, log: EventLog, skew_ms: int) -> Imported:
    """Import the inputs. Raises UnfitInput, InputError, LogError."""
    timed = [one for one in inputs.readings if one.timed]
    untimed = [one.told() for one in inputs.readings if not one.timed]
    recorder = Recorder()
    records, latest_ms = 0, 0
    batch: list[Entry] = []
    appends = _Appends(log)
    try:
        for told in merged(timed, untimed, skew_ms):
            latest_ms = max(latest_ms, told.time_ms)
            batch.extend(recorder.take(told))
            if len(batch) >= BATCH:
                records += await appends.begin(batch)
                batch = []
    finally:
        records += await appends.end()
    if latest_ms:
        batch.append(_completed(inputs.reports, latest_ms))
    records += len(await log.append(batch))
    return Imported(records, inputs.reports)


class _Appends:
    """Appends one batch while the next is made, in order."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._under_way: asyncio.Task[Sequence[Position]] | None = None

    async def begin(self, batch: Sequence[Entry]) -> int:
        """Begin to append the batch once the one before is done, and give how many records that had."""
        done = await self.end()
        self._under_way = asyncio.create_task(self._log.append(batch), name="import-append")
        await asyncio.wait((self._under_way,), timeout=HANDING_OVER_S)
        return done

    async def end(self) -> int:
        """Wait for the one that is under way, and give how many records it had."""
        under_way, self._under_way = self._under_way, None
        return len(await under_way) if under_way is not None else 0


def _completed(reports: Sequence[InputReport], at_ms: int) -> Entry:
    mark = ImportCompleted(
        tuple(one.path for one in reports),
        sum(one.lines for one in reports),
        sum(one.not_understood for one in reports),
        version_of("cliquelog"),
    )
    return codec.entry(f"{WATCH_PREFIX}{IMPORT}", mark, timestamp_ms=at_ms, controller=IDENTITY)

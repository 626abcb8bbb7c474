"""The work of `cliquelog import`: inputs into a log that was empty.

A line that cannot be understood is reported with file and line number and recorded as lost visibility, and the rest
goes on; `strict` makes it end the import instead.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from controller.importing import inputs
from controller.importing.formats import Format, FormatName, reader, recognise
from controller.importing.merging import merged
from controller.importing.recorder import Recorder
from controller.importing.told import Lost, NotUnderstood, Objects, Told
from eventlog.log import EventLog

if TYPE_CHECKING:
    from eventlog.record import Entry

BATCH = 2000
"""Records of one append: a commit each."""
_LINES_TO_RECOGNISE = 100


class UnfitInput(Exception):
    """An input that cannot be imported; the message is a sentence that names file, line and mend."""


class InputReport(msgspec.Struct):
    """What was read of an input; `not_understood` counts lines, `format` is None if it had none at all."""

    path: str
    format: FormatName | None = None
    lines: int = 0
    not_understood: int = 0


class Imported(msgspec.Struct, frozen=True):
    """What an import made: its records, and what was read of each input."""

    records: int
    inputs: tuple[InputReport, ...]


class Observer(Protocol):
    """Is told how far the import is."""

    def advanced(self, count: int) -> None:
        """Take note of bytes read, as they lie on the disk."""

    def complained(self, source: str, reason: str) -> None:
        """Take note of a line that was not understood."""


class Options(msgspec.Struct, frozen=True):
    """How to import. `format` None tells it from the content of each input."""

    format: FormatName | None
    skew_ms: int
    strict: bool


class Reading:
    """Reads one input, and counts."""

    def __init__(self, path: str, options: Options, objects: Objects, observer: Observer) -> None:
        """Open the input and find out what it is. Raises UnfitInput."""
        self.report = InputReport(path)
        self._options = options
        self._observer = observer
        self._latest = 0
        numbered = inputs.lines(path, observer.advanced)
        first = list(itertools.islice(numbered, _LINES_TO_RECOGNISE))
        self._lines = itertools.chain(first, numbered)
        name = options.format or _recognised(path, first)
        self.report.format = name
        self._format: Format | None = reader(name, objects) if name else None

    @property
    def timed(self) -> bool:
        """Whether the lines state their times."""
        return self._format is not None and self._format.timed

    def told(self) -> Iterator[Told]:
        """Give what the input tells. Raises UnfitInput for a line that is not understood, if the import is strict."""
        if self._format is None:
            return
        for number, line in self._lines:
            self.report.lines += 1
            source = f"{self.report.path}:{number}"
            try:
                if isinstance(line, inputs.Broken):
                    raise NotUnderstood(line.reason)
                for one in self._format.read(line, source):
                    self._latest = max(self._latest, one.time_ms)
                    yield one
            except NotUnderstood as error:
                if self._options.strict:
                    raise UnfitInput(f"{source}: {error}; mend it, or leave out --strict to go on without it") from None
                self.report.not_understood += 1
                self._observer.complained(source, str(error))
                yield Lost(source, self._latest, "import", f"a line was not understood: {error}")


def _recognised(path: str, first: Sequence[tuple[int, bytes | inputs.Broken]]) -> FormatName | None:
    names = (recognise(line) for _, line in first if isinstance(line, bytes))
    found = next((name for name in names if name), None)
    if found is None and first:
        kinds = ", ".join(FormatName)
        raise UnfitInput(f"{path} is of no format that an import reads ({kinds}); name it with --format if it is")
    return found


async def run(paths: Sequence[str], log: EventLog, options: Options, observer: Observer) -> Imported:
    """Import the inputs. Raises UnfitInput, inputs.InputError, LogError."""
    objects = Objects()
    readings = [Reading(path, options, objects, observer) for path in paths]
    timed = [one.told() for one in readings if one.timed]
    untimed = [one.told() for one in readings if not one.timed]
    recorder = Recorder()
    records = 0
    batch: list[Entry] = []
    for told in merged(timed, untimed, options.skew_ms):
        batch.extend(recorder.take(told))
        if len(batch) >= BATCH:
            records += len(await log.append(batch))
            batch.clear()
    records += len(await log.append(batch))
    return Imported(records, tuple(one.report for one in readings))

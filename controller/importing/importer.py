"""The work of `cliquelog import`: inputs into a log that was empty.

A line that cannot be understood is reported with file and line number and recorded as lost visibility, and the rest
goes on; `strict` makes it end the import instead.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from importlib.metadata import version as version_of
from typing import Protocol

import msgspec

from controller.importing import inputs
from controller.importing.documents import Unreadable, json_items, yaml_items
from controller.importing.formats import Format, FormatName, Shape, reader, recognise, shape_of
from controller.importing.merging import merged
from controller.importing.recorder import IDENTITY, Recorder
from controller.importing.told import IMPORT, Lost, NotUnderstood, Objects, Told
from eventlog import codec
from eventlog.events import ImportCompleted
from eventlog.log import EventLog
from eventlog.record import Entry, Position
from projections.fold import WATCH_PREFIX

BATCH = 5000
"""Records of one append: a commit each."""
HANDING_OVER_S = 0.001
"""What the event loop is given to hand an append to the log's own thread, before the loop makes the next batch."""
HEAD = 1 << 16
"""Bytes of an input that are looked at to see what it is; one line at least."""


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
    """Reads one input, and counts. A file is opened to see what it is, and opened again when its time comes."""

    def __init__(self, path: str, options: Options, objects: Objects, observer: Observer) -> None:
        """Find out what the input is. Raises UnfitInput, inputs.InputError."""
        self.report = InputReport(path)
        self.first_ms = 0
        self._options = options
        self._observer = observer
        self._latest = 0
        self._stdin: tuple[ExitStack, inputs.Stream] | None = None
        self._shape: Shape | None = None
        self._format: Format | None = None
        with ExitStack() as stack:
            stream = stack.enter_context(inputs.opened(path, observer.advanced if path == inputs.STDIN else _unheard))
            head, self._broken = _head(stream)
            if path == inputs.STDIN:
                self._stdin = (stack.pop_all(), inputs.rejoined(head, stream))
        if head.strip():
            self._recognise(head, objects)

    @property
    def timed(self) -> bool:
        """Whether the lines state their times."""
        return self._format is not None and self._format.timed

    @property
    def in_order(self) -> bool:
        """Whether the input has an order of its own."""
        return self.report.format is FormatName.CAPTURE

    def told(self) -> Iterator[Told]:
        """Give what the input tells. Raises UnfitInput for a line that is not understood, if the import is strict."""
        if self._format is None:
            if self._broken is not None:
                self.report.lines += 1
                yield from self._unread(f"{self.report.path}:1", f"the file cannot be read: {self._broken}")
            return
        with ExitStack() as stack:
            if self._stdin is None:
                stream: inputs.Stream = stack.enter_context(inputs.opened(self.report.path, self._observer.advanced))
            else:
                stack.enter_context(self._stdin[0])
                stream = self._stdin[1]
            for source, line in self._lines(stream):
                self.report.lines += 1
                for one in self._understood(self._format, source, line):
                    self._latest = max(self._latest, one.time_ms)
                    yield one

    def _recognise(self, head: bytes, objects: Objects) -> None:
        path = self.report.path
        self._shape = shape_of(head)
        first = [line for _, line in self._lines(inputs.rejoined(head)) if isinstance(line, bytes)]
        name = self._options.format or next(filter(None, map(recognise, first)), None)
        if name is None or self._shape is None:
            kinds = ", ".join(FormatName)
            raise UnfitInput(
                f"{path} is of no format that an import reads ({kinds}); name it with --format if it is one"
            )
        self.report.format = name
        self._format = reader(name, objects)
        for line in first:
            with suppress(NotUnderstood):
                if told := self._format.read(line, path):
                    self.first_ms = told[0].time_ms
                    return

    def _lines(self, stream: inputs.Stream) -> Iterator[tuple[str, bytes | inputs.Broken]]:
        """Give each object's text with its source."""
        path = self.report.path
        if self._shape is Shape.LINES or (self._options.format and self._shape is None):
            yield from ((f"{path}:{number}", line) for number, line in inputs.lines(stream))
            return
        items = json_items(stream) if self._shape is Shape.JSON else yaml_items(stream)
        number = 0
        try:
            for item in items:
                number += 1
                yield f"{path}#{number}", item
        except (Unreadable, *inputs.BROKEN) as error:
            yield f"{path}#{number + 1}", inputs.Broken(f"the rest of the file cannot be read: {error}")

    def _understood(self, form: Format, source: str, line: bytes | inputs.Broken) -> Sequence[Told]:
        try:
            if isinstance(line, inputs.Broken):
                raise NotUnderstood(line.reason)
            return form.read(line, source)
        except NotUnderstood as error:
            return self._unread(source, str(error))

    def _unread(self, source: str, reason: str) -> Sequence[Told]:
        if self._options.strict:
            raise UnfitInput(f"{source}: {reason}; mend it, or leave out --strict to go on without it")
        self.report.not_understood += 1
        self._observer.complained(source, reason)
        return (Lost(source, self._latest, IMPORT, f"a line was not understood: {reason}"),)


def _head(stream: inputs.Stream) -> tuple[bytes, Exception | None]:
    """Give the beginning: some whole lines, one at least, or as much as can be read; and what it broke off with."""
    head = b""
    try:
        while len(head) < HEAD and (line := stream.readline(inputs.LINE_MAX)):
            head += line
    except inputs.BROKEN as error:
        return head, error
    return head, None


def _unheard(_count: int) -> None:
    """Take no notice: what is read to see what an input is will be read again."""


async def run(paths: Sequence[str], log: EventLog, options: Options, observer: Observer) -> Imported:
    """Import the inputs. Raises UnfitInput, inputs.InputError, LogError."""
    objects = Objects()
    readings = [Reading(path, options, objects, observer) for path in paths]
    timed = [one for one in readings if one.timed]
    untimed = [one.told() for one in readings if not one.timed]
    recorder = Recorder()
    records, latest_ms = 0, 0
    batch: list[Entry] = []
    appends = _Appends(log)
    try:
        for told in merged(timed, untimed, options.skew_ms):
            latest_ms = max(latest_ms, told.time_ms)
            batch.extend(recorder.take(told))
            if len(batch) >= BATCH:
                records += await appends.begin(batch)
                batch = []
    finally:
        records += await appends.end()
    reports = tuple(one.report for one in readings)
    if latest_ms:
        batch.append(_completed(reports, latest_ms))
    records += len(await log.append(batch))
    return Imported(records, reports)


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

"""Reading: what an input is, and what its lines tell.

Problem: what people keep lies in one folder with notes and scripts, comes from shells that write other encodings, and
is given with the wrong name. Invariant: what an input is, is known before anything of it is recorded; what is none is
refused in one sentence that names the mend, or passed over and counted where nobody named it.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Protocol

import msgspec

from controller.importing import inputs
from controller.importing.documents import Unreadable, json_items, yaml_items
from controller.importing.formats import Format, FormatName, Shape, reader, recognise, shape_of
from controller.importing.told import IMPORT, Lost, NotUnderstood, Objects, Told

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""What some shells of Windows write before text in UTF-8."""
_UTF_16 = (b"\xff\xfe", b"\xfe\xff", b"{\0", b"\0{", b"[\0", b"\0[")
"""How text in UTF-16 begins: with its own mark, or, without one, with a bracket of two bytes."""
HEAD = 1 << 16
"""Bytes of an input that are looked at to see what it is; one line at least."""


class UnfitInput(Exception):
    """An input that cannot be imported; the message is a sentence that names file, line and mend."""


class InputReport(msgspec.Struct):
    """What was read of an input; `not_understood` counts lines, `format` is None if it had none at all.

    `passed_over` says why nothing was read of it; empty if it was read.
    """

    path: str
    format: FormatName | None = None
    lines: int = 0
    not_understood: int = 0
    passed_over: str = ""


class Observer(Protocol):
    """Is told how far the import is."""

    def advanced(self, count: int) -> None:
        """Take note of bytes read, as they lie on the disk."""

    def complained(self, source: str, reason: str) -> None:
        """Take note of a line that was not understood."""


class Options(msgspec.Struct, frozen=True):
    """How to read. `format` None tells it from the content of each input; `strict` ends at what is not understood."""

    format: FormatName | None
    strict: bool


class Reading:
    """Reads one input, and counts. A file is opened to see what it is, and opened again when its time comes."""

    def __init__(self, path: str, options: Options, objects: Objects, observer: Observer) -> None:
        """Find out what the input is. Raises UnfitInput, inputs.InputError."""
        self.report = InputReport(path)
        self._mark = 0
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
            if head.startswith(BYTE_ORDER_MARK):
                head, self._mark = head.removeprefix(BYTE_ORDER_MARK), len(BYTE_ORDER_MARK)
            if path == inputs.STDIN:
                self._stdin = (stack.pop_all(), inputs.rejoined(head, stream))
        if head.strip() and b"".join(head.split()) != b"[]":
            self._recognise(head, objects)

    @property
    def unreadable(self) -> str:
        """Say why not even the beginning can be read; empty if it can."""
        return f"the file cannot be read: {inputs.why(self._broken)}" if self._broken and not self._format else ""

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
            if self.unreadable:
                self.report.lines += 1
                yield from self._unread(f"{self.report.path}:1", self.unreadable)
            return
        with ExitStack() as stack:
            stream: inputs.Stream
            if self._stdin is None:
                stream = stack.enter_context(inputs.opened(self.report.path, self._observer.advanced))
                stream.read(self._mark)
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
        _refuse_utf16(path, head)
        self._shape = shape_of(head)
        first = [line for _, line in self._lines(inputs.rejoined(head)) if isinstance(line, bytes)]
        found = {name: None for name in map(recognise, first) if name is not None}
        name = self._options.format or next(iter(found), None)
        if name is None or (self._shape is None and not self._options.format):
            kinds = ", ".join(FormatName)
            raise UnfitInput(
                f"{path} is of no format that an import reads ({kinds}); name it with --format if it is one"
            )
        if found and name not in found:
            other = next(iter(found))
            raise UnfitInput(f"{path} is of format {other}, not {name}; give --format {other}, or leave it out")
        form = reader(name, objects)
        self.first_ms = self._first_time(form, first)
        self.report.format, self._format = name, form

    def _first_time(self, form: Format, first: Sequence[bytes]) -> int:
        """Give the time of the first line that tells anything, 0 if none does.

        Raises UnfitInput if the format was forced upon an input of which it understands nothing.
        """
        reasons = []
        for line in first:
            try:
                if told := form.read(line, self.report.path):
                    return told[0].time_ms
            except NotUnderstood as error:
                reasons.append(str(error))
        if self._options.format and first and len(reasons) == len(first):
            raise UnfitInput(
                f"{self.report.path} is not of format {self._options.format}, which --format names ({reasons[0]}); "
                "leave --format out, or give another"
            )
        return 0

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
            reason = str(error) if isinstance(error, Unreadable) else inputs.why(error)
            yield f"{path}#{number + 1}", inputs.Broken(f"the rest of the file cannot be read: {reason}")

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


def _refuse_utf16(path: str, head: bytes) -> None:
    if head.startswith(_UTF_16):
        raise UnfitInput(
            f"{path} is text in UTF-16, as PowerShell writes it with >, and an import reads UTF-8; write it with "
            f"`kubectl ... | Out-File -Encoding utf8 FILE`, or turn it with `iconv -f UTF-16 -t UTF-8 {path}`"
        )


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


class Recognised(msgspec.Struct, frozen=True):
    """The inputs that can be read, and the reports of all."""

    readings: tuple[Reading, ...]
    reports: tuple[InputReport, ...]


def recognised(found: Sequence[inputs.Found], options: Options, observer: Observer) -> Recognised:
    """Find out what each input is. Raises UnfitInput, inputs.InputError.

    What lies in a folder and is of no format is passed over, since nobody named it, unless the import is strict; what
    was named is refused, and so is an import of which nothing can be read.
    """
    objects = Objects()
    readings: list[Reading] = []
    reports: list[InputReport] = []
    unfit: list[str] = []
    for one in found:
        try:
            reading = Reading(one.path, options, objects, observer)
        except UnfitInput as error:
            if one.named or options.strict:
                raise
            observer.complained(one.path, f"passed over: {error}")
            reports.append(InputReport(one.path, passed_over=str(error)))
            unfit.append(str(error))
        else:
            readings.append(reading)
            reports.append(reading.report)
            unfit += [f"{one.path}: {reading.unreadable}"] if reading.unreadable else []
    if unfit and not any(one.report.format for one in readings):
        rest = "" if len(unfit) == 1 else f"; so it is with {len(unfit) - 1} more"
        raise UnfitInput(f"no input can be read: {unfit[0]}{rest}")
    return Recognised(tuple(readings), tuple(reports))

"""The command `cliquelog import`."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from controller import exits, places
from controller.collecting import collect_rarely
from controller.commands.options import Seconds, kafka_config
from controller.exits import Failure
from controller.importing import importer, inputs, reading
from controller.importing.formats import FormatName
from controller.importing.merging import SKEW_MS
from eventlog.log import EventLog

COMPLAINTS_MAX = 20
"""Lines that are named; the others are only counted, and all of them are in the log."""


@click.command("import")
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True)
@click.option("--to", "to", required=True, help="The log to make: sqlite:PATH, or kafka://HOST:PORT/TOPIC.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice([str(name) for name in FormatName]),
    help="What the inputs are; told from the content of each if not given.",
)
@click.option(
    "--skew",
    "skew_s",
    type=Seconds(0, 3600),
    default=SKEW_MS / 1000,
    show_default=True,
    help="How far, in seconds, the clocks of API servers may differ and lines may be late.",
)
@click.option("--strict", is_flag=True, help="End at the first line that is not understood.")
@kafka_config
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/history.md).")
def import_(
    inputs: tuple[str, ...],
    to: str,
    format_name: str | None,
    skew_s: float,
    kafka_config: Path | None,
    *,
    strict: bool,
    as_json: bool,
) -> None:
    """Make a log of what others recorded: audit logs and kubectl watches.

    INPUT is a file, plain or gzipped, a folder of such, or - for standard input. Several inputs become one history.
    Each record says its file and line and whether it was observed or is inferred (docs/history.md). A line that is not
    understood is reported, and the rest goes on; a file in a folder that is of no format is passed over.

    \b
    Examples:
      cliquelog import audit.log audit.log.1.gz --to sqlite:incident.sqlite
      cliquelog import cliques.json pods.json domains.json --to sqlite:incident.sqlite
      cliquelog audit sqlite:incident.sqlite
    """
    collect_rarely()
    options = reading.Options(FormatName(format_name) if format_name else None, strict)
    imported = asyncio.run(_import(inputs, to, options, round(skew_s * 1000), kafka_config))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(imported)).decode())
    else:
        click.echo(text_of(imported, to))


async def _import(
    paths: tuple[str, ...], to: str, options: reading.Options, skew_ms: int, kafka_config: Path | None
) -> importer.Imported:
    try:
        found = inputs.files(paths)
        with _watched(inputs.size(found)) as observer:
            recognised = reading.recognised(found, options, observer)
            async with _new_log(to, kafka_config) as log:
                return await importer.run(recognised, log, skew_ms)
    except (reading.UnfitInput, inputs.InputError) as error:
        raise Failure(str(error), exits.INPUT) from error


@asynccontextmanager
async def _new_log(to: str, kafka_config: Path | None) -> AsyncIterator[EventLog]:
    """Open a log without records; one that was made here goes again if the block fails and leaves it so."""
    is_new = not to.startswith(places.KAFKA) and not places.size_bytes(to)
    log, _ = await places.open_for_writing(to, None, kafka_config=kafka_config)
    is_left_empty = False
    try:
        if any(await _ends(log)):
            raise Failure(
                f"{to} holds records already, and a history is imported into an empty log; name another, or remove it",
                exits.LOG,
            )
        try:
            yield log
        except BaseException:
            is_left_empty = is_new and not any(await _ends(log))
            raise
    finally:
        await log.close()
        if is_left_empty:
            places.remove(to)


async def _ends(log: EventLog) -> list[int]:
    return [await log.end_offset(partition) for partition in range(log.partitions)]


class _Watching:
    """Shows progress, and names the lines that were not understood."""

    def __init__(self, console: Console, progress: Progress, total: int) -> None:
        self._console = console
        self._progress = progress
        self._task = progress.add_task("import", total=total or None)
        self._complaints = 0

    def advanced(self, count: int) -> None:
        """Move the bar."""
        self._progress.advance(self._task, count)

    def complained(self, source: str, reason: str) -> None:
        """Name the line."""
        self._complaints += 1
        if self._complaints <= COMPLAINTS_MAX:
            self._console.print(f"{escape(source)}: {escape(reason)}", highlight=False, soft_wrap=True)
        elif self._complaints == COMPLAINTS_MAX + 1:
            self._console.print("more lines were not understood; the log names all", highlight=False)


@contextmanager
def _watched(total: int) -> Iterator[_Watching]:
    console = Console(file=sys.stderr)
    columns = (
        TextColumn("import"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield _Watching(console, progress, total)


def text_of(imported: importer.Imported, to: str) -> str:
    """Give the summary for people."""
    lines = [f"{imported.records} records in {to}"]
    for one in imported.inputs:
        bad = f", {one.not_understood} not understood" if one.not_understood else ""
        read = f"{one.format or 'empty'}, {one.lines} lines{bad}"
        lines.append(f"  {one.path}: {'passed over' if one.passed_over else read}")
    return "\n".join(lines)

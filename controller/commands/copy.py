"""The command `cliquelog copy`."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from controller import exits, places
from controller.commands.options import in_sync, kafka_config, replicas
from controller.copying import Copied, Show, copy
from controller.terminal import Interrupted, consoles, unless_interrupted
from eventlog.record import Position


class Result(msgspec.Struct, frozen=True):
    """The one object that `--json` prints. `not_ours`: records of others in the source's topic, which were left out."""

    source: str
    target: str
    copied: Copied
    not_ours: int


SQLITE = "sqlite:"


@click.command(name="copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@kafka_config
@click.option(
    "--from-kafka-config",
    type=click.Path(path_type=Path),
    help="The same for FROM alone, where the two are on different brokers.",
)
@replicas
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def copy_log(
    source: str,
    target: str,
    kafka_config: Path | None,
    from_kafka_config: Path | None,
    replication: int,
    min_insync: int | None,
    *,
    as_json: bool,
) -> None:
    """Copy the log FROM into the log TO, and verify the copy.

    Both are sqlite:PATH or kafka://HOST:PORT/TOPIC. Partitions, order, keys, headers and timestamps stay, so both
    fold to one state; snapshots are not copied. TO is made if it is not there. If it holds the first records of FROM,
    as after a copy that was ended midway or before FROM grew, the copy goes on behind them; any other records are
    refused. A controller may be running on FROM; none may run on TO.

    \b
    Examples:
      cliquelog copy sqlite:/var/lib/cliquelog/log.sqlite kafka://kafka-0.kafka:9092/cliquelog
      cliquelog copy kafka://kafka-0.kafka:9092/cliquelog sqlite:incident.sqlite
    """
    if is_one_log(source, target):
        raise exits.Failure(f"{source} and {target} are one log; name another one to copy to", exits.LOG)
    console = consoles(as_json=as_json)
    strangers = _Strangers()
    making = places.Making(kafka_config, replication, in_sync(replication, min_insync))
    work = _copy(source, from_kafka_config or kafka_config, target, making, strangers, console)
    try:
        copied = asyncio.run(unless_interrupted(work))
    except Interrupted as interrupted:
        console.print("\nInterrupted. The same command goes on from there.", soft_wrap=True, highlight=False)
        raise click.exceptions.Exit(128 + interrupted.number) from None
    if as_json:
        result = Result(source, target, copied, strangers.count)
        click.echo(msgspec.json.format(msgspec.json.encode(result)).decode())
    else:
        click.echo(text_of(copied, strangers.count))
    if copied.differences:
        raise click.exceptions.Exit(exits.FOUND)


def is_one_log(one: str, other: str) -> bool:
    """Say whether two places are the same: by name, or on the disk through links."""
    paths = [Path(place.removeprefix(SQLITE)) for place in (one, other) if place.startswith(SQLITE)]
    with suppress(OSError):  # one that is not there, or cannot be, is nobody's twin
        return one == other or (len(paths) == 2 and paths[0].samefile(paths[1]))
    return one == other


async def _copy(
    source: str,
    source_config: Path | None,
    target: str,
    making: places.Making,
    strangers: "_Strangers",
    console: Console,
) -> Copied:
    async with AsyncExitStack() as stack:
        # A source that is refused must not cost a new log.
        original, _ = await places.open_readonly(source, kafka_config=source_config, foreign=strangers)
        stack.push_async_callback(original.close)
        into = await places.open_or_make(target, original.partitions, making)
        stack.push_async_callback(into.close)
        with _progress(console) as show:
            return await copy(original, into, show)


class _Strangers:
    """Counts records that somebody else put into the source, of each once."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}
        self.count = 0

    def __call__(self, position: Position, reason: str) -> None:
        """Count it; a partition is read in order, so what lies before the last one counted was counted."""
        del reason
        if position.offset > self._last.get(position.partition, -1):
            self._last[position.partition] = position.offset
            self.count += 1


class _Rate(ProgressColumn):
    """Records a second."""

    def render(self, task: Task) -> Text:
        """Give the rate of the last moments."""
        return Text("" if task.speed is None else f"{task.speed:,.0f}/s")


@contextmanager
def _progress(console: Console) -> Iterator[Show]:
    """Give what shows how far the copy is: a bar a phase, on a terminal only."""
    if not console.is_terminal:
        yield lambda _phase, _done, _total: None
        return
    columns = (TextColumn("{task.description:<8}"), BarColumn(30), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bars:
        tasks = {}

        def show(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = bars.add_task(phase)
            bars.update(tasks[phase], completed=done, total=max(done, total))

        yield show


def text_of(copied: Copied, not_ours: int) -> str:
    """Give the result for people."""
    fresh = copied.records - copied.there_already
    lines = [
        f"copied      {fresh:,} records; {copied.there_already:,} were there already",
        f"partitions  {len(copied.partitions)}",
        f"took        {copied.seconds:.1f} s",
    ]
    if not_ours:
        lines.append(f"left out    {not_ours:,} records that are not the log's; see `cliquelog verify`")
    if copied.differences:
        lines.append("verified    NOT EQUAL: somebody else wrote to the copy; remove it and copy again")
        lines += [f"            {difference}" for difference in copied.differences]
    else:
        lines.append("verified    equal hash chains and states")
    return "\n".join(lines)

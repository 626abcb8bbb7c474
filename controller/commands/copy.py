"""The command `cliquelog copy`."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path

import click
import msgspec
from click.core import ParameterSource
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from controller import exits, places
from controller.commands.options import in_sync, kafka_config, replicas
from controller.commands.strangers import Strangers
from controller.copying import Copied, PartitionCopy, Show, Side, accept, copy
from controller.terminal import Interrupted, consoles, emit_json, unless_interrupted


class Result(msgspec.Struct, frozen=True):
    """The one object that `--json` prints (docs/kafka.md): `Copied`, and what is around it.

    `not_ours`: records of others in the source's topic, which were left out; `first_not_ours`: PARTITION/OFFSET.
    """

    source: str
    target: str
    copied: int
    there_already: int
    records: int
    not_ours: int
    first_not_ours: str | None
    seconds: float
    differences: tuple[str, ...]
    partitions: tuple[PartitionCopy, ...]


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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/kafka.md).")
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
    fold to one state; snapshots are not copied. FROM is read and checked first; then TO is made if it is not there.
    If it holds the first records of FROM, as after a copy that was ended midway or before FROM grew, the copy goes on
    behind them; any other records are refused. A controller may be running on FROM; none may run on TO.

    \b
    Examples:
      cliquelog copy sqlite:/var/lib/cliquelog/log.sqlite kafka://kafka-0.kafka:9092/cliquelog
      cliquelog copy kafka://kafka-0.kafka:9092/cliquelog sqlite:incident.sqlite
    """
    if is_one_log(source, target):
        raise exits.Failure(f"{source} and {target} are one log; name another one to copy to", exits.LOG)
    _refuse_idle_options(source, target)
    console = consoles(as_json=as_json)
    strangers = Strangers()
    making = places.Making(kafka_config, replication, in_sync(replication, min_insync))
    began = time.perf_counter()
    work = _copy(source, from_kafka_config or kafka_config, target, making, strangers, console)
    try:
        copied = asyncio.run(unless_interrupted(work))
    except Interrupted as interrupted:
        console.print("\nInterrupted. The same command goes on from there.", soft_wrap=True, highlight=False)
        raise click.exceptions.Exit(128 + interrupted.number) from None
    seconds = time.perf_counter() - began
    if as_json:
        around = {"source": source, "target": target, "seconds": round(seconds, 3)}
        foreign = {"not_ours": strangers.count, "first_not_ours": strangers.first}
        result = msgspec.convert(msgspec.structs.asdict(copied) | around | foreign, Result)
        emit_json(result)
    else:
        click.echo(text_of(copied, seconds, strangers.told()))
    if copied.differences:
        raise click.exceptions.Exit(exits.FOUND)


def _refuse_idle_options(source: str, target: str) -> None:
    """Raise UsageError for an option for Kafka that has no effect on these two; the environment may hold one."""
    sides = {"FROM": source, "TO": target}
    reach = {
        "kafka_config": ("FROM", "TO"),
        "from_kafka_config": ("FROM",),
        "replication": ("TO",),
        "min_insync": ("TO",),
    }
    context = click.get_current_context()
    for option in context.command.params:
        names = reach.get(option.name or "", ())
        given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if names and given and not any(sides[name].startswith(places.KAFKA) for name in names):
            told = "neither FROM nor TO is" if len(names) > 1 else f"{names[0]} is not"
            raise click.UsageError(f"{option.opts[0]} is for a log on Kafka, and {told} one: leave it out")


def is_one_log(one: str, other: str) -> bool:
    """Say whether two places are the same: by name, or on the disk through links."""
    paths = [Path(place.removeprefix(places.SQLITE)) for place in (one, other) if place.startswith(places.SQLITE)]
    with suppress(OSError):  # one that is not there, or cannot be, is nobody's twin
        return one == other or (len(paths) == 2 and paths[0].samefile(paths[1]))
    return one == other


async def _copy(
    source: str,
    source_config: Path | None,
    target: str,
    making: places.Making,
    strangers: Strangers,
    console: Console,
) -> Copied:
    async with AsyncExitStack() as stack:
        show = stack.enter_context(_progress(console))
        original = await places.open_to_copy(source, kafka_config=source_config, foreign=strangers)
        stack.push_async_callback(original.close)
        accepted = await accept(Side(source, original), show)
        into = await places.open_or_make(target, original.partitions, making)
        stack.push_async_callback(into.close)
        return await copy(Side(source, original), accepted, Side(target, into), show)


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


def text_of(copied: Copied, seconds: float, not_ours: str | None) -> str:
    """Give the result for people; `not_ours` says what of others was left out."""
    lines = [
        f"copied      {copied.copied:,} records; {copied.there_already:,} were there already",
        f"partitions  {len(copied.partitions)}",
        f"took        {seconds:.1f} s",
    ]
    if not_ours:
        lines.append(f"left out    {not_ours}")
    if copied.differences:
        lines.append("verified    NOT EQUAL: somebody else wrote to the copy; remove it and copy again")
        lines += [f"            {difference}" for difference in copied.differences]
    else:
        lines.append("verified    equal hash chains and states")
    return "\n".join(lines)

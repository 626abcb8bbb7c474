"""`make bench`: measure what a user waits for, and print the figures with the command and the machine."""

import asyncio
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import click
import msgspec

from bench import (
    append,
    effects,
    engines,
    failover,
    fold,
    history,
    kafka,
    negotiate,
    pace,
    report,
    restart,
    scale,
    soak,
    strategies,
)
from bench.machine import describe
from bench.tables import Table, render
from bench.workload import Shape
from controller.engines.consumer import ConsumerConfig

USUAL = ("append", "fold", "restart", "effects", "negotiate", "kafka")
PARTS = (*USUAL, "engines", "failover", "history", "pace", "report", "scale", "soak", "strategies")
LARGEST = {
    "engines": 1_008,
    "failover": 1_008,
    "negotiate": 1_008,
    "pace": 504,
    "report": 5_040,
    "scale": 50_400,
    "strategies": 5_040,
}
"""Nodes of the largest formation, where no other number is given."""


class Sizes(msgspec.Struct, frozen=True):
    """How much is measured; see the options' help."""

    shape: Shape
    fold_records: int
    restart_records: int
    snapshot_records: int
    seconds: float
    formation_nodes: int | None
    failover_records: int
    soak_minutes: float
    chart: Path | None
    history_lines: int


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(PARTS))
@click.option("--cliques", type=click.IntRange(1, 10_000), default=280, show_default=True)
@click.option("--nodes", type=click.IntRange(1, 18), default=18, show_default=True, help="Nodes of each clique.")
@click.option("--fold-records", type=click.IntRange(1), default=200_000, show_default=True)
@click.option("--restart-records", type=click.IntRange(1), default=1_000_000, show_default=True)
@click.option(
    "--snapshot-records",
    type=click.IntRange(1),
    default=ConsumerConfig().snapshot_records,
    show_default=True,
    help="Records of a partition between two snapshots.",
)
@click.option(
    "--seconds", type=float, default=3.0, show_default=True, help="Time per setting of append, effects, kafka."
)
@click.option(
    "--formation-nodes",
    type=click.IntRange(36),
    help=f"The largest formation [{', '.join(f'{part} {nodes}' for part, nodes in LARGEST.items())}].",
)
@click.option("--history-lines", type=click.IntRange(100), default=1_000_000, show_default=True)
@click.option(
    "--failover-records",
    type=click.IntRange(1),
    default=200_000,
    show_default=True,
    help="Records that failover lets its workers fold.",
)
@click.option("--soak-minutes", type=float, default=5.0, show_default=True, help="How long soak lets workers idle.")
@click.option(
    "--chart",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where pace draws its curve, as SVG [nowhere].",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="Where the logs are made and removed again: on the file system to measure [the current folder].",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def main(
    parts: tuple[str, ...],
    cliques: int,
    nodes: int,
    fold_records: int,
    restart_records: int,
    snapshot_records: int,
    seconds: float,
    formation_nodes: int | None,
    failover_records: int,
    soak_minutes: float,
    chart: Path | None,
    history_lines: int,
    folder: Path,
    as_json: bool,
) -> None:
    """Measure PARTS: append to kafka of the list are the default, the others are measured if named."""
    shape = Shape(cliques, nodes)
    sizes = Sizes(
        shape,
        fold_records,
        restart_records,
        snapshot_records,
        seconds,
        formation_nodes,
        failover_records,
        soak_minutes,
        chart,
        history_lines,
    )
    machine = describe(folder)
    if not as_json:
        click.echo(machine)
    tables: list[Table] = []
    for part in parts or USUAL:
        with tempfile.TemporaryDirectory(prefix="bench-", dir=folder) as made:
            for table in _tables(part, Path(made), sizes):
                tables.append(table)
                if not as_json:
                    click.echo(f"\n{render(table)}")
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode({"machine": machine.splitlines(), "tables": tables}) + b"\n")


def _tables(part: str, folder: Path, sizes: Sizes) -> Iterable[Table]:
    largest = sizes.formation_nodes or LARGEST.get(part, 0)
    match part:
        # These have event loops of their own, on virtual time, or processes.
        case "negotiate":
            return negotiate.measure(largest)
        case "pace":
            return pace.measure(largest, folder, sizes.chart)
        case "history":
            return history.measure(sizes.shape, sizes.history_lines, folder)
        case "report":
            return report.measure(largest, folder)
        case "scale":
            return scale.measure(largest, folder)
        case "strategies":
            return strategies.measure(largest, folder)
        case _:
            return asyncio.run(_measure(part, folder, sizes))


async def _measure(part: str, folder: Path, sizes: Sizes) -> list[Table]:
    path = folder / "log.sqlite"
    match part:
        case "append":
            return [await append.measure(folder, sizes.shape, sizes.seconds)]
        case "fold":
            await fold.fill(path, sizes.shape, sizes.fold_records)
            return list(await fold.measure(path))
        case "restart":
            await fold.fill(path, sizes.shape, sizes.restart_records)
            return [await restart.measure(path, sizes.snapshot_records)]
        case "kafka":
            return await kafka.measure(folder, sizes.shape, sizes.seconds, sizes.fold_records)
        case "engines":
            return await engines.measure(folder, sizes.formation_nodes or LARGEST[part])
        case "soak":
            return await soak.measure(folder, sizes.soak_minutes * 60)
        case "failover":
            return await failover.measure(folder, sizes.formation_nodes or LARGEST[part], sizes.failover_records)
        case _:
            return [effects.measure(sizes.shape, sizes.fold_records, sizes.seconds)]


if __name__ == "__main__":
    main()

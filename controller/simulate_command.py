"""The command `cliquelog simulate`."""

import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from rich.console import Console

from controller import exits
from controller.options import CliqueSize, Seconds
from controller.sides import STRATEGIES
from controller.simulating import Job, Outcome
from controller.simulating import simulate as carry_out
from controller.simulation_report import consoles, progress, result_of, table_of
from simulation.formation import Plan

T = TypeVar("T")


@click.command()
@click.option("--nodes", type=click.IntRange(1, 100_000), default=5040, show_default=True, help="Nodes that join.")
@click.option("--clique-size", type=CliqueSize(), default=18, show_default=True, help="Nodes of each clique.")
@click.option("--seed", type=int, default=1, show_default=True, help="Fixes the order of arrivals and all delays.")
@click.option(
    "--window",
    "window_s",
    type=Seconds(min=0),
    default=11.0,
    show_default=True,
    help="Seconds within which the nodes join.",
)
@click.option(
    "--wave",
    type=click.IntRange(1),
    help="So many nodes join in random order, then the next ones [all: the cliques fill side by side].",
)
@click.option(
    "--strategy",
    type=click.Choice(STRATEGIES),
    default="cliquelog",
    show_default=True,
    help="Who gives the daemons their rows: our controller; the daemons among themselves, as upstream's do; or one "
    "queue with one write for each event, as in an early controller of upstream (5 requests a second).",
)
@click.option("--log", "log", help="Where the event log is made: sqlite:PATH [in a new temporary folder].")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def simulate(
    nodes: int,
    clique_size: int,
    seed: int,
    window_s: float,
    wave: int | None,
    strategy: str,
    log: str | None,
    *,
    as_json: bool,
) -> None:
    """Form a ComputeDomain on a simulated cluster.

    This process holds an API server and stand-ins for the rest of a cluster; beside it the real controller runs, over
    HTTP on loopback and in real time. Then the log is replayed. Nothing else is needed, and nothing else is touched.

    \b
    Examples:
      cliquelog simulate
      cliquelog simulate --nodes 1008 --window 1 --log sqlite:/tmp/log.sqlite
      cliquelog simulate --nodes 180 --strategy negotiate
    """
    ours = strategy == "cliquelog"
    if log and not ours:
        raise click.UsageError(f"--strategy {strategy} has no event log; leave --log out")
    console = consoles(as_json=as_json)
    folder = Path(tempfile.mkdtemp(prefix="cliquelog-simulate-"))
    place = (log or f"sqlite:{folder / 'log.sqlite'}") if ours else None
    job = Job(Plan(nodes, clique_size, seed, window_s, wave or nodes), strategy, place, folder)
    try:
        with progress(job.plan, console) as show:
            outcome = asyncio.run(_unless_interrupted(carry_out(job, show)))
    except Interrupted as interrupted:
        kept = f" What there is of the log is kept: {job.log}" if ours else ""
        console.print(f"\nInterrupted.{kept}", soft_wrap=True, highlight=False)
        raise click.exceptions.Exit(128 + interrupted.number) from None
    except BaseException:
        if not job.controller_log.exists():
            shutil.rmtree(folder)  # It was refused before anything ran.
        raise
    right = _report(outcome, console, as_json=as_json)
    if not right:
        console.print(f"This is not as it should be: see {job.controller_log}.", soft_wrap=True, highlight=False)
        raise click.exceptions.Exit(exits.FOUND)
    if log or not ours:
        shutil.rmtree(folder)


class Interrupted(Exception):
    """The user has ended it."""

    def __init__(self, number: int) -> None:
        """Keep the signal's number."""
        super().__init__(number)
        self.number = number


async def _unless_interrupted(work: Coroutine[Any, Any, T]) -> T:
    """Do the work. At the first SIGINT or SIGTERM end it cleanly and raise Interrupted; more of them change nothing."""
    task = asyncio.ensure_future(work)
    numbers: list[int] = []

    def interrupt(number: int) -> None:
        if not numbers:
            task.cancel()
        numbers.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupt, number)
    try:
        return await task
    except asyncio.CancelledError:
        if not numbers:
            raise
        raise Interrupted(numbers[0]) from None


def _report(outcome: Outcome, console: Console, *, as_json: bool) -> bool:
    """Print the result, and say whether all is as it should be."""
    result = result_of(outcome)
    if as_json:
        click.echo(msgspec.json.encode(result).decode())
    else:
        console.print(table_of(result))
        _say_what_next(outcome.job.log, console)
    return result.rows_ready == result.nodes and (result.replay is None or result.replay.digest_equal)


def _say_what_next(log: str | None, console: Console) -> None:
    program = "cliquelog" if shutil.which("cliquelog") else str(Path(sys.executable).with_name("cliquelog"))
    if log is None:
        console.print("\nNext, form the same domain with our controller:")
        console.print(f"  {program} simulate", soft_wrap=True, highlight=False)
        return
    console.print("\nThe log is kept. Next, check that it is whole, keeps the rules, and folds to one answer:")
    console.print(f"  {program} verify {log}", soft_wrap=True, highlight=False)
    console.print("or let the daemons negotiate their indices, as upstream's do, and compare:")
    console.print(f"  {program} simulate --nodes 180 --strategy negotiate", soft_wrap=True, highlight=False)

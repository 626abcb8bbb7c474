"""The command `cliquelog simulate`."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec
from rich.console import Console

from controller import exits
from controller.commands.options import CliqueSize, Seconds
from controller.commands.run import run
from controller.simulating.report import faults_of, progress, result_of, table_of
from controller.simulating.run import Job, Outcome
from controller.simulating.run import simulate as carry_out
from controller.simulating.sides import STRATEGIES
from controller.terminal import Interrupted, consoles, forget_output, is_unread, unless_interrupted
from simulation.formation import Plan


@click.command()
@click.option("--nodes", type=click.IntRange(1, 100_000), default=5040, show_default=True, help="Nodes that join.")
@click.option("--clique-size", type=CliqueSize(), default=18, show_default=True, help="Nodes of each clique.")
@click.option("--seed", type=int, default=1, show_default=True, help="Fixes the order of arrivals and all delays.")
@click.option(
    "--window",
    "window_s",
    type=Seconds(min=0, max=86_400),
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
    if log is not None and not ours:
        raise click.UsageError(f"--strategy {strategy} has no event log; leave --log out")
    if sys.stdout is None:
        mend = "send it to /dev/null if nobody is to read it"
        raise exits.Failure(f"standard output is closed; {mend}", exits.CONFIGURATION)
    folder = _temporary_folder()
    place = f"sqlite:{folder / 'log.sqlite'}" if ours and log is None else log
    job = Job(Plan(nodes, clique_size, seed, window_s, wave or nodes), strategy, place, folder, _environment())
    with _tidying(job, folder_holds_log=ours and log is None):
        console = consoles(as_json=as_json)
        try:
            with progress(job.plan, console) as show:
                outcome = asyncio.run(unless_interrupted(carry_out(job, show)))
        except Interrupted as interrupted:
            kept = f" What there is of the log is kept: {job.log}" if ours else ""
            console.print(f"\nInterrupted.{kept}", soft_wrap=True, highlight=False)
            raise click.exceptions.Exit(128 + interrupted.number) from None
        if not _report(outcome, console, as_json=as_json):
            raise click.exceptions.Exit(exits.FOUND)


def _environment() -> dict[str, str]:
    """Give this process's environment without what `run` would take its options from: it is not meant for this one."""
    taken = {option.envvar for option in run.params if isinstance(option, click.Option)}
    return {name: value for name, value in os.environ.items() if name not in taken}


def _temporary_folder() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="cliquelog-simulate-"))
    except OSError as error:
        mend = "set TMPDIR to a folder that can be written"
        raise exits.Failure(f"no temporary folder can be made: {error.strerror}; {mend}", exits.CONFIGURATION) from None


@contextmanager
def _tidying(job: Job, *, folder_holds_log: bool) -> Iterator[None]:
    """Remove the job's folder, but for what the user is told of: a log, or why it failed.

    Raises Failure for output that cannot be written.
    """
    kept = folder_holds_log
    try:
        yield
    except click.exceptions.Exit as end:
        kept = kept or end.exit_code == exits.FOUND
        raise
    except BaseException as error:
        refused = _refused_by_system(error)
        if refused is None:
            kept = True
            raise
        unread = isinstance(refused, BrokenPipeError) and is_unread()
        forget_output()
        if unread:
            raise click.exceptions.Exit(exits.UNREAD) from None
        what = f"what is printed, or kept in {job.folder}, cannot be written: {refused.strerror}"
        raise exits.Failure(f"{what}; make room, or send it elsewhere", exits.CONFIGURATION) from None
    finally:
        # Without a controller's output nothing ran here.
        if not kept or not job.controller_log.exists():
            shutil.rmtree(job.folder)


def _refused_by_system(error: BaseException) -> OSError | None:
    """Give the first OSError if the error is nothing else, perhaps in groups."""
    if isinstance(error, BaseExceptionGroup):
        found = [_refused_by_system(one) for one in error.exceptions]
        return found[0] if all(found) else None
    return error if isinstance(error, OSError) else None


def _report(outcome: Outcome, console: Console, *, as_json: bool) -> bool:
    """Print the result, and say whether all is as it should be."""
    result = result_of(outcome)
    if as_json:
        click.echo(msgspec.json.encode(result).decode())
    else:
        console.print(table_of(result))
    faults = faults_of(result)
    if faults:
        told = outcome.job.controller_log
        where = f"; see {told}" if told.exists() else ""
        said = f"\nThis is not as it should be: {', and '.join(faults)}{where}."
        console.print(said, soft_wrap=True, highlight=False)
    elif not as_json:
        _say_what_next(outcome.job.log, console)
    return not faults


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

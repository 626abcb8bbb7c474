"""`python -m simulation.explore`: hunt for faults in a range of seeds."""

import os
import re
import sys

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from simulation.explore.ablations import ABLATIONS
from simulation.explore.faults import KINDS
from simulation.explore.run import Options, plan_of
from simulation.explore.search import Found, search
from simulation.explore.story import command, shrink, tell

STORIES_MAX = 3
"""Failing seeds that are made smaller and told; the others are named."""
JUDGED_FROM = 500
"""Seeds from which on a kind of fault that never struck is a failure of the search itself."""


class SeedRange(click.ParamType):
    """`A..B`, both included, or one seed."""

    name = "A..B"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """Read the range."""
        match = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", str(value))
        if match is None:
            self.fail(f"{value!r} is no range of seeds; give it as 0..2000", param, ctx)
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        if last < first:
            self.fail(f"the range {value} is empty; give the smaller seed first", param, ctx)
        return range(first, last + 1)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seeds", type=SeedRange(), required=True, help="The seeds, both ends included.")
@click.option("--without", multiple=True, type=click.Choice(KINDS), help="A kind of fault to leave out; repeatable.")
@click.option("--actions", help="Keep only these actions of the workload, by their places: 0,3,4.")
@click.option("--ablate", type=click.Choice(list(ABLATIONS)), help="A safeguard to switch off.")
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, show_default=True, help="Processes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(
    seeds: range, without: tuple[str, ...], actions: str | None, ablate: str | None, jobs: int, *, as_json: bool
) -> None:
    """Run whole controllers on a simulated cluster under virtual time, with faults, once for each seed.

    Exits with 1 if a rule is broken in any run, or if a kind of fault never struck in a search of 500 seeds or more.
    A failing seed's story ends with the command that repeats it.
    """
    options = Options(frozenset(without), _places(actions, seeds), ablate or "")
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"), BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    ) as progress:
        shown = progress.add_task("seeds", total=len(seeds))
        found = search(
            seeds,
            options,
            jobs,
            lambda done, failed: progress.update(shown, completed=done, description=f"seeds, {failed} failed"),
        )
    unproven = [kind for kind in found.never_struck() if kind not in without]
    if as_json:
        click.echo(msgspec.json.encode(_summary(found, unproven, options)).decode())
    else:
        _print(found, unproven, options)
    sys.exit(1 if found.failed or (unproven and is_judged(found)) else 0)


def is_judged(found: Found) -> bool:
    """Say whether a search is so long that every kind of fault should have struck in it."""
    return found.seeds >= JUDGED_FROM


def _places(text: str | None, seeds: range) -> frozenset[int] | None:
    """Read the places of actions, which are those of one seed's plan."""
    if text is None:
        return None
    if len(seeds) > 1:
        raise click.UsageError("--actions are those of one seed; give one with --seeds")
    known = range(len(plan_of(seeds[0]).actions))
    if re.fullmatch(r"\d+(,\d+)*", text) is None or not {int(place) for place in text.split(",")} <= set(known):
        raise click.UsageError(f"--actions {text!r}: give places from 0 to {len(known) - 1} with commas between them")
    return frozenset(int(place) for place in text.split(","))


def _summary(found: Found, unproven: list[str], options: Options) -> dict[str, object]:
    return {
        "seeds": found.seeds,
        "seconds": round(found.seconds, 1),
        "seeds_per_second": round(found.seeds / found.seconds, 2),
        "recovered_s_max": round(found.slowest_s, 1),
        "faults": found.faults,
        "never_struck": unproven,
        "failed": [
            {"seed": one.seed, "violations": one.violations, "trace": one.digest, "repeat": command(one.seed, options)}
            for one in found.failed
        ],
    }


def _print(found: Found, unproven: list[str], options: Options) -> None:
    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    table = Table(show_header=False, box=None, pad_edge=False)
    for kind, times in found.faults.items():
        table.add_row(kind, f"{times:,}")
    console.print("faults that struck:")
    console.print(table)
    rate = found.seeds / found.seconds
    console.print(f"{found.seeds:,} seeds in {found.seconds:.1f} s ({rate:.1f} per second), {len(found.failed)} failed")
    console.print(f"the slowest was right again {found.slowest_s:.0f} virtual seconds after its last fault")
    for kind in unproven if is_judged(found) else ():
        console.print(f"this proves nothing of a fault that never struck: {kind}", markup=False)
    for verdict in found.failed[:STORIES_MAX]:
        # Whoever states what is left out repeats a story, and is told that one.
        repeats = bool(options.without) or options.actions is not None
        smaller, kept = (verdict, options) if repeats else shrink(verdict, options)
        console.print("\n" + tell(smaller, kept), soft_wrap=True, markup=False)
    for verdict in found.failed[STORIES_MAX:]:
        console.print(f"seed {verdict.seed}: {verdict.violations[0]}", soft_wrap=True, markup=False)


if __name__ == "__main__":
    main()

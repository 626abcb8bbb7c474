"""`python -m simulation.explore.ablation_table`: find each ablation anew, and write the table in the README.

The table is measured, never typed: for each safeguard that is switched off, the first seed of 1..200 in which a checker
sees it, and the rule that was broken. Whoever changes the workload, the faults or the checkers runs it again.
"""

import multiprocessing
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import msgspec

from simulation.explore.ablations import ABLATIONS
from simulation.explore.ablations.ablation import Ablation
from simulation.explore.run import Options, explore
from simulation.explore.story import rule

SEEDS = range(1, 201)
"""Within which each ablation is to be found."""
README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- ablations: generated -->", "<!-- ablations: end -->"
ROW = re.compile(r"^\| `([a-z-]+)` \|.*\| (\d+|none) \| ([^|]*) \|$", re.MULTILINE)


class Finding(msgspec.Struct, frozen=True):
    """What the search found of an ablation: the first seed (None: none did) and the rule that was broken in it."""

    name: str
    seed: int | None = None
    rule: str = ""


def find(name: str) -> Finding:
    """Explore seed after seed until one finds the ablation, and is right without it."""
    for seed in SEEDS:
        verdict = explore(seed, Options(ablation=name))
        if verdict.violations and not explore(seed, Options()).violations:
            return Finding(name, seed, rule(verdict.violations[0]))
    return Finding(name)


def written(text: str) -> dict[str, Finding]:
    """Read the findings of the tables in a text, by ablation."""
    rows = (match.groups() for match in ROW.finditer(text))
    return {name: Finding(name, None if seed == "none" else int(seed), broken) for name, seed, broken in rows}


def tables(ablations: Mapping[str, Ablation], findings: Mapping[str, Finding]) -> str:
    """Give the tables as text: those that are found, and those that another safeguard covers."""
    found = [one for one in ablations.values() if not one.covered]
    covered = [one for one in ablations.values() if one.covered]
    lines = [
        f"{len(found)} ablations, each to be found within seeds {SEEDS[0]} to {SEEDS[-1]}:",
        "",
        "| ablation | what happens instead | what the safeguard is for | first seed | rule that breaks |",
        "|---|---|---|---|---|",
        *(_row(one, one.protects, findings[one.name]) for one in found),
    ]
    if covered:
        lines += [
            "",
            "Not counted, since no seed of that range finds them:",
            "",
            "| ablation | what happens instead | what covers for it | first seed | rule that breaks |",
            "|---|---|---|---|---|",
            *(_row(one, one.covered, findings[one.name]) for one in covered),
        ]
    return "\n".join(lines)


def _row(one: Ablation, reason: str, finding: Finding) -> str:
    seed = "none" if finding.seed is None else finding.seed
    return f"| `{one.name}` | {one.instead} | {reason} | {seed} | {finding.rule} |"


def replaced(text: str, generated: str) -> str:
    """Give the text with this between its two marks."""
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise click.ClickException(f"{README} has no place for the table; put the lines {BEGIN} and {END} into it")
    return f"{before}{BEGIN}\n\n{generated}\n\n{END}{after}"


def _measure(jobs: int) -> Iterator[Finding]:
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for done, finding in enumerate(pool.imap_unordered(find, ABLATIONS), 1):
            click.echo(f"{done}/{len(ABLATIONS)} {finding.name}: {finding.seed} {finding.rule}", err=True)
            yield finding


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, show_default=True, help="Processes.")
def main(jobs: int) -> None:
    """Measure all ablations and write the table in simulation/README.md.

    Exits with 1 if one that should be found was not.
    """
    findings = {finding.name: finding for finding in _measure(jobs)}
    README.write_text(replaced(README.read_text(encoding="utf-8"), tables(ABLATIONS, findings)), encoding="utf-8")
    missed = [one.name for one in ABLATIONS.values() if not one.covered and findings[one.name].seed is None]
    for name in missed:
        click.echo(f"{name}: no seed of {SEEDS[0]}..{SEEDS[-1]} finds it", err=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()

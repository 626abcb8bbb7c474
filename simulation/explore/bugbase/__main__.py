"""`python -m simulation.explore.bugbase NAME`: keep a bug that a seed finds while its mend is taken back."""

import click
import msgspec

from simulation.explore.ablations import ABLATIONS, MENDS
from simulation.explore.bugbase import PLACE, Bug, replay
from simulation.explore.run import Options, explore
from simulation.explore.story import rule, shrink


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name")
@click.option("--seed", type=click.IntRange(0), required=True, help="A seed that finds it.")
@click.option("--mend", type=click.Choice([*MENDS, *ABLATIONS]), required=True, help="The mend, as an ablation.")
@click.option("--story", required=True, help="What happened, in two sentences.")
def main(name: str, seed: int, mend: str, story: str) -> None:
    """Make the failing run smaller and write it to the bugbase as NAME.json."""
    options = Options(ablation=mend)
    verdict = explore(seed, options)
    if not verdict.violations:
        raise click.ClickException(f"seed {seed} breaks no rule without the mend {mend}; find another with --ablate")
    verdict, options = shrink(verdict, options)
    kept = range(verdict.actions) if options.actions is None else options.actions
    plan, rates = verdict.plan, {kind: rate for kind, rate in verdict.rates.items() if kind in verdict.faults}
    bug = Bug(story, rule(verdict.violations[0]), mend, seed, plan, rates)
    if not replay(bug, mended=False).violations:
        bug = msgspec.structs.replace(bug, rates={kind: rate for kind, rate in verdict.rates.items() if rate})
    if not replay(bug, mended=False).violations or replay(bug, mended=True).violations:
        raise click.ClickException(f"seed {seed} made smaller does not tell the mend from its absence; try another")
    (PLACE / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(bug), indent=2) + b"\n")
    click.echo(f"{name}: {len(kept)} actions, {len(bug.rates)} kinds of faults, rule: {bug.rule}")


if __name__ == "__main__":
    main()

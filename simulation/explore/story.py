"""A failing seed's story: the smallest run that still breaks the same rule, told as a timeline.

Made smaller by leaving out kinds of faults and actions of the workload, one after the other, as long as the same rule
is broken. Streams of random numbers are separate, so what stays mostly stays as it was.
"""

import shlex
import sys
from collections.abc import Iterator

from simulation.explore.faults import KINDS
from simulation.explore.run import Options, Verdict, explore

LINES_MAX = 70
"""Lines of a timeline that are told: the last ones before the violation."""


def rule(violation: str) -> str:
    """Give the rule that a violation names before its colon."""
    return violation.partition(":")[0]


def rules(verdict: Verdict) -> set[str]:
    """Give the rules that were broken."""
    return {rule(told) for told in verdict.violations}


def shrink(verdict: Verdict, options: Options) -> tuple[Verdict, Options]:
    """Give the smallest run found that still breaks one of the same rules."""
    broken = rules(verdict)
    for smaller in _without_faults(verdict, options):
        tried = explore(verdict.seed, Options(options.without | smaller.without, options.actions, options.ablation))
        if rules(tried) & broken:
            verdict, options = tried, Options(options.without | smaller.without, options.actions, options.ablation)
    kept = frozenset(range(verdict.actions)) if options.actions is None else options.actions
    for at in sorted(kept, reverse=True):
        fewer = Options(options.without, kept - {at}, options.ablation)
        tried = explore(verdict.seed, fewer)
        if rules(tried) & broken:
            verdict, options, kept = tried, fewer, kept - {at}
    return verdict, options


def _without_faults(verdict: Verdict, options: Options) -> Iterator[Options]:
    for kind in sorted(verdict.faults.keys() & set(KINDS)):
        yield Options(frozenset({kind}), options.actions, options.ablation)


def command(seed: int, options: Options) -> str:
    """Give the command that repeats a run."""
    words = [sys.executable, "-m", "simulation.explore", "--seeds", f"{seed}..{seed}"]
    for kind in sorted(options.without):
        words += ["--without", kind]
    if options.actions is not None:
        words += ["--actions", ",".join(map(str, sorted(options.actions)))]
    if options.ablation:
        words += ["--ablate", options.ablation]
    return shlex.join(words)


def tell(verdict: Verdict, options: Options) -> str:
    """Give the story as text."""
    end = next((at for at, line in enumerate(verdict.lines) if "VIOLATION" in line), len(verdict.lines) - 1)
    lines = verdict.lines[max(0, end - LINES_MAX + 1) : end + 1]
    return "\n".join(
        [
            f"seed {verdict.seed}: {verdict.violations[0]}",
            *(f"  also: {told}" for told in verdict.violations[1:4]),
            *(line[:170] for line in lines),
            f"trace {verdict.digest}",
            f"repeat with: {command(verdict.seed, options)}",
        ]
    )

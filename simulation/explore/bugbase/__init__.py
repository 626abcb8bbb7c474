"""The bugs that the search found, kept for ever: each with the run that found it and the mend that ended it.

A seed gives another run whenever the workload or the faults change. So a bug carries its plan, made smaller, and the
rates of the faults that it needs. The mend is named as an ablation: with it the run is right, without it the same rule
breaks again in one of `TURNS` schedules (which one, changes with the product). An entry that could not fail any more
would prove nothing, and its test says so.
"""

from pathlib import Path

import msgspec

from simulation.explore.run import Options, Verdict, explore
from simulation.explore.scenario import Plan

PLACE = Path(__file__).parent
TURNS = 200
"""Schedules of a bug's plan within which it is found again without its mend."""


class Bug(msgspec.Struct, frozen=True):
    """One bug. `story` says in two sentences what happened; `mend` names the ablation that takes the mend back."""

    story: str
    rule: str
    mend: str
    seed: int
    plan: Plan
    rates: dict[str, float]


def bugs() -> dict[str, Bug]:
    """Give all bugs by name."""
    return {path.stem: msgspec.json.decode(path.read_bytes(), type=Bug) for path in sorted(PLACE.glob("*.json"))}


def replay(bug: Bug, *, mended: bool, turn: int = 0) -> Verdict:
    """Run the bug's plan again, with its mend or without; each turn is another schedule of the same plan."""
    return explore(bug.seed + turn, Options(ablation="" if mended else bug.mend, plan=bug.plan, rates=bug.rates))

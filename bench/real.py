"""Runs of `cliquelog simulate` in real time, each in a process of its own, as a user has them."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from controller.simulating.report import Result
from simulation.formation import Plan


class SimulationFailed(Exception):
    """A run did not end as it should; the message is what it said."""


class Run(msgspec.Struct, frozen=True):
    """What a run gave, and the machine's load average (one minute) just before it."""

    load: float
    result: Result


def simulate(plan: Plan, folder: Path) -> Run:
    """Form the plan's domain with our controller; the log is made in `folder` and removed. Raises SimulationFailed."""
    log = folder / "simulated.sqlite"
    try:
        return simulated(plan, log)
    finally:
        for path in folder.glob(f"{log.name}*"):
            path.unlink()


def simulated(plan: Plan, log: Path) -> Run:
    """Form the plan's domain with our controller, and keep the log. Raises SimulationFailed."""
    load = os.getloadavg()[0]
    words = [f"--nodes={plan.nodes}", f"--clique-size={plan.clique_size}", f"--seed={plan.seed}"]
    words += [f"--window={plan.window_s}", f"--wave={plan.wave}", f"--log=sqlite:{log}", "--json"]
    done = subprocess.run([sys.executable, "-m", "controller", "simulate", *words], capture_output=True, check=False)
    if done.returncode:
        raise SimulationFailed(f"cliquelog simulate {' '.join(words)}: {done.stderr.decode(errors='replace')[-2000:]}")
    return Run(load, msgspec.json.decode(done.stdout, type=Result))

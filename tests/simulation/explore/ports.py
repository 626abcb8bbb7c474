"""The ports of a process of the exploration, for tests: without faults, or with those that a test wants."""

import asyncio
import random
from collections.abc import Mapping

from simulation.explore.faults import Faults, Latency
from simulation.explore.process import Process
from simulation.explore.trace import Trace


def latency() -> Latency:
    return Latency(random.Random(1))


def process(rates: Mapping[str, float] | None = None) -> Process:
    """Give a process; a rate of 1.0 lets a kind of fault strike every time."""
    trace = Trace(asyncio.get_running_loop().time)
    return Process("p", Faults(random.Random(1), trace, frozenset(), rates or {}))

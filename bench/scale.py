"""How time, processor time, writes, memory and log grow with the number of nodes, in real time.

Arrivals are alike at all sizes, or nothing could be compared: so many nodes a second, and in waves, so that a clique
fills within the same seconds. What still grows faster than the nodes is our own doing.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import linear_regression

from bench.real import Run, simulate
from bench.tables import Cell, Table
from controller.simulating.report import Result
from simulation.formation import Plan

SIZES = (1_008, 5_040, 10_080, 20_160, 50_400)
NODES_PER_S = 5_040 / 11
"""The rate of the usual workload."""
WAVE = 1_008
MB = 1e6


def measure(largest: int, folder: Path) -> Iterator[Table]:
    """Give the tables, for sizes up to `largest`."""
    sizes = [size for size in SIZES if size <= largest] or [largest]
    runs = [simulate(Plan(size, 18, 1, size / NODES_PER_S, WAVE), folder) for size in sizes]
    results = [run.result for run in runs]
    yield _formations(runs)
    yield _resources(results)
    if len(results) > 1:
        yield _growth(results)


def _formations(runs: Sequence[Run]) -> Table:
    return Table(
        f"Scale: {NODES_PER_S:.0f} nodes a second join, in waves of {WAVE:,}",
        ("nodes", "load", "window s", "then Ready s", "writes/clique", "row s", "last s", "refused"),
        tuple(
            (
                f"{one.nodes:,}",
                run.load,
                one.window_seconds,
                one.formation_seconds - one.window_seconds,
                f"{one.clique_writes_mean:.2f} ({one.clique_writes_max})",
                one.row_visible_ms.p99 / 1000,
                one.last_row_visible_ms.p99 / 1000,
                one.conflicts_409 + one.throttled_429,
            )
            for run in runs
            for one in (run.result,)
        ),
        (
            "load: average of the last minute when the run began, this bench included. then",
            "Ready: from the last node's joining to the last row Ready; 4 s are its pod's and",
            "its daemon's. row, last: until 99 of 100 rows, last rows of cliques, are",
            "visible. refused: 409, 429.",
        ),
    )


def _resources(results: Sequence[Result]) -> Table:
    return Table(
        "Scale: what it takes",
        ("nodes", "CPU s", "fake's CPU s", "late ms", "memory MB", "records", "log MB", "replay s"),
        tuple(
            (
                f"{one.nodes:,}",
                one.controller_cpu_seconds,
                one.simulation_cpu_seconds,
                f"{one.server_lag_ms.p50:.0f} / {one.server_lag_ms.p99:.0f}",
                one.controller_peak_bytes / MB,
                one.records,
                one.log_bytes / MB,
                one.replay.seconds if one.replay else 0.0,
            )
            for one in results
        ),
        (
            "CPU, memory: of the controller's process, the latter at its peak. fake: the",
            "simulation, that is API server, cluster and meter; late: its event loop, p50 and",
            "p99.",
        ),
    )


FIGURES: Mapping[str, Callable[[Result], float]] = {
    "formation, s": lambda one: one.formation_seconds,
    "controller's CPU, s": lambda one: one.controller_cpu_seconds,
    "CDC writes": lambda one: one.clique_writes,
    "controller's memory": lambda one: one.controller_peak_bytes,
    "log, bytes": lambda one: one.log_bytes,
    "simulation's CPU, s": lambda one: one.simulation_cpu_seconds,
}


def _growth(results: Sequence[Result]) -> Table:
    nodes = [one.nodes for one in results]
    rows: list[tuple[Cell, ...]] = []
    for name, figure in FIGURES.items():
        values = [figure(one) for one in results]
        rows.append((name, exponent(nodes, values), exponent(nodes[-2:], values[-2:])))
    return Table(
        f"Scale: growth exponents from {nodes[0]:,} to {nodes[-1]:,} nodes (aim: at most 1.05)",
        ("", "all sizes", "last two"),
        tuple(rows),
        ("1 is proportional to the nodes. Least squares over the logarithms.",),
    )


def exponent(nodes: Sequence[int], values: Sequence[float]) -> float:
    """Give the exponent with which the values grow with the nodes: the slope of a line through the logarithms."""
    return linear_regression([math.log(one) for one in nodes], [math.log(one) for one in values]).slope

"""The three strategies side by side: the same nodes, the same arrivals, the same server, on virtual time.

Virtual time, because over HTTP the one Python process that is server and daemons at once would itself be the server
that is short of capacity, for `negotiate` long before it is for us. Each formation is measured on a server with
capacity to spare, which gives the honest factor, and on one that is short of it, which is never to be quoted alone.
Our controller once more in real time, so that its processor time is seen too.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from bench.real import simulate
from bench.tables import Cell, Table
from bench.virtual import Formed, form_virtually
from controller.pacing import Pace
from controller.sides import STRATEGIES
from simulation.capacity import Limits
from simulation.formation import Plan
from simulation.timing import Timing

SIZES = (1_008, 5_040)
WINDOW_S = 11.0
AMPLE, SHORT = 16, 2
"""Cores of the server for each 1,008 nodes. The peer's server had 2 for 1,008 nodes, daemons included."""
CLIQUE = 18
UNMEASURED = "-"


class Case(msgspec.Struct, frozen=True):
    """A formation on a server of so many cores."""

    nodes: int
    cores: int
    ample: bool

    @property
    def plan(self) -> Plan:
        """Who comes when."""
        return Plan(self.nodes, CLIQUE, 1, WINDOW_S, self.nodes)


def cases(largest: int) -> Sequence[Case]:
    """Give the formations of at most `largest` nodes; at least one size."""
    sizes = [size for size in SIZES if size <= largest] or [largest]
    return [
        Case(size, max(1, round(cores * size / SIZES[0])), cores == AMPLE) for cores in (AMPLE, SHORT) for size in sizes
    ]


def measure(largest: int, folder: Path) -> Iterator[Table]:
    """Give a table for each server, and the factors."""
    measured = [(case, {name: _formed(case, name) for name in STRATEGIES}) for case in cases(largest)]
    for ample, title in ((True, "with capacity to spare"), (False, "short of capacity")):
        rows = [row for case, formed in measured if case.ample is ample for row in _rows(case, formed)]
        if ample:
            rows += [_in_real_time(case.plan, folder) for case, _ in measured if case.ample]
        yield _table(f"Strategies, on a server {title}", rows)
    yield _factors(measured)


def _formed(case: Case, strategy: str) -> Formed:
    return form_virtually(case.plan, strategy, Limits(cores=case.cores), Pace(), Timing())


def _table(title: str, rows: Sequence[tuple[Cell, ...]]) -> Table:
    return Table(
        title,
        ("nodes, cores", "", "writes/clique", "409/node", "429/node", "any row s", "last row s", "Ready s"),
        tuple(rows),
        (
            f"Nodes come within {WINDOW_S:g} s. writes: requests that write a CDC, refused ones included;",
            "any row, last row: p50 / p99 until it is visible, of all and of the cliques' last; Ready: until all are.",
        ),
    )


def _rows(case: Case, formed: dict[str, Formed]) -> Iterator[tuple[Cell, ...]]:
    for name, one in formed.items():
        yield (
            f"{case.nodes:,}, {case.cores}",
            name,
            one.requests_per_clique,
            one.refused[409] / one.nodes,
            (one.refused[429] + one.throttled) / one.nodes,
            f"{one.row.p50 / 1000:.2f} / {one.row.p99 / 1000:.2f}",
            f"{one.last_row.p50 / 1000:.2f} / {one.last_row.p99 / 1000:.2f}",
            one.seconds,
        )


def _in_real_time(plan: Plan, folder: Path) -> tuple[Cell, ...]:
    run = simulate(plan, folder)
    one = run.result
    return (
        f"{plan.nodes:,}, {Limits().cores}",
        f"cliquelog, real time (load {run.load:.1f})",
        one.clique_writes_mean,
        one.conflicts_409 / one.nodes,
        one.throttled_429 / one.nodes,
        f"{one.row_visible_ms.p50 / 1000:.2f} / {one.row_visible_ms.p99 / 1000:.2f}",
        f"{one.last_row_visible_ms.p50 / 1000:.2f} / {one.last_row_visible_ms.p99 / 1000:.2f}",
        one.formation_seconds,
    )


def _factors(measured: Sequence[tuple[Case, dict[str, Formed]]]) -> Table:
    def factor(nodes: int, name: str, *, ample: bool) -> float:
        (formed,) = [formed for case, formed in measured if (case.nodes, case.ample) == (nodes, ample)]
        return formed[name].requests_per_clique / formed["cliquelog"].requests_per_clique

    sizes = [case.nodes for case, _ in measured if case.ample]
    return Table(
        "Strategies: how many times our CDC writes the others need",
        ("nodes", "", "capacity to spare: the honest factor", "short of it: never alone"),
        tuple(
            (f"{nodes:,}", name, factor(nodes, name, ample=True), factor(nodes, name, ample=False))
            for nodes in sizes
            for name in STRATEGIES
            if name != "cliquelog"
        ),
    )

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
from bench.virtual import Arrivals, Formed, form_virtually
from controller.simulating.sides import STRATEGIES
from controller.writing.pacing import Pace
from simulation.capacity import Limits
from simulation.formation import Plan
from simulation.meter import Quantiles
from simulation.timing import Timing

SIZES = (1_008, 5_040)
USUAL = Arrivals("11 s", 11.0)
CLOSE = (Arrivals("1 s", 1.0), Arrivals("1 s, IPs too", 0.5, Timing(address=(1.0, 1.5))))
"""Nodes that join within a second: their pods' IPs come within three, as kubelets are slow, or within one as well."""
AMPLE, SHORT = 16, 2
"""Cores of the server for each 1,008 nodes. The peer's server had 2 for 1,008 nodes, daemons included."""
AMPLE_CLOSE = 256
"""The same for nodes that join within a second: with 64, daemons that negotiate keep all of them busy for a moment."""
CLIQUE = 18
COLUMNS = ("", "writes", "409", "429", "row s", "last row s", "Ready s")


class Case(msgspec.Struct, frozen=True):
    """A formation on a server of so many cores."""

    nodes: int
    arrivals: Arrivals
    cores: int
    ample: bool

    @property
    def plan(self) -> Plan:
        """Who comes when."""
        return Plan(self.nodes, CLIQUE, 1, self.arrivals.window_s, self.nodes)

    @property
    def title(self) -> str:
        """Tell them apart, for people."""
        return f"{self.nodes:,} in {self.arrivals.title}"


def cases(largest: int) -> Sequence[Case]:
    """Give the formations of at most `largest` nodes; at least one size."""
    sizes = [size for size in SIZES if size <= largest] or [largest]
    return [
        *(Case(size, USUAL, _cores(AMPLE, size), ample=True) for size in sizes),
        *(Case(sizes[0], arrivals, _cores(AMPLE_CLOSE, sizes[0]), ample=True) for arrivals in CLOSE),
        *(Case(size, USUAL, _cores(SHORT, size), ample=False) for size in sizes),
    ]


def _cores(each: int, nodes: int) -> int:
    return max(1, round(each * nodes / SIZES[0]))


def measure(largest: int, folder: Path) -> Iterator[Table]:
    """Give a table for each formation, ours in real time, and the factors."""
    measured = [(case, {name: _formed(case, name) for name in STRATEGIES}) for case in cases(largest)]
    for case, formed in measured:
        capacity = "capacity to spare" if case.ample else "short of capacity"
        rows = [_row(name, one) for name, one in formed.items()]
        yield Table(f"Strategies: {case.title}; a server with {case.cores} cores, {capacity}", COLUMNS, tuple(rows))
    yield Table(
        f"Strategies: cliquelog in real time; a server with {Limits().cores} cores",
        ("nodes", "load", *COLUMNS[1:]),
        tuple(_in_real_time(case, folder) for case, _ in measured if case.ample and case.arrivals == USUAL),
        (
            "writes: requests that write a CDC, refused ones included, per clique; 409, 429:",
            "per node; row, last row: p50 / p99 until it is visible, of all and of the",
            "cliques' last; Ready: until all are. IPs too: the IPs of a clique's pods come",
            "within a second as well, else 1 to 3 s after the pod has its node.",
        ),
    )
    yield _factors(measured)


def _formed(case: Case, strategy: str) -> Formed:
    return form_virtually(case.plan, strategy, Limits(cores=case.cores), Pace(), case.arrivals.timing)


def _row(name: str, one: Formed) -> tuple[Cell, ...]:
    return (
        name,
        one.requests_per_clique,
        one.refused[409] / one.nodes,
        (one.refused[429] + one.throttled) / one.nodes,
        _seconds(one.row),
        _seconds(one.last_row),
        one.seconds,
    )


def _seconds(delays: Quantiles) -> str:
    return f"{delays.p50 / 1000:.2f} / {delays.p99 / 1000:.2f}"


def _in_real_time(case: Case, folder: Path) -> tuple[Cell, ...]:
    run = simulate(case.plan, folder)
    one = run.result
    return (
        f"{one.nodes:,}",
        run.load,
        one.clique_writes_mean,
        one.conflicts_409 / one.nodes,
        one.throttled_429 / one.nodes,
        _seconds(one.row_visible_ms),
        _seconds(one.last_row_visible_ms),
        one.formation_seconds,
    )


def _factors(measured: Sequence[tuple[Case, dict[str, Formed]]]) -> Table:
    return Table(
        "Strategies: how many times our CDC writes the others need",
        ("nodes", "cores", *(name for name in STRATEGIES if name != "cliquelog"), "server"),
        tuple(
            (
                case.title,
                case.cores,
                *(
                    one.requests_per_clique / formed["cliquelog"].requests_per_clique
                    for name, one in formed.items()
                    if name != "cliquelog"
                ),
                "the honest factor" if case.ample else "starved: never alone",
            )
            for case, formed in measured
        ),
    )

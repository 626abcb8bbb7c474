"""The strategies that cliquelog is compared with, beside what was measured of their originals.

`negotiate`: the peer's own daemons were measured on a real API server. That server, its etcd, the daemons and their
schedule shared two cores, so the simulated one has two, and more where the table says so. `central-queue`: upstream
issue #816 reports what its original did with 256 pods.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean

import msgspec

from bench.formation import NAMESPACE, Deliver, Outcome, Plan, Shape, form
from bench.tables import Table
from kube.clock import Clock
from simulation.capacity import Limits
from simulation.central_queue import CentralQueue, CentralSettings
from simulation.costs import Costs
from simulation.negotiating_daemon import DaemonSettings
from simulation.negotiation import Negotiation
from simulation.strategy import CliqueOf, Strategy

PEER_CORES = 2
PATIENCE_S = 1800.0
CENTRAL_PATIENCE_S = 7200.0
NO_FIGURE = "-"


class Case(msgspec.Struct, frozen=True):
    """A formation, and the peer's figures for it: 409 and 429 for each node, IP to row (p50, p99), last row Ready.

    Figures of several runs are given as they were measured, so they are text.
    """

    title: str
    shape: Shape
    seeds: int
    cores: int = PEER_CORES
    conflicts: str = NO_FIGURE
    throttled: str = NO_FIGURE
    row_s: str = NO_FIGURE
    last_s: str = NO_FIGURE


def cases() -> Sequence[Case]:
    """Give the formations that the peer was measured with, and one of them on servers with more cores."""
    apart = Shape(10, 18, apart_s=8.0, join_s=0.5, address_s=(1.0, 3.0))
    burst = Shape(5, 18, apart_s=0.0, join_s=0.5, address_s=(1.0, 1.5))
    large = Shape(56, 18, apart_s=0.0, join_s=11.0, address_s=(1.0, 3.0))
    return (
        Case(
            "90 in 13 s",
            Shape(5, 18, apart_s=0.0, join_s=11.0, address_s=(1.0, 3.0)),
            5,
            conflicts="0.04-0.12",
            throttled="0",
            row_s="0.38 / 0.56",
            last_s="15",
        ),
        Case("180, each clique in 2.5 s", apart, 5, conflicts="0.60", throttled="0", row_s="0.39 / 0.56", last_s="77"),
        Case(
            "180, each clique in 1 s",
            msgspec.structs.replace(apart, address_s=(1.0, 1.5)),
            5,
            conflicts="1.43",
            throttled="0",
            row_s="0.40 / 0.63",
            last_s="75",
        ),
        Case("90 in 1 s", burst, 5, conflicts="9.1-12.5", throttled="0", row_s="2.9 / 7.6", last_s="10-16"),
        Case("1,008 in 13 s", large, 1, cores=16),
        Case("1,008 in 13 s", large, 1, cores=4),
        Case("1,008 in 13 s", large, 1, conflicts="11.4", throttled="0.6", row_s="27 / 78", last_s="99"),
        Case(
            "5,040 in 13 s",
            msgspec.structs.replace(large, cliques=280),
            1,
            conflicts="4.3",
            throttled="1.3",
            row_s="105 / 284",
            last_s="308",
        ),
    )


def measure(largest: int) -> Iterator[Table]:
    """Give the tables, without formations of more than `largest` nodes."""
    yield from _negotiate([case for case in cases() if case.shape.rows <= largest])
    yield _deliveries([case for case in cases() if case.seeds > 1 and case.shape.rows <= largest])
    yield _central_queue(largest)


def negotiating(clock: Clock, clique_of: CliqueOf, deliver: Deliver, seed: int) -> Strategy:
    """Give the strategy `negotiate`."""
    return Negotiation(NAMESPACE, clique_of, deliver=deliver, clock=clock, seed=seed, settings=DaemonSettings())


def central_queue(clock: Clock, _clique_of: CliqueOf, _deliver: Deliver, seed: int) -> Strategy:
    """Give the strategy `central-queue`."""
    return CentralQueue(NAMESPACE, clock=clock, seed=seed, settings=CentralSettings())


def _negotiate(chosen: Sequence[Case]) -> Iterator[Table]:
    measured = [(case, [_formed(case, seed, Costs()) for seed in range(1, case.seeds + 1)]) for case in chosen]
    yield Table(
        "negotiate: CDC writes for each node: carried out, refused with 409, with 429",
        ("", "cores", "written", "409", "peer", "429", "peer"),
        tuple(
            (
                case.title,
                case.cores,
                outcomes[0].accepted,
                _spread([one.per_node(409) for one in outcomes]),
                case.conflicts,
                _spread([one.per_node(429) for one in outcomes]),
                case.throttled,
            )
            for case, outcomes in measured
        ),
        (
            "Mean and range of five seeds; one seed from 1,008 nodes on.",
            "peer: its own code, on a real API server with two cores for everything.",
        ),
    )
    yield Table(
        "negotiate: seconds",
        ("", "cores", "pod IP to row", "peer", "last row Ready", "peer"),
        tuple(
            (
                case.title,
                case.cores,
                f"{_at(outcomes[0].row_s, 0.5):.2f} / {_at(outcomes[0].row_s, 0.99):.2f}",
                case.row_s,
                _spread([one.seconds for one in outcomes]),
                case.last_s,
            )
            for case, outcomes in measured
        ),
        ("pod IP to row: p50 / p99 of the first seed.",),
    )


def _deliveries(chosen: Sequence[Case]) -> Table:
    """Tell how much hangs on the one cost that is known within a range only."""
    range_s = (0.0009, Costs().delivery_s, 0.0017)
    return Table(
        "negotiate: 409 for each node, by what a delivery costs",
        ("", *(f"{seconds * 1000:.1f} ms" for seconds in range_s), "peer"),
        tuple(
            (
                case.title,
                *(
                    fmean(_formed(case, seed, Costs(delivery_s=cost_s)).per_node(409) for seed in (1, 2))
                    for cost_s in range_s
                ),
                case.conflicts,
            )
            for case in chosen
        ),
        ("Two seeds each.",),
    )


def _formed(case: Case, seed: int, costs: Costs) -> Outcome:
    plan = Plan(case.shape, Limits(cores=case.cores), costs, seed, PATIENCE_S)
    outcome = form(negotiating, plan)
    if len(outcome.ready_s) < case.shape.rows:
        raise RuntimeError(f"{case.title}, seed {seed}: {len(outcome.ready_s)} of {case.shape.rows} rows are Ready")
    return outcome


def _central_queue(largest: int) -> Table:
    arriving = Shape(16, 16, apart_s=0.0, join_s=11.0, address_s=(1.0, 3.0))
    shapes = (arriving, msgspec.structs.replace(arriving, cliques=280, nodes=18))
    outcomes = [
        form(central_queue, Plan(shape, Limits(), Costs(), 1, CENTRAL_PATIENCE_S))
        for shape in shapes
        if shape.rows <= max(largest, arriving.rows)
    ]
    return Table(
        "central-queue",
        ("nodes", "rows Ready", "written", "409", "longest IP to row, s", "last row Ready, s"),
        tuple(
            (f"{one.nodes:,}", len(one.ready_s), one.accepted, one.per_node(409), one.row_s[-1], one.seconds)
            for one in outcomes
        ),
        ("Upstream #816, 256 pods: 184 s to the last index, about 460 s until all ran.",),
    )


def _at(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


def _spread(values: Sequence[float]) -> str:
    """Give the mean, and the range if there are several."""
    mean, low, high = (f"{one:.2f}" if one < 10 else f"{one:.0f}" for one in (fmean(values), min(values), max(values)))
    return mean if low == high else f"{mean} ({low}-{high})"

"""What deciding costs: `propose`, `clique_effects` and `domain_effects`, per call.

The states are those of the workload: a clique whose nodes have all just joined (every node gets its index in one
call), the same one settled, and the domain of all cliques. A consumer calls each once per changed key and batch.
"""

import time
from collections.abc import Callable

from msgspec.structs import replace

from bench.tables import Table
from bench.workload import DOMAIN, FABRIC, Shape, entries
from eventlog.codec import decode
from eventlog.events import CdcSeen, Decision
from projections.clique import CliqueState
from projections.desired import clique_effects
from projections.domain import DomainState
from projections.fold import Aggregate, apply
from projections.index import propose
from projections.lifecycle import domain_effects
from projections.settings import Settings


def measure(shape: Shape, records: int, seconds: float) -> Table:
    """Time each function for so many seconds, and give the best of its calls and their median."""
    settings = Settings(namespace="nvidia-dra-driver-gpu")
    clique = f"{FABRIC}.0"
    joined, foreign, settled, domain = _states(shape, records, clique)
    if domain.domain is None:
        raise TypeError("the workload's domain was never seen")
    deleted = replace(domain, domain=replace(domain.domain, terminating=True))
    calls: dict[str, Callable[[], object]] = {
        f"propose, {shape.nodes} nodes join": lambda: propose(joined, settings),
        f"propose, {shape.nodes} rows of other writers": lambda: propose(foreign, settings),
        f"propose, {shape.nodes} nodes settled": lambda: propose(settled, settings),
        f"clique_effects, {shape.nodes} rows": lambda: clique_effects(settled, clique, settings),
        f"domain_effects, {shape.total:,} nodes": lambda: domain_effects(domain, settings),
        f"domain_effects, {shape.total:,} nodes to clean up": lambda: domain_effects(deleted, settings),
    }
    return Table(
        "Decisions and effects, per call (aim: below 1 ms per clique)",
        ("call", "calls", "best ms", "median ms"),
        tuple((name, *_timed(call, seconds)) for name, call in calls.items()),
    )


def _timed(call: Callable[[], object], seconds: float) -> tuple[int, float, float]:
    took: list[float] = []
    end = time.perf_counter() + seconds
    while not took or time.perf_counter() < end:
        began = time.perf_counter()
        call()
        took.append(time.perf_counter() - began)
    return len(took), min(took) * 1e3, sorted(took)[len(took) // 2] * 1e3


def _states(shape: Shape, records: int, clique: str) -> tuple[CliqueState, CliqueState, CliqueState, DomainState]:
    """Give the clique without CDC and decisions, with its CDC but no decision, with both; and the domain."""
    whole: dict[str, Aggregate] = {}
    joined: Aggregate = CliqueState()
    foreign: Aggregate = CliqueState()
    for entry in entries(shape, records):
        event = decode(entry)
        whole[entry.key] = apply(whole.get(entry.key), entry.key, event)
        if entry.key == clique and not isinstance(event, Decision):
            foreign = apply(foreign, clique, event)
            joined = joined if isinstance(event, CdcSeen) else apply(joined, clique, event)
    settled, domain = whole[clique], whole[DOMAIN]
    cliques = [state for state in (joined, foreign, settled) if isinstance(state, CliqueState)]
    if len(cliques) != 3 or not isinstance(domain, DomainState):
        raise TypeError("the workload's keys hold other aggregates than a clique and a domain")
    return cliques[0], cliques[1], cliques[2], domain

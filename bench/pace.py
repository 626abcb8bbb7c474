"""The trade of pacing (rule 7): CDC writes against the time that a row waits, over the coalescer's settings.

The whole controller forms a domain on virtual time (`bench.virtual`), so the figures are the settings' own, and equal
on any machine. One setting is the curve: how long a change waits for company, at most. Then the other settings are
changed one at a time, to show what each of them is for. The defaults once more in real time, as a check.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from bench.chart import Series, draw
from bench.real import simulate
from bench.tables import Cell, Table
from bench.virtual import Arrivals, Formed, form_virtually
from controller.writing.pacing import Pace
from simulation.capacity import Limits
from simulation.formation import Plan
from simulation.timing import Timing

USUAL = (Arrivals("11 s", 11.0), Arrivals("1 s", 1.0))
OTHERS = (Arrivals("quick IP", 11.0, Timing(address=(0.1, 0.6))), Arrivals("60 s", 60.0))
LONGEST_S = (0.1, 0.25, 0.5, 1.0, 1.5, 1.9, 2.5, 4.0)
QUIET_OVER_S = 1.1
"""A burst must outlast the longest wait: else each write of a slowly filling clique would be a first one."""


class Tried(msgspec.Struct, frozen=True):
    """A pace under a name, and what came of it for each of the arrivals that were tried."""

    name: str
    formed: Sequence[Formed]


def curve() -> Mapping[str, Pace]:
    """Give the paces of the curve by their longest wait, the other waits in proportion."""
    usual = Pace()
    return {
        f"{longest:g}": replace(
            usual,
            max_wait_s=longest,
            first_wait_s=longest * usual.first_wait_s / usual.max_wait_s,
            quiet_s=max(usual.quiet_s, longest + QUIET_OVER_S),
        )
        for longest in LONGEST_S
    }


def variants() -> dict[str, Pace]:
    """Give the default pace with one setting changed each."""
    usual = Pace()
    waits_like_any = replace(usual, complete_gap_s=usual.max_wait_s, settle_s=usual.max_wait_s)
    changed = _changed(
        first_wait_s=(0.25, 0.5, 1.0),
        spread=(0.0, 0.3),
        early_gather_s=(0.01, 0.5, 2.0),
        settle_s=(2.0,),
        complete_gap_s=(1.0,),
        gather_s=(0.0, 0.1),
    )
    return {"defaults": usual, **changed, "last row waits too": waits_like_any}


def guards() -> dict[str, Pace]:
    """Give those settings that the usual arrivals have no need of."""
    return {"defaults": Pace(), **_changed(settle_s=(0.0, 0.5), complete_gap_s=(0.0, 0.5), quiet_s=(2.0, 6.0))}


def _changed(**settings: Sequence[float]) -> dict[str, Pace]:
    return {
        f"{name} {value:g}": replace(Pace(), **{name: value}) for name, values in settings.items() for value in values
    }


def measure(nodes: int, folder: Path, picture: Path | None) -> Iterator[Table]:
    """Give the tables: the curve, the other settings, the defaults in real time; draw the curve at `picture`."""
    size = f"{nodes:,} nodes, virtual time"
    tried = [_try(name, pace, nodes, USUAL) for name, pace in curve().items()]
    if picture is not None:
        picture.write_text(chart(tried), encoding="utf-8")
    yield tabulate(f"Pace: by the longest wait in seconds; {size}", "max_wait_s", USUAL, tried)
    others = [_try(name, pace, nodes, USUAL) for name, pace in variants().items()]
    yield tabulate(f"Pace: one setting changed; {size}", "changed", USUAL, others)
    guarded = [_try(name, pace, nodes, OTHERS) for name, pace in guards().items()]
    yield tabulate(f"Pace: other arrivals; {size}", "changed", OTHERS, guarded)
    yield _in_real_time(nodes, folder)


def chart(tried: Sequence[Tried]) -> str:
    """Draw the curve: writes to the right, the wait of 99 rows in 100 upwards; points are named by the longest wait."""
    series = [
        Series(
            f"nodes come within {arrivals.title}",
            [(one.formed[at].written_per_clique, one.formed[at].row.p99 / 1000, one.name) for one in tried],
        )
        for at, arrivals in enumerate(USUAL)
    ]
    return draw("CDC writes per clique", "any row visible, p99 in seconds", series)


def _try(name: str, pace: Pace, nodes: int, arrivals: Sequence[Arrivals]) -> Tried:
    return Tried(name, [_formed(pace, nodes, one) for one in arrivals])


def _formed(pace: Pace, nodes: int, arrivals: Arrivals) -> Formed:
    plan = Plan(nodes, 18, 1, arrivals.window_s, nodes)
    return form_virtually(plan, "cliquelog", Limits(), pace, arrivals.timing)


def tabulate(title: str, first: str, arrivals: Sequence[Arrivals], tried: Sequence[Tried]) -> Table:
    """Give what came of the paces as a table; `first` says what their names are."""
    return Table(
        title,
        (first, *(column for one in arrivals for column in (f"{one.title}: writes", "row", "last"))),
        tuple((one.name, *(cell for formed in one.formed for cell in _cells(formed))) for one in tried),
        (
            "writes: of CDCs per clique, mean (max); row, last: ms until 99 of 100 rows, of",
            "the cliques' last rows, are visible. 1 s, 11 s, 60 s: within which the nodes",
            "come; quick IP: within 11 s, but 0.1 to 0.6 s to a pod's IP instead of 1 to 3 s.",
            "No processor time is in it.",
        ),
    )


def _cells(formed: Formed) -> tuple[Cell, ...]:
    return (
        f"{formed.written_per_clique:.2f} ({formed.written_max})",
        round(formed.row.p99),
        round(formed.last_row.p99),
    )


def _in_real_time(nodes: int, folder: Path) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for arrivals in USUAL:
        virtual, run = _formed(Pace(), nodes, arrivals), simulate(Plan(nodes, 18, 1, arrivals.window_s, nodes), folder)
        real = run.result
        rows.append((f"{arrivals.title}, virtual time", "-", *_cells(virtual), round(virtual.single.p99)))
        writes = f"{real.clique_writes_mean:.2f} ({real.clique_writes_max})"
        single = real.single_changes.visible_ms.p99 if real.single_changes else 0.0
        waits = (round(real.row_visible_ms.p99), round(real.last_row_visible_ms.p99), round(single))
        rows.append((f"{arrivals.title}, real time", run.load, writes, *waits))
    return Table(
        f"Pace: the defaults, {nodes:,} nodes, on virtual and on real time",
        ("nodes come within", "load", "writes", "row ms", "last ms", "single ms"),
        tuple(rows),
        (
            "99 of 100 rows, last rows, single changes afterwards. Real time: `cliquelog",
            "simulate`; what it takes longer is processor time, at that load.",
        ),
    )

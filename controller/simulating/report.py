"""What `cliquelog simulate` says: progress while it runs, then a table for people or one JSON object."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from controller.history.replaying import Replay
from controller.simulating.run import Outcome, Show
from simulation.formation import Plan
from simulation.meter import Meter, Quantiles, quantiles
from simulation.world import State

LINE_EVERY_S = 2.0


class Replayed(msgspec.Struct, frozen=True):
    """What the replay of the log gave."""

    seconds: float
    records_per_second: float
    digest_equal: bool


class SingleChanges(msgspec.Struct, frozen=True):
    """What single changes of quiet cliques took: how many there were, the writes for them, and until they showed."""

    changes: int
    writes: int
    visible_ms: Quantiles


class Result(msgspec.Struct, frozen=True):
    """The one object that `--json` prints.

    `row_visible_ms` is over both facts that a row shows, address and readiness, which the two after it tell apart;
    `last_row_visible_ms` likewise, over the pod of each clique that was the last to have that fact. `server_lag_ms` is
    how late the event loop of the simulated server was, which is part of each of these.
    """

    nodes: int
    cliques: int
    rows_ready: int
    formation_seconds: float
    clique_writes: int
    clique_writes_max: int
    status_writes: int
    conflicts_409: int
    throttled_429: int
    row_visible_ms: Quantiles
    last_row_visible_ms: Quantiles
    records: int
    log_bytes: int
    replay: Replayed | None
    strategy: str
    seed: int
    window_seconds: float
    clique_writes_mean: float
    clique_writes_median: float
    address_visible_ms: Quantiles
    ready_visible_ms: Quantiles
    single_changes: SingleChanges | None
    server_lag_ms: Quantiles
    controller_cpu_seconds: float
    controller_peak_bytes: int
    simulation_cpu_seconds: float
    digest: str
    log: str | None


def result_of(outcome: Outcome) -> Result:
    """Give the figures."""
    world, plan, replay = outcome.world, outcome.job.plan, outcome.replay
    meter, by_status = world.meter, world.answers.by_status
    address, readiness = meter.address, meter.readiness
    writes = [meter.writes[clique] for clique in plan.sizes()]
    return Result(
        nodes=plan.nodes,
        cliques=plan.cliques,
        rows_ready=meter.rows_ready,
        formation_seconds=round(outcome.seconds, 3),
        clique_writes=sum(writes),
        clique_writes_max=max(writes),
        status_writes=meter.status_writes,
        conflicts_409=by_status[409],
        throttled_429=by_status[429],
        row_visible_ms=quantiles([*address.all, *readiness.all]),
        last_row_visible_ms=quantiles([*address.last_rows(), *readiness.last_rows()]),
        records=replay.records if replay else 0,
        log_bytes=outcome.log_bytes,
        replay=_replayed(replay),
        strategy=outcome.job.strategy,
        seed=plan.seed,
        window_seconds=plan.window_s,
        clique_writes_mean=round(sum(writes) / len(writes), 2),
        clique_writes_median=median(writes),
        address_visible_ms=quantiles(address.all),
        ready_visible_ms=quantiles(readiness.all),
        single_changes=_single_changes(world.afterwards),
        server_lag_ms=quantiles(world.lag.late),
        controller_cpu_seconds=round(outcome.controller.cpu_seconds, 2),
        controller_peak_bytes=outcome.controller.peak_bytes,
        simulation_cpu_seconds=round(outcome.own_cpu_seconds, 2),
        digest=replay.digest if replay else "",
        log=outcome.job.log,
    )


def _replayed(replay: Replay | None) -> Replayed | None:
    if replay is None:
        return None
    return Replayed(round(replay.seconds, 3), round(replay.records / replay.seconds), replay.digest_equal)


def _single_changes(meter: Meter | None) -> SingleChanges | None:
    if meter is None:
        return None
    delays = [*meter.address.all, *meter.readiness.all]
    return SingleChanges(len(delays), meter.writes.total(), quantiles(delays))


def table_of(result: Result) -> Table:
    """Give the figures for people."""
    table = Table(show_header=False, box=None, pad_edge=False)
    until = "to the last row Ready" if result.rows_ready == result.nodes else "until it was given up"
    lines = {
        "rows Ready": f"{result.rows_ready:,} of {result.nodes:,}, in {_cliques(result.cliques)}",
        "formation": f"{result.formation_seconds:.1f} s {until}; the nodes came within {result.window_seconds:g} s",
        "CDC writes": f"{result.clique_writes:,}; per clique {result.clique_writes_median:g} in the median, "
        f"{result.clique_writes_mean:g} in the mean, {result.clique_writes_max} at most",
        "status writes": f"{result.status_writes}",
        "refusals": f"{result.conflicts_409:,} conflicts (409), {result.throttled_429:,} throttled (429)",
        "row visible": _ms(result.row_visible_ms),
        "  its address": _ms(result.address_visible_ms),
        "  its readiness": _ms(result.ready_visible_ms),
        "last row": f"{_ms(result.last_row_visible_ms)}; what a gang waits for",
        "simulation": f"{result.simulation_cpu_seconds:.1f} s of CPU; late by {_ms(result.server_lag_ms)}",
    }
    if result.single_changes is not None:
        single = result.single_changes
        lines["single changes"] = f"{single.changes}, {single.writes} writes; visible {_ms(single.visible_ms)}"
    if result.replay is not None:
        equal = "equal" if result.replay.digest_equal else "NOT EQUAL"
        lines |= {
            "controller": f"{result.controller_cpu_seconds:.1f} s of CPU, "
            f"{result.controller_peak_bytes / 2**20:,.0f} MiB",
            "log": f"{result.records:,} records, {result.log_bytes:,} bytes",
            "replay": f"{result.replay.seconds:.1f} s, {result.replay.records_per_second:,.0f} records/s",
            "digest": f"{result.digest[:16]}, {equal} to what was saved",
        }
    for name, value in lines.items():
        table.add_row(name, value)
    return table


def faults_of(result: Result) -> list[str]:
    """Say what is not as it should be, each in half a sentence; empty if all is."""
    faults = []
    if result.rows_ready != result.nodes:
        faults.append(f"only {result.rows_ready:,} of {result.nodes:,} rows became Ready")
    if result.replay is not None and not result.replay.digest_equal:
        faults.append("the replay of the log gave another state than the controller saved when it ended")
    return faults


def _ms(some: Quantiles) -> str:
    return f"p50 {some.p50:,.0f} ms, p99 {some.p99:,.0f} ms"


@contextmanager
def progress(plan: Plan, console: Console) -> Iterator[Show]:
    """Give what shows how far the formation is: bars on a terminal, else a line every few seconds."""
    if not console.is_terminal:
        yield _lines(plan, console)
        return
    console.print(_title(plan), highlight=False, soft_wrap=True)
    columns = (TextColumn("{task.description}"), BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:
        cliques = bars.add_task("cliques formed", total=plan.cliques)
        addressed = bars.add_task("rows with an address", total=plan.nodes)
        ready = bars.add_task("rows Ready", total=plan.nodes)
        counts = bars.add_task("", total=None)

        def show(state: State) -> None:
            bars.update(cliques, completed=state.cliques)
            bars.update(addressed, completed=min(state.rows_addressed, plan.nodes))
            bars.update(ready, completed=state.rows_ready)
            bars.update(counts, description=_counts(state))

        yield show


def _lines(plan: Plan, console: Console) -> Show:
    shown = 0.0

    def show(state: State) -> None:
        nonlocal shown
        now = time.monotonic()
        if not shown:
            console.print(_title(plan), highlight=False, soft_wrap=True)
        if now - shown >= LINE_EVERY_S or state.rows_ready == plan.nodes:
            shown = now
            console.print(
                f"{state.seconds:5.1f} s  {state.cliques:,} of {_cliques(plan.cliques)} formed, "
                f"{state.rows_ready:,} of {plan.nodes:,} rows Ready\n         {_counts(state)}",
                highlight=False,
                soft_wrap=True,
            )

    return show


def _title(plan: Plan) -> str:
    return f"Forming one ComputeDomain of {plan.nodes:,} nodes in {_cliques(plan.cliques)}."


def _cliques(number: int) -> str:
    return f"{number:,} clique" if number == 1 else f"{number:,} cliques"


def _counts(state: State) -> str:
    return f"{state.clique_writes:,} CDC writes, {state.conflicts_409:,} x 409, {state.throttled_429:,} x 429"

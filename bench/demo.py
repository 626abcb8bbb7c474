"""`make demo`: form one ComputeDomain on this machine with the real controller, then replay its log.

The API server is the simulated one, over HTTP on loopback; nodes, DaemonSet controller and kubelets are stood in for by
`bench.machines`. Everything else is what `cliquelog run` runs: reflectors, SQLite log, fold, coalescer, applier.
"""

import asyncio
import contextlib
import random
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import click
import msgspec
import structlog
from aiohttp import web
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.counting import Requests
from bench.machines import Machines
from controller import logs, places
from controller.app import Controller
from controller.config import RunConfig
from controller.manifests import DaemonDeployment
from controller.preflight import preflight
from controller.verify import Verdict, verify
from eventlog.log import EventLog, SnapshotStore
from kube import names
from kube.client import KubeClient, Selector
from kube.clock import SystemClock
from kube.transport import connect
from projections.partition import PartitionFold, digest, restore
from projections.settings import Settings
from simulation.api import Api
from simulation.apiserver import application
from simulation.store import Store

NAMESPACE = "nvidia-dra-driver-gpu"
FABRIC = "7b0a3c52-5d3e-4f0c-9c1e-3f1f6f5b2a11"
KINDS = (
    names.COMPUTE_DOMAINS,
    names.CDCS,
    names.NODES,
    names.PODS,
    names.EVENTS,
    names.DAEMON_SETS,
    names.CLAIM_TEMPLATES,
)
WITH_STATUS = {names.COMPUTE_DOMAINS, names.NODES, names.PODS, names.DAEMON_SETS}
POLL_S = 0.02
INTERRUPTED = 130


class Plan(msgspec.Struct, frozen=True):
    """What is formed: `cliques` of `nodes` nodes, which arrive within `arrival_s`; given up after `patience_s`."""

    cliques: int
    nodes: int
    seed: int
    arrival_s: float
    patience_s: float

    @property
    def rows(self) -> int:
        """Rows that there should be in the end."""
        return self.cliques * self.nodes

    def machines(self) -> dict[str, str]:
        """Give the nodes' names with their clique IDs."""
        return {
            f"node-{clique:03}-{node:02}": f"{FABRIC}.{clique}"
            for clique in range(self.cliques)
            for node in range(self.nodes)
        }


class Outcome(msgspec.Struct, frozen=True):
    """What came of the formation. `seconds`: from the ComputeDomain's creation to the last row Ready."""

    ready: int
    seconds: float
    requests: Requests


class Replay(msgspec.Struct, frozen=True):
    """What a replay of the log gave. `saved` and `replayed` are digests of the state, live and replayed."""

    saved: str
    replayed: str
    verdict: Verdict


@contextlib.asynccontextmanager
async def serving(server: Api, requests: Requests, folder: Path) -> AsyncIterator[KubeClient]:
    """Serve on loopback, and give a client that found the server through a kubeconfig in `folder`."""
    runner = web.AppRunner(application(server, requests.middleware()), shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_bytes(_kubeconfig(f"http://127.0.0.1:{runner.addresses[0][1]}"))
        client = await connect(str(kubeconfig), None)
        try:
            yield client
        finally:
            await client.close()
    finally:
        await runner.cleanup()


def _kubeconfig(server: str) -> bytes:
    """Give a kubeconfig for a server without credentials; JSON is YAML too."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "demo", "cluster": {"server": server}}],
        "users": [{"name": "demo", "user": {}}],
        "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "demo"}}],
        "current-context": "demo",
    }
    return msgspec.json.encode(config)


async def form(plan: Plan, folder: Path, console: Console) -> Outcome:
    """Run a controller until the domain is formed, or patience ends."""
    requests = Requests()
    server = Api(Store(KINDS, WITH_STATUS, SystemClock(), lambda: str(uuid.uuid4())))
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(serving(server, requests, folder))
        log, snapshots = await places.open_for_writing(f"sqlite:{folder / 'log.sqlite'}", None)
        stack.push_async_callback(log.close)
        machines = Machines(client, plan.machines(), plan.seed, plan.arrival_s)
        await machines.register()
        await stack.enter_async_context(_controlling(client, log, snapshots, plan.seed))
        began = time.perf_counter()
        joining = asyncio.create_task(_create_and_join(client, machines))
        stack.callback(joining.cancel)
        ready = await _watch_rows(server, plan, console, joining)
        return Outcome(ready, time.perf_counter() - began, requests)


@contextlib.asynccontextmanager
async def _controlling(client: KubeClient, log: EventLog, snapshots: SnapshotStore, seed: int) -> AsyncIterator[None]:
    """Run the controller meanwhile, and end it cleanly, so that it saves what it has folded."""
    config = RunConfig(
        identity="demo",
        version="demo",
        log="",
        partitions=None,
        settings=Settings(namespace=NAMESPACE),
        deployment=DaemonDeployment(
            namespace=NAMESPACE, image="example.invalid/daemon", capacity=18, verbosity=2, reader=True
        ),
        lease=None,
        listen=None,
        everywhere=False,
        workers=16,
    )
    await preflight(client, config)
    controller = Controller(
        config,
        log=log,
        snapshots=snapshots,
        client=client,
        clock=SystemClock(),
        rng=random.Random(seed),  # noqa: S311 - jitter, not secrets
        logger=structlog.get_logger("demo"),
    )
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run(stop))
        try:
            yield
        finally:
            stop.set()


async def _create_and_join(client: KubeClient, machines: Machines) -> None:
    body = {
        "metadata": {"name": "demo"},
        "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "demo-channel"}}},
    }
    made = msgspec.json.decode(await client.create(names.COMPUTE_DOMAINS, "default", msgspec.json.encode(body)))
    await machines.join(made["metadata"]["uid"])


async def _watch_rows(server: Api, plan: Plan, console: Console, joining: "asyncio.Task[None]") -> int:
    """Show the rows as they come, and give how many are Ready at the end."""
    columns = (TextColumn("{task.description}"), BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn())
    deadline = time.perf_counter() + plan.patience_s
    with Progress(*columns, console=console) as progress:
        present = progress.add_task("rows with an index", total=plan.rows)
        done = progress.add_task("rows Ready", total=plan.rows)
        while True:
            rows = [row for cdc in server.store.snapshot(Selector(names.CDCS)) for row in cdc.get("daemons", [])]
            ready = len([row for row in rows if row["status"] == "Ready"])
            progress.update(present, completed=len(rows))
            progress.update(done, completed=ready)
            if ready >= plan.rows or time.perf_counter() > deadline:
                return ready
            if joining.done():
                joining.result()  # its failure is the demonstration's
            await asyncio.sleep(POLL_S)


async def replay(folder: Path) -> Replay:
    """Fold the log from its first record, compare with what the controller saved when it ended, and verify it."""
    log, snapshots = await places.open_for_writing(f"sqlite:{folder / 'log.sqlite'}", None)
    try:
        saved, replayed = [], []
        for partition in range(log.partitions):
            snapshot = await snapshots.load(partition)
            live = restore(snapshot.state) if snapshot is not None else None
            if live is not None:
                saved.append(live)
                replayed.append(await _fold_until(log, partition, live.next_offset))
        return Replay(
            digest(saved), digest(replayed), await verify(log, snapshots, await places.damage(log), dense=True)
        )
    finally:
        await log.close()


async def _fold_until(log: EventLog, partition: int, end: int) -> PartitionFold:
    fold = PartitionFold()
    while fold.next_offset < end:
        for record in await log.read(partition, fold.next_offset, limit=end - fold.next_offset, timeout_s=0.0):
            fold.apply(record)
    return fold


def report(plan: Plan, outcome: Outcome, told: Replay, folder: Path, console: Console) -> bool:
    """Print the result, and give whether all is as it should be."""
    requests, verdict = outcome.requests, told.verdict
    formed = outcome.ready == plan.rows
    until = "from creation to the last row Ready" if formed else "after creation, given up"
    equal = bool(told.saved == told.replayed and verdict.records)
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in (
        ("rows Ready", f"{outcome.ready} of {plan.rows}, in {plan.cliques} cliques"),
        ("formation", f"{outcome.seconds:.2f} s {until}"),
        ("", f"(the nodes arrived within {plan.arrival_s:.1f} s)"),
        ("CDC writes", f"{requests.cdc_writes}, that is {requests.cdc_writes / plan.cliques:.1f} per clique"),
        ("refusals", f"{requests.refusals[409]} conflicts (409), {requests.refusals[429]} throttled (429)"),
        ("log", f"{verdict.records} records, {(folder / 'log.sqlite').stat().st_size:,} bytes"),
        ("digest", f"{told.replayed[:16]}, {'equal' if equal else 'NOT EQUAL'} when replayed from record 1"),
        ("verify", "sound" if verdict.sound else "; ".join(_findings(verdict))),
    ):
        table.add_row(name, value)
    console.print(table)
    place = f"sqlite:{folder / 'log.sqlite'}"
    program = "cliquelog" if shutil.which("cliquelog") else str(Path(sys.executable).with_name("cliquelog"))
    console.print("\nThe log is kept. Next, verify it yourself:", soft_wrap=True)
    console.print(f"  {program} verify {place}", soft_wrap=True, highlight=False)
    return formed and equal and verdict.sound


def _findings(verdict: Verdict) -> Iterable[str]:
    return (*verdict.integrity, *(one.message for one in verdict.violations), *verdict.determinism)


@click.command()
@click.option("--cliques", type=click.IntRange(1, 60), default=4, show_default=True)
@click.option("--nodes", type=click.IntRange(1, 18), default=18, show_default=True, help="Nodes of each clique.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the nodes' delays.")
@click.option("--arrival", "arrival_s", type=float, default=1.0, show_default=True, help="Seconds, for all nodes.")
@click.option("--patience", "patience_s", type=float, default=60.0, show_default=True, help="Seconds until giving up.")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), help="For the log [a new temporary one].")
def main(cliques: int, nodes: int, seed: int, arrival_s: float, patience_s: float, folder: Path | None) -> None:
    """Form a ComputeDomain on a simulated API server, and replay its log. Exits with 1 if anything is not right."""
    place = folder or Path(tempfile.mkdtemp(prefix="cliquelog-demo-"))
    place.mkdir(parents=True, exist_ok=True)
    if (place / "log.sqlite").exists():
        raise click.UsageError(f"{place} holds a log already; give an empty --folder")
    plan = Plan(cliques, nodes, seed, arrival_s, patience_s)
    console = Console(width=None if sys.stdout.isatty() else 80)
    console.print(f"Forming one ComputeDomain of {cliques} cliques with {nodes} nodes each.")
    with (place / "controller.log").open("w") as stream:
        logs.configure("info", console=False, stream=stream)
        try:
            right = asyncio.run(_demonstrate(plan, place, console))
        except KeyboardInterrupt:
            console.print(f"\nInterrupted; what there is of the log is kept in {place}.", soft_wrap=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
    if not right:
        console.print(f"This is not as it should be: see {place / 'controller.log'}.", soft_wrap=True)
        raise click.exceptions.Exit(1)


async def _demonstrate(plan: Plan, folder: Path, console: Console) -> bool:
    outcome = await form(plan, folder, console)
    return report(plan, outcome, await replay(folder), folder, console)


if __name__ == "__main__":
    main()

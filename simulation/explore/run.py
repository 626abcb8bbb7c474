"""One run: a plan, a cluster, controllers and faults from one seed; and the verdict on it.

Phases: trouble (faults strike, the workload acts), then quiet (nothing strikes; all must become right within
`RECOVERY_S`, and nothing may be written for `SILENCE_S` soon after), then the controllers end and the log is replayed.
"""

import asyncio
import random
import uuid
from typing import TYPE_CHECKING, TypeVar

import msgspec
import structlog

from controller.app import Controller
from controller.config import RunConfig
from controller.engines.consumer import ConsumerConfig
from controller.lease import LeadershipLost, LeaseConfig
from controller.writing.manifests import DaemonDeployment
from eventlog.memory import MemoryLog, MemorySnapshots
from projections.settings import Settings
from simulation.api import Api
from simulation.client import SimulatedClient
from simulation.cluster import Cluster
from simulation.explore import scenario
from simulation.explore.ablations import applied
from simulation.explore.arising import Arising
from simulation.explore.checkers import cleanup
from simulation.explore.checkers.decisions import CheckedLog
from simulation.explore.checkers.facts import FactChecker
from simulation.explore.checkers.liveness import Changes, missing
from simulation.explore.checkers.requests import CheckedClient
from simulation.explore.checkers.rows import RowChecker
from simulation.explore.faults import Faults, Latency
from simulation.explore.faulty_client import FaultyClient
from simulation.explore.faulty_log import FaultyLog, FaultySnapshots
from simulation.explore.judgement import Seen, judge
from simulation.explore.loop import LoopClock, VirtualLoop
from simulation.explore.process import Process
from simulation.explore.trace import Trace, follow
from simulation.kinds import KINDS, WITH_STATUS
from simulation.negotiating_daemon import DaemonSettings
from simulation.negotiation import Negotiation
from simulation.store import Store
from simulation.timing import Timing

if TYPE_CHECKING:
    from eventlog.log import StoredSnapshot
    from eventlog.record import Entry, Position

T = TypeVar("T")

START_MS = 1_780_000_000_000
NAMESPACE = "nvidia"
RECOVERY_S = 240.0
"""Within which all is right once faults have ended: a watch that is silent is given up after 90 s at most, the list
after it may wait for a back-off of 15 s, and a write for a hold of 60 s."""
SILENCE_S = 100.0
"""Longer than a watch lasts, so that each is renewed once in it."""
STEP_S = 1.0
TIMING = Timing(
    created=(0.01, 0.5),
    bound=(0.01, 0.1),
    address=(0.05, 2.0),
    started=(0.0, 0.3),
    ready=(0.05, 1.0),
    ended=(0.05, 1.0),
    booted=(0.5, 4.0),
    collected=(0.1, 1.0),
)


class Verdict(msgspec.Struct, frozen=True):
    """What came of a run. `recovered_s`: from the end of the faults until all was right. `actions`: how many it had.

    `plan` and `rates` (of faults) are those that were drawn or given.
    """

    seed: int
    violations: list[str]
    digest: str
    faults: dict[str, int]
    recovered_s: float
    actions: int
    lines: list[str]
    plan: scenario.Plan
    rates: dict[str, float]


class Options(msgspec.Struct, frozen=True):
    """How a seed's run differs from the usual one.

    `without`: kinds of faults that are left out; `actions`: the places of those that are kept (None: all). They make a
    failing run smaller. `ablation`: the safeguard that is switched off. `plan` and `rates`: what would be drawn
    otherwise; of a kind of fault that `rates` does not name there is none.
    """

    without: frozenset[str] = frozenset()
    actions: frozenset[int] | None = None
    ablation: str = ""
    plan: scenario.Plan | None = None
    rates: dict[str, float] | None = None


def explore(seed: int, options: Options) -> Verdict:
    """Run a seed on a loop of its own. What ends the run itself, as a task that never waits does, breaks a rule too."""
    run = _Run(seed, options)
    try:
        with applied(options.ablation), asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(run.live())
    except Exception as error:  # noqa: BLE001 - told as a violation, so that one seed does not end a search
        return run.broken_by(error)


def plan_of(seed: int) -> scenario.Plan:
    """Give the plan that a seed draws."""
    return scenario.Plan.draw(stream(seed, "workload"))


def stream(seed: int, name: str) -> random.Random:
    """Give a random stream of its own, so that one more draw in one changes nothing in the others."""
    return random.Random(f"{seed}/{name}")  # noqa: S311 - what makes a run repeatable


class _Run:
    """The parts of one run. Made in its loop."""

    def __init__(self, seed: int, options: Options) -> None:
        self._seed = seed
        self._options = options
        plan = options.plan or plan_of(seed)
        kept = options.actions
        if kept is not None:
            plan = msgspec.structs.replace(
                plan, actions=tuple(action for at, action in enumerate(plan.actions) if at in kept)
            )
        self._plan = plan
        self._settings = Settings(namespace=NAMESPACE, capacity=plan.capacity)
        self._violations: list[str] = []
        self._older: dict[int, list[StoredSnapshot]] = {}
        self._acknowledged: list[list[tuple[Position, Entry]]] = []
        self._logs: list[CheckedLog] = []
        self._clients: list[CheckedClient] = []
        self._dead: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._trace = Trace(self._now)
        self._faults = Faults(self._stream("faults"), self._trace, options.without, options.rates)

    def _stream(self, name: str) -> random.Random:
        return stream(self._seed, name)

    def _now(self) -> float:
        return self._loop.time() if self._loop is not None else 0.0

    def broken_by(self, error: Exception) -> Verdict:
        """Give the verdict on a run that did not come to its end."""
        self._violate(f"run: {_root(error)!r} ended it")
        return self._verdict(-1.0)

    async def live(self) -> Verdict:
        """Run all phases."""
        self._loop = loop = asyncio.get_running_loop()
        trace = self._trace
        self._clock = clock = LoopClock(loop, START_MS)
        self._latency = Latency(self._stream("schedule"))
        identities = self._stream("identities")
        store = Store(KINDS, WITH_STATUS, clock, lambda: str(uuid.UUID(int=identities.getrandbits(128), version=4)))
        follow(trace, store)
        self._store = store
        self._api = Api(store)
        self._log, self._snapshots = MemoryLog(partitions=self._plan.partitions), MemorySnapshots()
        cluster = Cluster(store, clock, self._stream("cluster"), TIMING)
        disturb = {"compaction": self._compact, "clock jump": self._jump}
        workload = scenario.Workload(self._plan, store, cluster, disturb, trace)
        rows = RowChecker(store, self._plan.capacity, lambda: workload.acts, self._violate)
        FactChecker(store, lambda: workload.acts, self._violate)
        cleanup.watch(store, lambda: workload.acts, self._violate)
        arising = Arising(trace, store, clock.now_ms)
        trace.count(scenario.shape(self._plan))
        trace.note("plan", msgspec.json.encode(msgspec.structs.replace(self._plan, actions=())).decode())
        stop = asyncio.Event()
        around: list[asyncio.Task[None]] = [asyncio.create_task(cluster.run())]
        if self._plan.upstream:
            around.append(asyncio.create_task(self._daemons(cluster).run(SimulatedClient(self._api))))
        controllers = [
            asyncio.create_task(self._supervise(f"controller-{number}", stop))
            for number in range(self._plan.controllers)
        ]
        await workload.run()
        self._faults.heal()
        recovered_s = await self._become_quiet()
        stop.set()
        await self._end(around, controllers)
        seen = Seen(self._acknowledged, self._logs, self._clients, rows, self._older)
        records = {
            partition: await self._log.read(partition, 0, limit=1_000_000, timeout_s=0.0)
            for partition in range(self._log.partitions)
        }
        arising.judge(record for its in records.values() for record in its)
        for told in judge(records, seen, self._settings):
            self._violate(told)
        return self._verdict(recovered_s)

    def _verdict(self, recovered_s: float) -> Verdict:
        return Verdict(
            self._seed,
            self._violations,
            self._trace.digest(),
            dict(self._trace.faults),
            recovered_s,
            len(self._plan.actions),
            self._trace.lines,
            self._plan,
            self._faults.rates,
        )

    async def _end(self, around: list[asyncio.Task[None]], controllers: list[asyncio.Task[None]]) -> None:
        """Let the controllers end, then all that is around them."""
        _, pending = await asyncio.wait(controllers, timeout=RECOVERY_S)
        if pending:
            self._violate(f"controller: {len(pending)} do not end when asked to")
        for task in [*around, *controllers]:
            if task.done():
                task.result()  # A stand-in that fails is a defect of the simulation.
        for task in [*around, *controllers]:
            task.cancel()

    def _compact(self, _: int) -> str:
        self._api.compact()
        return f"history up to {self._store.version}"

    def _jump(self, number: int) -> str:
        self._clock.skew_ms += (number - 500) * 60_000
        return f"the time of day is {self._clock.skew_ms / 3_600_000:+.1f} hours off"

    def _violate(self, told: str) -> None:
        self._violations.append(told)
        self._trace.note("VIOLATION", told)

    # Controllers

    async def _supervise(self, name: str, stop: asyncio.Event) -> None:
        """Keep a controller running: one that is killed is started again, one that fails by itself is a violation."""
        restarts = self._stream(f"restarts of {name}")
        for life in range(1_000):
            process = Process(name, self._faults)
            task = asyncio.create_task(self._controller(process, life).run(stop))
            killed = asyncio.create_task(process.killed.wait())
            await asyncio.wait({task, killed}, return_when=asyncio.FIRST_COMPLETED)
            if not process.killed.is_set():
                killed.cancel()
                if stop.is_set() and task.exception() is None:
                    return
                self._ended(name, task.exception())
            else:
                self._trace.note(name, "killed")
                task.cancel()
                self._dead.append(task)
            await asyncio.sleep(restarts.uniform(0.1, 5.0))
            if stop.is_set():
                return

    def _ended(self, name: str, error: BaseException | None) -> None:
        lost = isinstance(error, BaseExceptionGroup) and error.subgroup(LeadershipLost) is not None
        if lost or isinstance(error, LeadershipLost):
            self._trace.note(name, "lost the Lease")
        else:
            self._violate(f"controller: {name} ended by itself: {_root(error)!r}")

    def _controller(self, process: Process, life: int) -> Controller:
        identity = f"{process.name}-{life}"
        log = FaultyLog(self._log, process, self._latency)
        self._acknowledged.append(log.acknowledged)
        checked = CheckedLog(log)
        self._logs.append(checked)
        faulty = FaultyClient(SimulatedClient(self._api), process, self._latency, self._plan.page)
        client = CheckedClient(faulty, process, self._clock.monotonic, self._violate)
        self._clients.append(client)
        config = RunConfig(
            identity=identity,
            version="exploration",
            log="",
            partitions=None,
            settings=self._settings,
            deployment=DaemonDeployment(
                namespace=NAMESPACE,
                image="example.invalid/daemon",
                capacity=self._plan.capacity,
                verbosity=2,
                reader=not self._plan.upstream,
            ),
            lease=LeaseConfig(NAMESPACE, "cliquelog", identity) if self._plan.leases else None,
            listen=None,
            everywhere=False,
            workers=4,
            recheck_s=10.0,
            # As often as the plan says, however large the state.
            consumer=ConsumerConfig(snapshot_records=self._plan.snapshot_records, snapshot_bytes=1_000_000),
        )
        self._trace.note(process.name, f"life {life} begins")
        return Controller(
            config,
            log=checked,
            snapshots=FaultySnapshots(self._snapshots, process, self._older),
            client=client,
            clock=self._clock,
            rng=self._stream(identity),
            logger=structlog.wrap_logger(None, processors=[self._told], wrapper_class=structlog.BoundLogger),
        )

    def _told(self, _: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        """Put what a controller logs into the trace."""
        told = " ".join(f"{key}={event[key]}" for key in sorted(event) if key != "event")
        self._trace.note("log", f"{method}: {event['event']} {told}"[:300])
        raise structlog.DropEvent

    def _daemons(self, cluster: Cluster) -> Negotiation:
        """Give upstream's daemons, on a network without faults: theirs are not the ones that are judged."""
        deliveries = self._stream("deliveries")
        return Negotiation(
            NAMESPACE,
            cluster.clique_of,
            deliver=lambda: asyncio.sleep(deliveries.uniform(0.0, 0.05)),
            clock=self._clock,
            seed=self._seed,
            settings=DaemonSettings(capacity=self._plan.capacity),
        )

    # Phases after the trouble

    async def _become_quiet(self) -> float:
        """Wait until all is right and nothing is written any more; give how long it took until all was right."""
        loop = asyncio.get_running_loop()
        began = right_at = loop.time()
        changes = Changes(self._store, loop.time)
        looked, still = -1, list[str]()
        while not self._violations:
            now = loop.time()
            if looked != changes.number:
                looked, still = changes.number, missing(self._store, self._plan.capacity)
            if still:
                right_at = now
            if now - max(right_at, changes.newest) >= SILENCE_S:
                return right_at - began
            if right_at - began > RECOVERY_S or now - began > RECOVERY_S + 2 * SILENCE_S:
                for told in still[:5] or changes.since(now - SILENCE_S):
                    self._violate(told)
            await asyncio.sleep(STEP_S)
        return -1.0


def _root(error: BaseException | None) -> BaseException | None:
    """Give the first error inside of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error

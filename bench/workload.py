"""A log as a real cluster makes one: a domain forms, lives with churn, and everything goes to the keys that it goes to.

One ComputeDomain spans all cliques, which is the hardest case for the domain's own key: it is one partition's. The
records are those that the normaliser and the consumers would append (`controller.observing.routing`): a
pod's address and readiness to its clique alone; nodes, CDCs, and pods that come and go to the clique and the domain.
Decisions are admissible, so a fold of the log counts none as inadmissible. Equal seeds give equal logs.
"""

import random
from collections.abc import Iterator

import msgspec

from eventlog.codec import entry
from eventlog.events import (
    AnyEvent,
    CdcSeen,
    ClaimTemplateSeen,
    ControllerStarted,
    DaemonPodGone,
    DaemonPodSeen,
    DaemonSetSeen,
    DomainSeen,
    IndexAssigned,
    IndexReleased,
    NodeGone,
    NodeSeen,
    Row,
)
from eventlog.record import Entry

NAMESPACE = "nvidia-dra-driver-gpu"
DOMAIN = "3f1c8a1e-6a64-4c3e-8f5b-0d6c1d1b7a90"
FABRIC = "7b0a3c52-5d3e-4f0c-9c1e-3f1f6f5b2a11"
FINALIZERS = ("resource.nvidia.com/computeDomain",)
START_MS = 1_780_000_000_000

Keyed = tuple[str, AnyEvent]


class Shape(msgspec.Struct, frozen=True):
    """How large the fleet is: `cliques` of `nodes` nodes each."""

    cliques: int = 280
    nodes: int = 18

    @property
    def total(self) -> int:
        """Nodes in all."""
        return self.cliques * self.nodes


class _Daemon:
    """A node's daemon pod as it is now."""

    def __init__(self, clique: int, place: int) -> None:
        self.clique = clique
        self.place = place
        self.node = f"node-{clique:04}-{place:02}"
        self.generation = 0
        self.ip = ""
        self.ready = False
        self.terminating = False
        self.joined = False


def entries(shape: Shape, records: int, seed: int = 1) -> Iterator[Entry]:
    """Give `records` log entries: the formation, then churn for as long as there is room."""
    events = _Fleet(shape, seed).events()
    for number in range(records):
        key, event = next(events)
        yield entry(key, event, timestamp_ms=START_MS + number // 4, controller="cliquelog-0")


class _Fleet:
    """The cluster's state, and the records that its changes make."""

    def __init__(self, shape: Shape, seed: int) -> None:
        self._shape = shape
        self._random = random.Random(seed)  # noqa: S311 - a seeded workload, no secrets
        self._version = 1000
        self._daemons = [[_Daemon(clique, place) for place in range(shape.nodes)] for clique in range(shape.cliques)]

    def events(self) -> Iterator[Keyed]:
        """Give keyed events for ever."""
        yield "controller/cliquelog-0", ControllerStarted("cliquelog-0", "0", {"workers": "16"})
        yield DOMAIN, self._domain("")
        yield DOMAIN, self._template("Daemon", f"computedomain-daemon-{DOMAIN}")
        yield DOMAIN, self._template("Workload", "training-channel")
        yield DOMAIN, self._daemon_set()
        for number in self._random.sample(range(self._shape.cliques), self._shape.cliques):
            yield from self._form(number)
        yield DOMAIN, self._domain("Ready")
        while True:
            yield from self._churn(self._random.choice(self._random.choice(self._daemons)))

    def _form(self, number: int) -> Iterator[Keyed]:
        """Let a clique's nodes join; its CDC is written four times meanwhile, as the coalescer does."""
        daemons = self._random.sample(self._daemons[number], self._shape.nodes)
        for daemon in daemons:
            yield from self._join(daemon, "never used", first=daemon is daemons[0])
        yield from self._cdc(number)
        for begin in range(0, len(daemons), 6):
            batch = daemons[begin : begin + 6]
            for daemon in batch:
                yield from self._start(daemon)
            yield from self._cdc(number)

    def _churn(self, daemon: _Daemon) -> Iterator[Keyed]:
        chance = self._random.random()
        if chance < 0.6:
            yield from self._flip(daemon)
        elif chance < 0.9:
            yield from self._end(daemon)
            yield from self._cdc(daemon.clique)
            yield from self._start(daemon)
            yield from self._cdc(daemon.clique)
        else:
            yield from self._leave(daemon)
            yield from self._join(daemon, "remembered")
            yield from self._start(daemon)
            yield from self._cdc(daemon.clique)

    def _flip(self, daemon: _Daemon) -> Iterator[Keyed]:
        for ready in (False, True):
            daemon.ready = ready
            yield f"{FABRIC}.{daemon.clique}", self._pod(daemon)
            yield from self._cdc(daemon.clique)

    def _join(self, daemon: _Daemon, cause: str, *, first: bool = False) -> Iterator[Keyed]:
        """Let the node be labelled; a clique's first is what introduces the domain to it."""
        clique = f"{FABRIC}.{daemon.clique}"
        yield from _both(clique, NodeSeen(daemon.node, f"uid-{daemon.node}", self._tick(), clique, DOMAIN))
        if first:
            yield clique, self._domain("")
            yield clique, self._daemon_set()
        daemon.joined = True
        yield clique, IndexAssigned(DOMAIN, daemon.node, daemon.place, 18, cause)

    def _leave(self, daemon: _Daemon) -> Iterator[Keyed]:
        clique = f"{FABRIC}.{daemon.clique}"
        yield from _both(clique, NodeGone(daemon.node, f"uid-{daemon.node}", self._tick(), "unlabelled"))
        yield from self._end(daemon)
        daemon.joined = False
        yield clique, IndexReleased(DOMAIN, daemon.node, daemon.place, "no label, no daemon")
        yield from self._cdc(daemon.clique)

    def _start(self, daemon: _Daemon) -> Iterator[Keyed]:
        """Let the daemon's pod be made, get its address, and become Ready."""
        clique = f"{FABRIC}.{daemon.clique}"
        daemon.generation += 1
        daemon.ip, daemon.ready = "", False
        yield from _both(clique, self._pod(daemon))
        daemon.ip = f"10.{daemon.generation % 200}.{daemon.clique % 250}.{daemon.place}"
        yield clique, self._pod(daemon)
        daemon.ready = True
        yield clique, self._pod(daemon)

    def _end(self, daemon: _Daemon) -> Iterator[Keyed]:
        clique = f"{FABRIC}.{daemon.clique}"
        daemon.terminating = True
        yield from _both(clique, self._pod(daemon))
        yield from _both(clique, DaemonPodGone(DOMAIN, daemon.node, _uid(daemon), self._tick()))
        daemon.terminating, daemon.ready, daemon.ip = False, False, ""

    def _pod(self, daemon: _Daemon) -> DaemonPodSeen:
        return DaemonPodSeen(
            domain=DOMAIN,
            node=daemon.node,
            namespace=NAMESPACE,
            name=f"computedomain-daemon-{_uid(daemon)[:5]}",
            uid=_uid(daemon),
            resource_version=self._tick(),
            clique=f"{FABRIC}.{daemon.clique}",
            ip=daemon.ip,
            ready=daemon.ready,
            terminating=daemon.terminating,
            reader=True,
        )

    def _cdc(self, number: int) -> Iterator[Keyed]:
        """Let the clique's CDC be seen as a write has left it."""
        clique = f"{FABRIC}.{number}"
        rows = tuple(
            Row(daemon.node, daemon.ip, daemon.place, "Ready" if daemon.ready else "NotReady")
            for daemon in self._daemons[number]
            if daemon.joined
        )
        name, uid = f"{DOMAIN}.{clique}", f"c0c0c0c0-0000-4000-8000-{number:012}"
        version = self._tick()
        yield from _both(
            clique,
            CdcSeen(DOMAIN, clique, NAMESPACE, name, uid, version, rows, position=f"{number % 24}/{version}"),
        )

    def _domain(self, status: str) -> DomainSeen:
        return DomainSeen(
            DOMAIN,
            self._tick(),
            "training",
            "job",
            "training-channel",
            "Single",
            finalizers=FINALIZERS if status else (),
            status=status,
        )

    def _daemon_set(self) -> DaemonSetSeen:
        name = f"computedomain-daemon-{DOMAIN}"
        return DaemonSetSeen(DOMAIN, f"ds-{DOMAIN}", self._tick(), NAMESPACE, name, 18, reader=True)

    def _template(self, target: str, name: str) -> ClaimTemplateSeen:
        namespace = NAMESPACE if target == "Daemon" else "training"
        return ClaimTemplateSeen(DOMAIN, target, f"{target}-{DOMAIN}", self._tick(), namespace, name)

    def _tick(self) -> int:
        self._version += 1
        return self._version


def _uid(daemon: _Daemon) -> str:
    return f"{daemon.generation:08x}-0000-4000-8000-{daemon.clique:06}{daemon.place:06}"


def _both(clique: str, event: AnyEvent) -> Iterator[Keyed]:
    """Give the event to its clique and to the domain."""
    yield clique, event
    yield DOMAIN, event

"""The kubelets of all nodes, with the daemons that they run, as the API server sees them.

A pod gets its address and runs; our daemon in it says its clique by a label, as upstream's does; once the daemon finds
its row, with its index and its own address, in its CDC, the pod becomes Ready (IMEX tells who it is by its address, so
a row without it is not enough). A daemon whose index changes starts IMEX anew, and is not Ready meanwhile. A pod
without the reader label runs a daemon of another kind: who simulates that one labels the pod and writes the rows.

The clique that counts is the machine's (NVML's), which the daemon is told when it starts; the node's label may lag.
Not simulated: claims, probes (their periods are in the timing), workload pods, heartbeats, the IMEX process.
"""

from collections.abc import Callable

import msgspec

from kube.client import Resource
from kube.clock import Clock
from kube.names import CDCS, CLIQUE_LABEL, DOMAIN_LABEL, PODS, READER_LABEL
from simulation.addresses import Addresses
from simulation.daemon_sets import ENDING
from simulation.store import Change, Key, Object, Refused, Store
from simulation.timing import Delays, Timers, Timing


class Machine(msgspec.Struct):
    """A node's hardware. `boots_until`: no pod of it gets an address before this moment."""

    clique: str
    boots_until: float = 0.0
    pods: int = 0


class Daemon(msgspec.Struct):
    """A pod on a node. `life` counts its restarts: what was planned for an earlier one is void."""

    key: Key
    uid: str
    node: str
    domain: str
    clique: str
    number: int
    life: int = 0
    address: str = ""
    runs: bool = False
    ending: bool = False
    index: int | None = None
    """The index that the daemon found in its row and starts IMEX with."""

    @property
    def cdc(self) -> Key:
        """The place of the CDC that the daemon looks at."""
        return self.key[0], f"{self.domain}.{self.clique}"


class Kubelets:
    """Reacts to pods that have a node, and to CDCs."""

    def __init__(self, store: Store, clock: Clock, timers: Timers, delays: Delays, timing: Timing) -> None:
        self._store = store
        self._clock = clock
        self._timers = timers
        self._delays = delays
        self._timing = timing
        self._addresses = Addresses()
        self._machines: dict[str, Machine] = {}
        self._daemons: dict[str, Daemon] = {}
        self._waiting: dict[tuple[Key, str], str] = {}
        """By CDC and node: the UID of the daemon that looks for its row there."""

    def add(self, node: str, clique: str) -> None:
        """Let there be a machine in this clique (empty: without a fabric), or move it there."""
        self._machines.setdefault(node, Machine(clique)).clique = clique

    def clique_of(self, node: str) -> str:
        """Give the clique that a daemon on the machine was told when its pod started, else the machine's own."""
        told = [daemon.clique for daemon in self.daemons_on(node) if daemon.address]
        return told[-1] if told else self._machines[node].clique

    def daemons_on(self, node: str) -> list[Daemon]:
        """Give the daemons that run on a node or are about to."""
        return [daemon for daemon in self._daemons.values() if daemon.node == node and not daemon.ending]

    def restart(self, daemon: Daemon) -> None:
        """Give the pod a new sandbox: another address, not Ready, and the daemon begins anew."""
        old, self._stop(daemon).address = daemon.address, self._addresses.take()
        if old:
            self._addresses.give_back(old)
        self._run(daemon)

    def fail(self, daemon: Daemon) -> None:
        """Let the pod fail for good, as a node that shuts down does to its pods."""
        self._stop(daemon)
        self._set_status(daemon, {"phase": "Failed", "reason": "Terminated", "conditions": _conditions(ready=False)})

    def reboot(self, node: str) -> None:
        """Let the node's pods fail, and the next one wait for the node to be up."""
        machine = self._machines[node]
        booted = self._delays.draw(self._timing.booted, "booted", node, machine.pods)
        machine.boots_until = self._clock.monotonic() + booted
        for daemon in self.daemons_on(node):
            self.fail(daemon)

    def observe(self, resource: Resource, change: Change) -> None:
        """Take in a change."""
        if resource == PODS:
            self._see_pod(change)
        elif resource == CDCS and change.after is not None:
            self._see_rows(change.before or {}, change.after)

    # Pods

    def _see_pod(self, change: Change) -> None:
        if change.after is None:
            self._forget((change.before or {})["metadata"]["uid"])
            return
        metadata, node = change.after["metadata"], change.after.get("spec", {}).get("nodeName", "")
        if node not in self._machines:
            return
        daemon = self._daemons.get(metadata["uid"])
        if daemon is None:
            daemon = self._take_on(change.after, node)
        if "deletionTimestamp" in metadata and not daemon.ending:
            self._stop(daemon).ending = True
            delay = self._delays.draw(self._timing.ended, "ended", node, daemon.number)
            self._timers.after(delay, lambda: self._end(daemon))

    def _take_on(self, pod: Object, node: str) -> Daemon:
        metadata, machine = pod["metadata"], self._machines[node]
        machine.pods += 1
        daemon = Daemon(
            key=(metadata["namespace"], metadata["name"]),
            uid=metadata["uid"],
            node=node,
            domain=metadata.get("labels", {}).get(DOMAIN_LABEL, ""),
            clique=machine.clique,
            number=machine.pods,
        )
        self._daemons[daemon.uid] = daemon
        delay = self._delays.draw(self._timing.address, "address", node, daemon.number)
        up = max(0.0, machine.boots_until - self._clock.monotonic())
        self._timers.after(up + delay, lambda: self._give_address(daemon))
        return daemon

    def _give_address(self, daemon: Daemon) -> None:
        if daemon.uid in self._daemons and not daemon.ending:
            daemon.clique = self._machines[daemon.node].clique
            daemon.address = self._addresses.take()
            self._run(daemon)

    def _run(self, daemon: Daemon) -> None:
        """Publish the address, and start the daemon a little later."""
        status = {"phase": "Running", "podIP": daemon.address, "podIPs": [{"ip": daemon.address}]}
        self._set_status(daemon, {**status, "conditions": _conditions(ready=False)})
        delay = self._delays.draw(self._timing.started, "started", daemon.node, daemon.number, daemon.life)
        self._later(delay, daemon, self._start)

    def _start(self, daemon: Daemon) -> None:
        daemon.runs = True
        labels = self._store.get(PODS, daemon.key)["metadata"].get("labels", {})
        if READER_LABEL in labels and labels.get(CLIQUE_LABEL) != daemon.clique:
            self._store.update(PODS, daemon.key, "", lambda pod: _labelled(pod, daemon.clique))
        if not daemon.clique:
            self._become_ready(daemon)  # no fabric: it has nothing to wait for
            return
        self._waiting[daemon.cdc, daemon.node] = daemon.uid
        try:
            rows = self._store.get(CDCS, daemon.cdc).get("daemons", [])
        except Refused:
            return  # There is no CDC yet.
        for row in rows:
            if row["nodeName"] == daemon.node:
                self._look_at(daemon, row)

    def _stop(self, daemon: Daemon) -> Daemon:
        daemon.life += 1
        daemon.runs, daemon.index = False, None
        if self._waiting.get((daemon.cdc, daemon.node)) == daemon.uid:
            del self._waiting[daemon.cdc, daemon.node]
        return daemon

    def _end(self, daemon: Daemon) -> None:
        """Let go of a pod that is ended, so that it is gone."""
        if daemon.uid in self._daemons:
            self._store.update(PODS, daemon.key, "", _let_go)

    def _forget(self, uid: str) -> None:
        daemon = self._daemons.pop(uid, None)
        if daemon is not None:
            self._stop(daemon)
            if daemon.address:
                self._addresses.give_back(daemon.address)

    # Rows

    def _see_rows(self, before: Object, after: Object) -> None:
        """Let the daemons look at their rows, where these have changed."""
        metadata = after["metadata"]
        place = (metadata["namespace"], metadata["name"])
        old = {row["nodeName"]: row for row in before.get("daemons", [])}
        for row in after.get("daemons", []):
            uid = self._waiting.get((place, row["nodeName"]))
            if uid is not None and row != old.get(row["nodeName"]):
                self._look_at(self._daemons[uid], row)

    def _look_at(self, daemon: Daemon, row: Object) -> None:
        """Start IMEX with the index in the row, if the row is the daemon's and the index is not what it runs with."""
        index = row.get("index")
        if row["ipAddress"] != daemon.address or index is None or index == daemon.index:
            return
        if daemon.index is not None:
            daemon.life += 1
            self._later(0.0, daemon, self._set_not_ready)
        daemon.index = index
        self._become_ready(daemon)

    def _become_ready(self, daemon: Daemon) -> None:
        delay = self._delays.draw(self._timing.ready, "ready", daemon.node, daemon.number, daemon.life)
        self._later(delay, daemon, self._set_ready)

    def _set_ready(self, daemon: Daemon) -> None:
        self._set_condition(daemon, ready=True)

    def _set_not_ready(self, daemon: Daemon) -> None:
        self._set_condition(daemon, ready=False)

    def _set_condition(self, daemon: Daemon, *, ready: bool) -> None:
        status = self._store.get(PODS, daemon.key)["status"]
        self._set_status(daemon, {**status, "conditions": _conditions(ready=ready)})

    # Writes

    def _later(self, seconds: float, daemon: Daemon, action: Callable[[Daemon], None]) -> None:
        """Do something for the daemon later, unless it has ended or begun anew by then."""
        life = daemon.life

        def act() -> None:
            if daemon.uid in self._daemons and daemon.life == life:
                action(daemon)

        self._timers.after(seconds, act)

    def _set_status(self, daemon: Daemon, status: Object) -> None:
        self._store.update(PODS, daemon.key, "status", lambda pod: {**pod, "status": status})


def _conditions(*, ready: bool) -> list[Object]:
    state = str(ready)
    return [
        {"type": "PodScheduled", "status": "True"},
        {"type": "Initialized", "status": "True"},
        {"type": "ContainersReady", "status": state},
        {"type": "Ready", "status": state},
    ]


def _labelled(pod: Object, clique: str) -> Object:
    metadata = pod["metadata"]
    return {**pod, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), CLIQUE_LABEL: clique}}}


def _let_go(pod: Object) -> Object:
    metadata = pod["metadata"]
    kept = [name for name in metadata.get("finalizers", []) if name != ENDING]
    return {**pod, "metadata": {**metadata, "finalizers": kept}}

"""A small world for one clique: what is true of its objects, and what three unordered watches say of it.

Truth changes by actions with one rising resourceVersion, as in etcd. Each watch (nodes, pods, CDCs) delivers in order
and late; anything delivered may be delivered again. The controller's side folds what was delivered, proposes from any
earlier state, and writes with a precondition.
"""

from eventlog.events import (
    AnyEvent,
    CdcGone,
    CdcSeen,
    DaemonPodGone,
    DaemonPodSeen,
    DaemonSetSeen,
    DomainSeen,
    NodeGone,
    NodeSeen,
    Row,
)
from projections.clique import CliqueState
from projections.desired import clique_effects
from projections.effects import WriteCdc
from projections.fold import apply
from projections.settings import Settings

CLIQUE = "c1.0"
CAPACITY = 3
SETTINGS = Settings(namespace="driver", capacity=CAPACITY)
NODES = ("n0", "n1", "n2", "n3", "n4")
READER, WRITER = "dom-reader", "dom-writer"
DOMAINS = (READER, WRITER)
WATCHES = ("nodes", "pods", "cdcs")


class Pod:
    """A daemon pod as the API has it; `index` is what the CDC first showed it."""

    def __init__(self, domain: str, node: str, uid: str) -> None:
        self.domain, self.node, self.uid = domain, node, uid
        self.ip, self.ready, self.terminating = "", False, False
        self.index: int | None = None  # the one that an upstream daemon chose, and runs with
        self.index: int | None = None


class World:
    """Truth, watches, log and fold of one clique."""

    def __init__(self) -> None:
        self.version = 10
        self.labels: dict[str, str] = {}
        self.pods: dict[str, Pod] = {}
        self.cdcs: dict[str, tuple[int, str, dict[str, Row], tuple[str, ...]]] = {}
        self.queues: dict[str, list[AnyEvent]] = {watch: [] for watch in WATCHES}
        self.delivered: list[AnyEvent] = []
        self.log: list[AnyEvent] = []
        self.states: list[CliqueState] = [CliqueState()]
        self.writes = 0
        self.disturbed = False  # rows were placed that no daemon places
        for domain in DOMAINS:
            self.append(DomainSeen(domain, 1, "ns", domain, "template", "Single"))
            self.append(DaemonSetSeen(domain, f"ds-{domain}", 2, "driver", domain, reader=domain == READER))

    @property
    def state(self) -> CliqueState:
        """The newest folded state."""
        return self.states[-1]

    def append(self, event: AnyEvent) -> None:
        """Append to the log and fold."""
        self.log.append(event)
        state = apply(self.state, CLIQUE, event)
        assert isinstance(state, CliqueState)
        self.states.append(state)

    def tick(self) -> int:
        """Give the next resourceVersion."""
        self.version += 1
        return self.version

    # --- truth ---

    def label(self, node: str, domain: str) -> None:
        """Label the node, or take the label off (domain empty)."""
        before = self.labels.get(node, "")
        if before == domain:
            return
        self.labels[node] = domain
        version = self.tick()
        if domain:
            self.queues["nodes"].append(NodeSeen(node, f"node-{node}", version, CLIQUE, domain))
        else:
            self.queues["nodes"].append(NodeGone(node, f"node-{node}", version, "unlabelled"))

    def create_pod(self, node: str, domain: str) -> None:
        """Create a daemon pod."""
        version = self.tick()
        pod = self.pods[f"pod-{version}"] = Pod(domain, node, f"pod-{version}")
        self.show(pod)

    def show(self, pod: Pod) -> None:
        """Let the watch say what the pod is now."""
        self.queues["pods"].append(
            DaemonPodSeen(
                pod.domain,
                pod.node,
                "driver",
                pod.uid,
                pod.uid,
                self.tick(),
                CLIQUE,
                pod.ip,
                ready=pod.ready,
                terminating=pod.terminating,
                reader=pod.domain == READER,
            )
        )

    def delete_pod(self, pod: Pod) -> None:
        """Let the pod be gone."""
        del self.pods[pod.uid]
        self.queues["pods"].append(DaemonPodGone(pod.domain, pod.node, pod.uid, self.tick()))

    def put_cdc(self, domain: str, rows: dict[str, Row], waiting: tuple[str, ...] = ()) -> None:
        """Write the CDC, by whomever."""
        version = self.tick()
        uid = self.cdcs[domain][1] if domain in self.cdcs else f"cdc-{version}"
        self.cdcs[domain] = (version, uid, dict(rows), waiting)
        for pod in self.living(domain):
            row = rows.get(pod.node)
            if row is not None and row.ip == pod.ip and pod.index is None:
                pod.index = row.index
        name = f"{domain}.{CLIQUE}"
        values = tuple(rows.values())
        self.queues["cdcs"].append(CdcSeen(domain, CLIQUE, "driver", name, uid, version, values, waiting))

    def living(self, domain: str) -> list[Pod]:
        """Give the domain's pods that have an address and stay."""
        return [pod for pod in self.pods.values() if pod.domain == domain and pod.ip and not pod.terminating]

    def delete_cdc(self, domain: str) -> None:
        """Delete the CDC."""
        _, uid, _, _ = self.cdcs.pop(domain)
        self.queues["cdcs"].append(CdcGone(domain, CLIQUE, uid, self.tick()))

    def daemon_writes_row(self, pod: Pod) -> None:
        """Do what an upstream daemon does: set its address, or insert its row with the lowest free index."""
        rows = dict(self.cdcs[pod.domain][2]) if pod.domain in self.cdcs else {}
        waiting = self.cdcs[pod.domain][3] if pod.domain in self.cdcs else ()
        own = rows.get(pod.node)
        taken = {row.index for row in rows.values()}
        free = [index for index in range(CAPACITY) if index not in taken]
        if own is not None and own.ip == pod.ip:
            return
        if own is None and not free:
            return
        index = own.index if own is not None else free[0]
        pod.index = index if pod.index is None else pod.index
        rows[pod.node] = Row(pod.node, pod.ip, index, own.status if own is not None else "NotReady")
        self.put_cdc(pod.domain, rows, waiting)

    # --- the controller's side ---

    def deliver(self, watch: str) -> bool:
        """Deliver the watch's next event."""
        if not self.queues[watch]:
            return False
        event = self.queues[watch].pop(0)
        self.delivered.append(event)
        self.append(event)
        return True

    def wanted(self) -> tuple[WriteCdc, ...]:
        """Give the writes that the newest state calls for."""
        return clique_effects(self.state, CLIQUE, SETTINGS)

    def write(self, effect: WriteCdc) -> bool:
        """Send a write as the API would take it: only onto the version that it was computed from."""
        version, uid = self.cdcs[effect.domain][:2] if effect.domain in self.cdcs else (0, "")
        if (version, uid) != (effect.resource_version, effect.uid):
            return False
        self.writes += 1
        self._check_living_rows(effect)
        self.put_cdc(effect.domain, {row.node: row for row in effect.rows}, effect.waiting)
        return True

    def _check_living_rows(self, effect: WriteCdc) -> None:
        """Judge a write by the truth, which the writer may not know: no living daemon loses its row or its index."""
        shown = self.cdcs[effect.domain][2] if effect.domain in self.cdcs else {}
        written = {row.node: row for row in effect.rows}
        for pod in self.pods.values():
            row = shown.get(pod.node)
            if pod.domain != effect.domain or pod.terminating or not pod.ip or row is None or row.ip != pod.ip:
                continue
            if self._is_used_again_unseen(pod):
                continue
            assert pod.node in written or pod.node in effect.waiting, f"{effect} drops the row of {pod.node}"
            if not self.disturbed and row.index == pod.index and not self._is_disputed(pod, shown):
                assert written[pod.node].index == pod.index, f"{effect} renumbers {pod.node}"

    def _is_used_again_unseen(self, pod: Pod) -> bool:
        """Say whether the pod has an address that a dead one of its node had, and was not seen yet.

        Its row cannot be told from a late write of our own for the dead one: a known gap, closed by the pod's first
        event.
        """
        membership = self.state.domains[pod.domain]
        dead = any(stone.node == pod.node and stone.ip == pod.ip for stone in membership.tombstones)
        return dead and pod.uid not in membership.pods

    def _is_disputed(self, pod: Pod, shown: dict[str, Row]) -> bool:
        """Say whether another row shows the index of the pod, or another daemon runs with it."""
        others = (other for other in self.pods.values() if other.domain == pod.domain and other is not pod)
        rows = (row for row in shown.values() if row.node != pod.node)
        return any(other.index == pod.index for other in others) or any(row.index == pod.index for row in rows)

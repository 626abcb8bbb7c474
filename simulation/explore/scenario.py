"""What happens in a run besides faults: a plan drawn from the stream of the workload, and its execution.

The plan is data, so that a failing one can be made smaller by leaving actions out. All actions are things that users,
schedulers and machines do; each is carried out on the cluster's stand-ins or, for foreign writers, on the store.
"""

import asyncio
import random
from collections.abc import Callable, Mapping

import msgspec

from kube import names
from kube.client import Selector
from simulation.cluster import Cluster
from simulation.explore.episodes import Action, draw_episodes
from simulation.explore.faults import KINDS
from simulation.explore.trace import Trace
from simulation.patches import Json, merge_patch
from simulation.store import Object, Refused, Store

FABRIC = "7b0a3c52-5d3e-4f0c-9c1e-3f1f6f5b2a11"
JOBS = "jobs"
NO_FABRIC = -1
"""The clique number of a machine that has no clique."""

ACTIONS = (
    "join",
    "leave",
    "reboot",
    "delete node",
    "recreate pod",
    "recreate pod, same name",
    "restart daemon",
    "change clique",
    "delete domain",
    "create domain",
    "foreign: annotate",
    "foreign: status",
    "foreign: remove row",
    "foreign: delete CDC",
    "foreign: replace CDC",
    "foreign: ghost",
    "compaction",
    "clock jump",
)
SHAPES = (
    "shape: one controller",
    "shape: two controllers",
    "shape: three controllers",
    "shape: with Leases",
    "shape: upstream's daemons",
)
TAKING_PART = (*(f"workload: {kind}" for kind in ACTIONS if kind not in KINDS), *SHAPES)
"""What takes part in runs beside faults, counted with them."""
DESTROYING = ("foreign: remove row", "foreign: delete CDC")
"""What takes from upstream's daemons the only account of their indices: those that live then choose anew, others while
their IMEX runs on with the first ones, and nobody can make that right. So it is not asked of anybody."""
WEIGHTS = (8, 3, 2, 1, 3, 2, 3, 1, 1, 2, 2, 1, 1, 1, 1, 1, 2, 1)
KEPT = ("name", "labels", "annotations", "ownerReferences", "finalizers")
"""The metadata of an object that another of its name is given."""


class Plan(msgspec.Struct, frozen=True):
    """A run's shape: how much there is of everything, and the actions in the order of their times.

    `cliques` has each machine's clique number, or NO_FABRIC. `leases`: the controllers elect a
    leader. `upstream`: the daemons are upstream's, which write their rows themselves.
    """

    cliques: tuple[int, ...]
    capacity: int
    partitions: int
    controllers: int
    leases: bool
    labelled: bool
    snapshot_records: int
    upstream: bool
    seconds: float
    page: int
    actions: tuple[Action, ...]

    @classmethod
    def draw(cls, rng: random.Random) -> "Plan":
        """Draw a plan: a domain, most machines joining it at about the same time, and some trouble."""
        machines = rng.randint(2, 6)
        cliques = rng.choice((1, 1, 2))
        seconds = rng.choice((8.0, 15.0, 30.0))
        burst = rng.uniform(0.2, 4.0)
        actions = [Action(0.1, "create domain", 0, 0)]
        actions += [
            Action(rng.uniform(0.2, burst), "join", machine, 0) for machine in range(machines) if rng.random() < 0.9
        ]
        upstream = rng.random() < 0.3
        actions += [
            Action(rng.uniform(0.2, seconds), kind, rng.randrange(1000), rng.randrange(1000))
            for kind in rng.choices(ACTIONS, WEIGHTS, k=rng.randint(0, 12))
            if not (upstream and kind in DESTROYING)
        ]
        plan = cls(
            cliques=tuple(rng.randrange(cliques) if rng.random() < 0.95 else NO_FABRIC for _ in range(machines)),
            # Upstream's daemons have no line to wait in: in a full clique they take the first index that they see free.
            capacity=18 if upstream else rng.choice((machines, machines, 18, max(1, machines - 2))),
            partitions=rng.choice((1, 2, 3)),
            controllers=rng.choice((1, 1, 1, 1, 2, 2, 3)),
            leases=rng.random() < 0.2,
            labelled=rng.random() < 0.8,
            snapshot_records=rng.choice((5, 20, 100)),
            upstream=upstream,
            seconds=seconds,
            page=rng.choice((1, 2, 500)),
            actions=(),
        )
        actions += draw_episodes(rng, machines, seconds)
        return msgspec.structs.replace(plan, actions=tuple(sorted(actions, key=lambda action: action.at)))


def shape(plan: Plan) -> list[str]:
    """Give what takes part in a run by its plan: those of SHAPES."""
    found = [SHAPES[plan.controllers - 1]]
    return found + [SHAPES[3]] * plan.leases + [SHAPES[4]] * plan.upstream


class Workload:
    """Carries out a plan."""

    def __init__(
        self, plan: Plan, store: Store, cluster: Cluster, disturb: Mapping[str, Callable[[int], str]], trace: Trace
    ) -> None:
        """Register the machines. `disturb` has the actions on the whole cluster, which give what they did."""
        self._plan = plan
        self._store = store
        self._cluster = cluster
        self._disturb = disturb
        self._trace = trace
        self.acts = False
        """Whether what is changed right now is changed by an action."""
        for number, clique in enumerate(plan.cliques):
            cluster.register(f"n{number}", _clique_id(clique), labelled=plan.labelled)

    async def run(self) -> None:
        """Carry out the actions at their times, and return at the plan's end."""
        loop = asyncio.get_running_loop()
        for action in self._plan.actions:
            if action.at > loop.time():
                await asyncio.sleep(action.at - loop.time())
            self.acts = True
            told = self._act(action)
            self.acts = False
            if told:
                self._trace.note("world", f"{action.kind}: {told}")
                self._trace.count([f"workload: {action.kind}"])
        await asyncio.sleep(max(0.0, self._plan.seconds - loop.time()))

    def domains(self) -> list[Object]:
        """Give the ComputeDomains that are not going away."""
        found = self._store.snapshot(Selector(names.COMPUTE_DOMAINS))
        return [domain for domain in found if "deletionTimestamp" not in domain["metadata"]]

    def _act(self, action: Action) -> str:
        """Carry out an action, and say on what; nothing if there is nothing to do it to."""
        domains = self.domains()
        if action.kind == "create domain":
            return self._create_domain(action.number)
        if action.kind in self._disturb:
            self._trace.fault("world", action.kind, self._disturb[action.kind](action.number))
            return ""
        if action.kind.startswith("foreign"):
            cdcs = self._store.snapshot(Selector(names.CDCS))
            return self._write_as_another(action, cdcs[action.number % len(cdcs)]) if cdcs else ""
        if action.kind == "delete domain":
            return self._delete(domains[action.number % len(domains)]) if domains else ""
        node = f"n{action.number % len(self._plan.cliques)}"
        domain = domains[action.other % len(domains)]["metadata"]["uid"] if domains else ""
        return self._act_on_node(action, node, domain)

    def _act_on_node(self, action: Action, node: str, domain: str) -> str:
        there = {thing["metadata"]["name"] for thing in self._store.snapshot(Selector(names.NODES))}
        clique = _clique_id(action.other % (max(self._plan.cliques) + 2))
        if self._runs_daemons(node) and (node not in there or not self._cluster.clique_of(node)):
            clique = self._cluster.clique_of(node)  # It is the same machine still, and one without a fabric gets none.
        if node not in there:
            self._cluster.register(node, clique, labelled=self._plan.labelled)
            return f"{node}: registered again in {clique[-1:] or 'no clique'}"
        acts: Mapping[str, Callable[[], None]] = {
            "leave": lambda: self._cluster.leave(node),
            "reboot": lambda: self._cluster.reboot(node),
            "delete node": lambda: self._cluster.delete_node(node),
            "recreate pod": lambda: self._cluster.recreate_pod(node, same_name=False),
            "recreate pod, same name": lambda: self._cluster.recreate_pod(node, same_name=True),
            "restart daemon": lambda: self._cluster.restart_daemon(node),
            "change clique": lambda: self._cluster.change_clique(node, clique),
        }
        if action.kind == "join":
            if not domain:
                return ""
            self._cluster.join(node, domain)
            return f"{node} to {domain[:8]}"
        acts[action.kind]()
        return f"{node} (clique {clique[-1:] or '-'})" if action.kind == "change clique" else node

    def _runs_daemons(self, node: str) -> bool:
        pods = self._store.snapshot(Selector(names.PODS))
        return any(pod.get("spec", {}).get("nodeName") == node for pod in pods)

    def _create_domain(self, number: int) -> str:
        """Create a ComputeDomain of one of two names, so that a name comes again with another UID."""
        name = f"job-{number % 2}"
        body: Json = {
            "metadata": {"name": name},
            "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": f"{name}-channel"}}},
        }
        try:
            made = self._store.create(names.COMPUTE_DOMAINS, JOBS, body)
        except Refused:
            return ""  # One of that name is there.
        return f"{name} {str(made['metadata']['uid'])[:8]}"

    def _delete(self, domain: Object) -> str:
        self._store.delete(names.COMPUTE_DOMAINS, (JOBS, domain["metadata"]["name"]), None)
        return f"{domain['metadata']['name']} {domain['metadata']['uid'][:8]}"

    def _write_as_another(self, action: Action, cdc: Object) -> str:
        """Change a CDC as somebody else may: an administrator, a tool, the driver's own controller."""
        key = (cdc["metadata"]["namespace"], cdc["metadata"]["name"])
        rows: list[Json] = list(cdc.get("daemons", []))
        if action.kind == "foreign: delete CDC":
            self._store.delete(names.CDCS, key, None)
            return str(key[1])[:8]
        if action.kind == "foreign: replace CDC":
            self._store.delete(names.CDCS, key, None)
            metadata = {name: cdc["metadata"][name] for name in KEPT if name in cdc["metadata"]}
            self._store.create(names.CDCS, key[0], {**cdc, "metadata": metadata})
            return str(key[1])[:8]
        if action.kind == "foreign: ghost":
            ghost = {
                "nodeName": f"ghost{action.other % 2}",
                "ipAddress": f"192.0.2.{1 + action.other % 200}",
                "cliqueID": str(key[1]).partition(".")[2],
                "index": action.other % self._plan.capacity,
                "status": "Ready",
            }
            rows = [row for row in rows if row["nodeName"] != ghost["nodeName"]]
            patch: Json = {"daemons": [*rows, ghost]}
        elif action.kind == "foreign: annotate":
            patch = {"metadata": {"annotations": {"example.com/touched": str(action.other)}}}
        elif not rows:
            return ""
        else:
            at = action.other % len(rows)
            status = {**rows[at], "status": "NotReady" if rows[at]["status"] == "Ready" else "Ready"}
            changed = [status] if action.kind == "foreign: status" else []
            patch = {"daemons": [*rows[:at], *changed, *rows[at + 1 :]]}
        self._store.update(names.CDCS, key, "", lambda before: merge_patch(before, patch))
        return f"{key[1][:8]} {patch}"[:100]


def _clique_id(number: int) -> str:
    return "" if number == NO_FABRIC else f"{FABRIC}.{number}"

"""The workload that everything is measured with: one ComputeDomain whose nodes come within a window of seconds.

The machines are there before; they join at even distances, in an order from the seed, so that the cliques fill side by
side, as those of a large job do (the schedule that the peer was measured with). A clique that is not full comes last.
Or they join in waves, so that each clique fills as fast in a large domain as in a small one at the same rate.
"""

import random
from collections import Counter

import msgspec

from kube.clock import Clock
from kube.names import COMPUTE_DOMAINS
from simulation.cluster import Cluster
from simulation.store import Store

CLUSTER_UUID = "7b0a3c52-5d3e-4f0c-9c1e-3f1f6f5b2a11"
"""The first half of all clique IDs."""


class Plan(msgspec.Struct, frozen=True):
    """How many nodes form the domain, how many of them are one clique, and within how many seconds they join.

    `wave`: so many of them join in random order, then the next ones, and so on.
    """

    nodes: int
    clique_size: int
    seed: int
    window_s: float
    wave: int

    @property
    def cliques(self) -> int:
        """How many cliques that makes."""
        return -(-self.nodes // self.clique_size)

    def machines(self) -> dict[str, str]:
        """Give the nodes' names with their clique IDs."""
        return {
            f"node-{number // self.clique_size:04}-{number % self.clique_size:02}": (
                f"{CLUSTER_UUID}.{number // self.clique_size}"
            )
            for number in range(self.nodes)
        }

    def arrivals(self) -> list[str]:
        """Give the nodes' names in the order in which they join."""
        rng = random.Random(f"{self.seed}/arrivals")  # noqa: S311 - what makes it repeatable
        machines, order = list(self.machines()), list[str]()
        for begin in range(0, len(machines), self.wave):
            coming = machines[begin : begin + self.wave]
            rng.shuffle(coming)
            order += coming
        return order

    def sizes(self) -> Counter[str]:
        """Give the number of nodes by clique ID."""
        return Counter(self.machines().values())


class Formation:
    """Carries the plan out on a cluster."""

    def __init__(self, plan: Plan, store: Store, cluster: Cluster, clock: Clock) -> None:
        self._plan = plan
        self._store = store
        self._cluster = cluster
        self._clock = clock
        self._machines = plan.machines()

    def register(self) -> None:
        """Let the machines join the cluster."""
        for name, clique in self._machines.items():
            self._cluster.register(name, clique)

    def create_domain(self) -> str:
        """Create the ComputeDomain, as a user does, and give its UID."""
        body = {
            "metadata": {"name": "training"},
            "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "training-channel"}}},
        }
        uid: str = self._store.create(COMPUTE_DOMAINS, "default", body)["metadata"]["uid"]
        return uid

    async def join(self, domain: str) -> None:
        """Let all nodes join the domain (its UID); returns when the last one has."""
        order = self._plan.arrivals()
        began = self._clock.monotonic()
        for number, name in enumerate(order):
            due = began + self._plan.window_s * number / len(order)
            await self._clock.sleep(due - self._clock.monotonic())
            self._cluster.join(name, domain)

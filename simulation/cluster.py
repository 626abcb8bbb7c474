"""A cluster around a simulated API server: stand-ins for all that a controller does not do itself.

They react to the store as their originals do to the API server, each later by a delay from a seed, and write to the
store directly: a kubelet's requests are not what is measured. `Cluster` is what a scenario acts on: machines are
registered, join and leave a domain, reboot, lose their pods.

Invariant: one seed gives one run, under any clock. The stand-ins use the clock for time, tasks for waiting, and nothing
else from outside.
"""

import random
from typing import NoReturn

from kube.client import Resource
from kube.clock import Clock
from kube.names import DOMAIN_LABEL, NODE_CLIQUE_LABEL, NODES
from simulation.collector import Collector
from simulation.daemon_sets import DaemonSets
from simulation.kubelets import Kubelets
from simulation.patches import Json, merge_patch
from simulation.store import Change, Object, Store
from simulation.timing import Delays, Timers, Timing


class Cluster:
    """The stand-ins on one store. Actions may be asked for before `run` runs; their consequences come with it."""

    def __init__(self, store: Store, clock: Clock, rng: random.Random, timing: Timing) -> None:
        """Take a seed for all delays from `rng`. The store must be empty yet."""
        self._store = store
        self._timers = Timers(clock)
        delays = Delays(rng.getrandbits(64))
        self._daemon_sets = DaemonSets(store, self._timers, delays, timing)
        self._kubelets = Kubelets(store, clock, self._timers, delays, timing)
        self._collector = Collector(store, self._timers, delays, timing)
        store.subscribe(self._observe)

    async def run(self) -> NoReturn:
        """Let the cluster live until cancelled. Raises ExceptionGroup if a stand-in fails, which is a defect."""
        await self._timers.run()

    def _observe(self, resource: Resource, change: Change) -> None:
        self._daemon_sets.observe(resource, change)
        self._kubelets.observe(resource, change)
        self._collector.observe(resource, change)

    # Machines

    def register(self, node: str, clique: str, *, labelled: bool = True) -> None:
        """Let a machine of this clique (empty: without a fabric) join the cluster.

        `labelled`: its plugin states the clique in the node's label, which upstream's does only if told to.
        """
        self._kubelets.add(node, clique)
        labels = {NODE_CLIQUE_LABEL: clique} if labelled and clique else {}
        self._store.create(NODES, "", {"metadata": {"name": node, "labels": labels}})

    def change_clique(self, node: str, clique: str) -> None:
        """Move the machine to another clique; its label follows, a daemon keeps the clique it started with."""
        self._kubelets.add(node, clique)
        if NODE_CLIQUE_LABEL in self._store.get(NODES, ("", node))["metadata"].get("labels", {}):
            self._label(node, NODE_CLIQUE_LABEL, clique or None)

    def clique_of(self, node: str) -> str:
        """Give the clique that the node's daemon was told, or its next one will be."""
        return self._kubelets.clique_of(node)

    def reboot(self, node: str) -> None:
        """Let the node's pods fail; it keeps its Node, and its next pods get their addresses once it is up again."""
        self._kubelets.reboot(node)

    def delete_node(self, node: str) -> None:
        """Delete the Node; its pods follow. The machine may be registered again."""
        self._store.delete(NODES, ("", node), None)

    # Workloads and daemons

    def join(self, node: str, domain: str) -> None:
        """Let a workload of the domain (its UID) come to the node: the kubelet plugin labels it."""
        self._label(node, DOMAIN_LABEL, domain)

    def leave(self, node: str) -> None:
        """Let the last workload leave the node: the kubelet plugin takes the label off."""
        self._label(node, DOMAIN_LABEL, None)

    def recreate_pod(self, node: str, *, same_name: bool) -> None:
        """Delete the daemon pods on the node; others follow, with other names or the same."""
        if same_name:
            self._daemon_sets.keep_name(node)
        for pod in self._daemon_sets.pods_on(node):
            self._daemon_sets.end(pod)

    def restart_daemon(self, node: str) -> None:
        """Give the daemon pods on the node a new sandbox: not Ready, another address, the same pod."""
        for daemon in self._kubelets.daemons_on(node):
            if daemon.address:
                self._kubelets.restart(daemon)

    def _label(self, node: str, label: str, value: str | None) -> None:
        patch: Json = {"metadata": {"labels": {label: value}}}
        edited: Object = merge_patch(self._store.get(NODES, ("", node)), patch)
        self._store.update(NODES, ("", node), "", lambda _: edited)

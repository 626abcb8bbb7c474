"""Whatever the reflectors tell, in whatever order: the log ends with what is there, and tells nothing live as gone."""

import random
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from eventlog.events import AnyEvent, DaemonPodGone, DomainGone, RelistBegan, RelistCompleted, WatchGap
from kube import names, objects
from kube.client import Resource
from projections.buckets import values
from projections.clique import CliqueState
from projections.domain import DomainState
from projections.fold import Aggregate
from tests.controller import cluster as make
from tests.controller.cluster import KINDS, Cluster, Observer

CLIQUES = ("c.0", "c.1")
DOMAINS = ("d0", "d1")
NODES = ("n0", "n1", "n2", "n3", "bare")
MARKS = (RelistBegan, RelistCompleted, WatchGap)


class Scenario:
    """Random changes of a cluster of a few nodes, two cliques and two domains."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cluster = Cluster()
        self.observer = Observer(self.cluster, self.rng)
        self.cliques = {"n0": "c.0", "n1": "c.0", "n2": "c.1", "n3": "c.1", "bare": ""}
        self.rewired: set[str] = set()
        self.reads: list[objects.KubeObject] = []
        self.count = 0
        for uid in DOMAINS:
            self.cluster.put(names.COMPUTE_DOMAINS, make.domain(uid, self.cluster.tick()))

    def new_uid(self, of: str) -> str:
        self.count += 1
        return f"{of}-{self.count}"

    def step(self) -> None:
        actions: dict[Any, int] = {
            self.change_node: 3,
            self.change_pod: 4,
            self.change_cdc: 3,
            self.change_domain: 2,
            self.change_child: 2,
            self.rewire: 1,
            self.deliver: 12,
            self.relist: 1,
            self.read: 2,
            self.answer: 2,
            self.observer.restart: 1,
        }
        before = len(self.observer.log)
        self.rng.choices(list(actions), list(actions.values()))[0]()
        self.check_gone(before)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
        self.name_cliques()
        before = len(self.observer.log)
        self.observer.deliver_all()
        # A label that was set or told after its domain was gone is told as such with the next list.
        self.observer.relist(names.COMPUTE_DOMAINS)
        self.observer.deliver_all()
        self.check_gone(before)

    # --- the cluster changes ---

    def change_node(self) -> None:
        """Label a node, label it otherwise, let it say its clique or not, beat its heart, or take it away."""
        name = self.rng.choice(NODES)
        found = self.current(names.NODES, name)
        if found is not None and self.rng.random() < 0.3:
            self.cluster.remove(names.NODES, found.metadata.uid)
            return
        replaced = self.rng.random() < 0.1
        if found is not None and replaced:
            self.cluster.remove(names.NODES, found.metadata.uid)
        uid = found.metadata.uid if found is not None and not replaced else self.uid_of_node(name, new=replaced)
        beats = found is not None and self.rng.random() < 0.3
        domain = found.metadata.labels[names.DOMAIN_LABEL] if beats and found else self.rng.choice(DOMAINS)
        clique = self.rng.choice([self.cliques[name], None]) or None
        self.cluster.put(names.NODES, make.node(name, uid, self.cluster.tick(), domain, clique))

    def uid_of_node(self, name: str, *, new: bool) -> str:
        """Give the UID: a node that lost its label has the one it had, a machine that was installed anew another."""
        known = [uid for uid in self.cluster.presence if uid.startswith(f"{name}-")]
        return self.new_uid(name) if new or not known else known[-1]

    def change_pod(self) -> None:
        """Create a daemon pod, give it its clique label, its address, or delete it."""
        pods = list(self.cluster.objects[names.PODS].values())
        if not pods or self.rng.random() < 0.4:
            at = self.rng.choice(NODES)
            clique = self.rng.choice([self.cliques[at], None])
            uid = self.new_uid("pod")
            found = make.pod(uid, self.cluster.tick(), self.rng.choice(DOMAINS), at, clique)
            self.cluster.put(names.PODS, found)
            return
        chosen = self.rng.choice(pods)
        assert isinstance(chosen, objects.Pod)
        if self.rng.random() < 0.4:
            self.cluster.remove(names.PODS, chosen.metadata.uid)
            return
        self.show_pod(chosen, self.rng.choice(["", f"10.0.0.{self.rng.randrange(9)}"]), late=self.rng.random() < 0.5)

    def show_pod(self, found: objects.Pod, ip: str, *, late: bool) -> None:
        at, labels = found.spec.node_name, found.metadata.labels
        clique = labels.get(names.CLIQUE_LABEL, None if late else self.cliques[at])
        shown = make.pod(
            found.metadata.uid, self.cluster.tick(), labels[names.DOMAIN_LABEL], at, clique, found.status.pod_ip or ip
        )
        self.cluster.put(names.PODS, shown)

    def change_cdc(self) -> None:
        domain, clique = self.rng.choice(DOMAINS), self.rng.choice(CLIQUES)
        found = self.current(names.CDCS, f"{domain}.{clique}")
        if found is not None and self.rng.random() < 0.3:
            self.cluster.remove(names.CDCS, found.metadata.uid)
            if self.rng.random() < 0.5:
                return
            found = None
        uid = self.new_uid("cdc") if found is None else found.metadata.uid
        at = self.rng.sample(NODES[:4], self.rng.randrange(3))
        rows = [objects.DaemonRow(name, f"10.0.0.{place}", clique, place) for place, name in enumerate(at)]
        self.cluster.put(names.CDCS, make.cdc(uid, self.cluster.tick(), domain, clique, rows))

    def change_domain(self) -> None:
        """Change a domain's status, or delete it for good: its children and labels may stay."""
        uid = self.rng.choice(DOMAINS)
        if uid not in self.cluster.objects[names.COMPUTE_DOMAINS]:
            return
        if self.rng.random() < 0.1:
            self.cluster.remove(names.COMPUTE_DOMAINS, uid)
        else:
            self.cluster.put(names.COMPUTE_DOMAINS, make.domain(uid, self.cluster.tick()))

    def change_child(self) -> None:
        """Create the domain's DaemonSet or claim template, or delete it, perhaps to create it anew."""
        domain = self.rng.choice(DOMAINS)
        kind = self.rng.choice([names.DAEMON_SETS, names.CLAIM_TEMPLATES])
        new = make.daemon_set if kind == names.DAEMON_SETS else make.template
        found = self.current(kind, f"computedomain-daemon-{domain}")
        if found is not None:
            self.cluster.remove(kind, found.metadata.uid)
        if found is None or self.rng.random() < 0.5:
            self.cluster.put(kind, new(self.new_uid("child"), self.cluster.tick(), domain))

    def rewire(self) -> None:
        """Move a node to the other clique, which needs that it is drained."""
        name = self.rng.choice(NODES[:4])
        if name in self.rewired:
            return
        self.rewired.add(name)
        for found in list(self.cluster.objects[names.PODS].values()):
            if isinstance(found, objects.Pod) and found.spec.node_name == name:
                self.cluster.remove(names.PODS, found.metadata.uid)
        self.cliques[name] = "c.1" if self.cliques[name] == "c.0" else "c.0"
        node = self.current(names.NODES, name)
        if node is not None:
            self.cluster.put(names.NODES, self.labelled(node))

    def labelled(self, found: objects.KubeObject) -> objects.Node:
        old = found.metadata
        clique = self.cliques[old.name] or None
        return make.node(old.name, old.uid, self.cluster.tick(), old.labels[names.DOMAIN_LABEL], clique)

    def name_cliques(self) -> None:
        """Let each node say its clique, so that nothing hangs on what was known of nodes in earlier times."""
        for found in list(self.cluster.objects[names.NODES].values()):
            self.cluster.put(names.NODES, self.labelled(found))
        for found in list(self.cluster.objects[names.PODS].values()):
            if isinstance(found, objects.Pod) and self.current(names.NODES, found.spec.node_name) is None:
                self.show_pod(found, "", late=False)

    def current(self, kind: Resource, name: str) -> objects.KubeObject | None:
        return next((found for found in self.cluster.objects[kind].values() if found.metadata.name == name), None)

    # --- what is told of it ---

    def deliver(self) -> None:
        self.observer.deliver(self.rng.choice(KINDS))

    def relist(self) -> None:
        self.observer.relist(self.rng.choice(KINDS))

    def read(self) -> None:
        """Read an object; the answer comes later."""
        everything = [found for kind in KINDS for found in self.cluster.objects[kind].values()]
        if everything:
            self.reads.append(self.rng.choice(everything))

    def answer(self) -> None:
        if self.reads:
            self.observer.live_read(self.reads.pop(0))

    # --- checks ---

    def check_gone(self, before: int) -> None:
        """Check that what was recorded as gone was not there as of the version that is stated."""
        for _, event in self.observer.log[before:]:
            if not type(event).__name__.endswith("Gone") or getattr(event, "cause", "") == "moved":
                continue
            version = event.resource_version  # type: ignore[union-attr]
            if isinstance(event, DaemonPodGone) and not event.uid:
                for found in self.cluster.objects[names.PODS].values():
                    assert isinstance(found, objects.Pod)
                    same = (found.metadata.labels[names.DOMAIN_LABEL], found.spec.node_name)
                    # One that has another address than the row is another daemon's pod (see test_normaliser.py).
                    if same == (event.domain, event.node) and not found.status.pod_ip:
                        assert not self.cluster.was_present(found.metadata.uid, version), event
            else:
                uid = event.uid  # type: ignore[union-attr]
                assert uid not in self.cluster.presence or not self.cluster.was_present(uid, version), event


def observed_of(state: Aggregate) -> dict[str, Any]:
    """Give what the aggregate knows of the cluster, without what only its own history says."""
    if isinstance(state, CliqueState):
        known: dict[str, Any] = {
            f"node {name}": (node.uid, node.domain) for name, node in state.nodes.items() if node.domain
        }
        for domain, of in state.domains.items():
            known |= {
                f"{domain} pod {uid}": (pod.node, pod.ip, pod.ready, pod.terminating, pod.reader)
                for uid, pod in of.pods.items()
            }
            if of.cdc is not None:
                known[f"{domain} cdc"] = of.cdc
            there = of.pods or of.cdc or any(node.domain == domain for node in state.nodes.values())
            if of.daemon_set is not None and there:
                known[f"{domain} daemons"] = of.daemon_set.uid
            if of.known and there:
                known[f"{domain} itself"] = of.terminating
        return known
    if isinstance(state, DomainState):
        known = {f"node {node.name}": node.uid for node in values(state.nodes)}
        known |= {f"pod {pod.uid}": (pod.node, pod.undecided) for pod in values(state.fabric_pods)}
        known |= {f"bare pod {pod.uid}": (pod.node, pod.ip, pod.ready) for pod in values(state.bare_pods)}
        known |= {f"cdc {clique}": cdcs for clique, cdcs in state.cdcs.items()}
        parts = {"itself": state.domain, "daemons": state.daemon_sets, "templates": state.templates}
        return known | {name: part for name, part in parts.items() if part}
    return {}


def observed(observer: Observer) -> dict[str, dict[str, Any]]:
    found = {key: observed_of(state) for key, state in observer.aggregates.items()}
    return {key: known for key, known in found.items() if known}


@given(st.integers(0, 2**32), st.integers(1, 150))
@settings(max_examples=150)
def test_the_log_ends_with_what_one_look_at_the_final_cluster_shows(seed: int, steps: int) -> None:
    scenario = Scenario(seed)
    scenario.observer.restart()
    scenario.run(steps)

    fresh = Observer(scenario.cluster, scenario.rng)
    fresh.restart()
    fresh.deliver_all()
    fresh.relist(names.COMPUTE_DOMAINS)
    fresh.deliver_all()
    assert observed(scenario.observer) == observed(fresh)


@given(st.integers(0, 2**32), st.integers(1, 150))
@example(31850213, 78)  # a pod that says no clique, on a node that moves
@settings(max_examples=100)
def test_a_restart_without_changes_records_nothing_but_its_lists(seed: int, steps: int) -> None:
    scenario = Scenario(seed)
    scenario.observer.restart()
    scenario.run(steps)
    scenario.observer.restart()
    scenario.observer.deliver_all()

    before = len(scenario.observer.log)
    scenario.observer.restart()
    scenario.observer.deliver_all()
    # A clique keeps nothing of a domain that is gone, so what is left of one is told to it again.
    gone = set(DOMAINS) - set(scenario.cluster.objects[names.COMPUTE_DOMAINS])
    again = [event for _, event in scenario.observer.log[before:] if not isinstance(event, MARKS)]
    assert [event for event in again if not is_proof(event) and getattr(event, "domain", "") not in gone] == []


def is_proof(event: AnyEvent) -> bool:
    """Say whether this is what each complete list proves again: a row that still has no daemon, a label no domain."""
    return (isinstance(event, DaemonPodGone) and not event.uid) or isinstance(event, DomainGone)

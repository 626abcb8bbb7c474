"""What the normaliser records, and under which keys, of what the reflectors tell."""

import random
from collections.abc import Sequence

import pytest

from controller.observing.normaliser import Keyed
from eventlog.events import (
    CdcGone,
    CdcSeen,
    ClaimTemplateGone,
    ClaimTemplateSeen,
    DaemonPodGone,
    DaemonPodSeen,
    DomainGone,
    DomainSeen,
    Mark,
    NodeGone,
    NodeSeen,
    RelistBegan,
    RelistCompleted,
    WatchGap,
)
from kube import names, objects, reflector
from kube.client import Resource, Selector
from projections.clique import CliqueState
from projections.domain import DomainState
from projections.fold import apply
from tests.controller import cluster as make
from tests.controller.cluster import Cluster, Observer

CLIQUE, OTHER = "c.0", "c.1"
ROW = objects.DaemonRow("n0", "10.0.0.1", CLIQUE, 0)


class Told(Observer):
    """A normaliser that is told things one by one; `told` has what was recorded since it was last asked."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        super().__init__(self.cluster, random.Random(0))
        self._asked = 0

    def cluster_is(self, *found: objects.KubeObject) -> None:
        """Let these objects be all that the next lists show."""
        self.cluster.version = 200
        for item in found:
            kind = {objects.Node: names.NODES, objects.ComputeDomain: names.COMPUTE_DOMAINS}[type(item)]
            self.cluster.put(kind, item)

    def see(self, kind: Resource, found: objects.KubeObject) -> list[Keyed]:
        self.handle(reflector.ObjectSeen(Selector(kind), found, listed=False))
        return self.recorded()

    def delete(self, kind: Resource, found: objects.KubeObject) -> list[Keyed]:
        self.handle(reflector.ObjectDeleted(Selector(kind), found))
        return self.recorded()

    def begin(self, kind: Resource) -> list[Keyed]:
        self.handle(reflector.RelistBegan(Selector(kind), "gap"))
        return self.recorded()

    def items(self, kind: Resource, *found: objects.KubeObject) -> list[Keyed]:
        """Tell the items of a list."""
        for item in found:
            self.handle(reflector.ObjectSeen(Selector(kind), item, listed=True))
        return self.recorded()

    def complete(self, kind: Resource, version: int) -> list[Keyed]:
        self.handle(reflector.RelistCompleted(Selector(kind), version, 0))
        return self.recorded()

    def recorded(self) -> list[Keyed]:
        new = self.log[self._asked :]
        self._asked = len(self.log)
        return [(key, event) for key, event in new if not isinstance(event, Mark)]

    def clique(self, key: str = CLIQUE) -> CliqueState:
        state = self.aggregates[key]
        assert isinstance(state, CliqueState)
        return state


def keys(events: Sequence[Keyed]) -> list[str]:
    return [key for key, _ in events]


def gone(events: Sequence[Keyed]) -> list[Keyed]:
    return [(key, event) for key, event in events if type(event).__name__.endswith("Gone")]


def node(version: int, clique: str | None = CLIQUE, domain: str = "d0", uid: str = "n0-1") -> objects.Node:
    return make.node("n0", uid, version, domain, clique)


def pod(version: int, clique: str | None = CLIQUE, ip: str = "", uid: str = "pod-1") -> objects.Pod:
    return make.pod(uid, version, "d0", "n0", clique, ip)


def test_an_observation_goes_to_its_clique_and_its_domain() -> None:
    told = Told()
    assert keys(told.see(names.NODES, node(101))) == [CLIQUE, "d0"]
    assert keys(told.see(names.PODS, pod(102))) == [CLIQUE, "d0"]
    assert keys(told.see(names.CDCS, make.cdc("cdc-1", 103, "d0", CLIQUE, [ROW]))) == [CLIQUE, "d0"]


def test_a_heartbeat_is_not_recorded() -> None:
    told = Told()
    told.see(names.NODES, node(101))
    told.see(names.PODS, pod(102, ip="10.0.0.1"))
    assert told.see(names.NODES, node(103)) == []
    assert told.see(names.PODS, pod(104, ip="10.0.0.1")) == []


def test_every_version_of_a_cdc_is_recorded_once() -> None:
    told = Told()
    assert len(told.see(names.CDCS, make.cdc("cdc-1", 101, "d0", CLIQUE, [ROW]))) == 2
    assert told.see(names.CDCS, make.cdc("cdc-1", 101, "d0", CLIQUE, [ROW])) == []
    assert len(told.see(names.CDCS, make.cdc("cdc-1", 102, "d0", CLIQUE, [ROW]))) == 2


def test_an_older_version_tells_nothing() -> None:
    told = Told()
    told.see(names.PODS, pod(105, ip="10.0.0.1"))
    told.live_read(pod(103))
    assert told.recorded() == []


def test_a_pod_without_a_clique_label_waits_for_its_nodes_clique() -> None:
    told = Told()
    assert told.see(names.PODS, pod(101, clique=None)) == [
        ("d0", DaemonPodSeen("d0", "n0", "driver", "pod-1", "pod-1", 101, undecided=True))
    ]
    events = told.see(names.NODES, node(102))
    assert (CLIQUE, DaemonPodSeen("d0", "n0", "driver", "pod-1", "pod-1", 101, CLIQUE)) in events
    assert gone(events) == []
    assert "pod-1" in told.clique().domains["d0"].pods


def test_a_pods_late_label_that_says_what_was_known_changes_nothing() -> None:
    told = Told()
    told.see(names.NODES, node(101))
    told.see(names.PODS, pod(102, clique=None))
    assert told.see(names.PODS, pod(103, clique=CLIQUE)) == []


def test_an_empty_clique_label_is_a_node_without_a_fabric() -> None:
    told = Told()
    events = told.see(names.PODS, pod(101, clique="", ip="10.0.0.1"))
    assert events == [
        ("d0", DaemonPodSeen("d0", "n0", "driver", "pod-1", "pod-1", 101, ip="10.0.0.1", ready=True)),
    ]


def test_a_clique_label_that_is_no_clique_id_says_nothing() -> None:
    told = Told()
    assert told.see(names.NODES, node(101, clique="d0")) == [("d0", NodeSeen("n0", "n0-1", 101, "", "d0"))]
    assert keys(told.see(names.PODS, pod(102, clique="rack-7"))) == ["d0"]
    assert told.see(names.CDCS, make.cdc("cdc-1", 103, "d0", "rack-7", [ROW])) == []
    assert keys(told.see(names.NODES, node(104, clique=CLIQUE))).count(CLIQUE) == 2


def test_a_node_without_a_label_gets_its_daemons_clique_and_keeps_it() -> None:
    told = Told()
    told.see(names.NODES, node(101, clique=None))
    assert (CLIQUE, NodeSeen("n0", "n0-1", 101, CLIQUE, "d0")) in told.see(names.PODS, pod(102))
    told.delete(names.PODS, pod(103))
    told.delete(names.NODES, node(104, clique=None))
    assert told.see(names.NODES, node(105, clique=None, domain="d1")) == [
        (CLIQUE, NodeSeen("n0", "n0-1", 105, CLIQUE, "d1")),
        ("d1", NodeSeen("n0", "n0-1", 105, CLIQUE, "d1")),
    ]


def test_what_a_daemon_says_of_the_clique_counts_more_than_the_nodes_label() -> None:
    told = Told()
    told.see(names.NODES, node(101, clique=OTHER))
    told.see(names.PODS, pod(102, clique=CLIQUE, uid="said"))
    told.see(names.PODS, pod(103, clique=None, uid="says-nothing"))
    assert set(told.clique(CLIQUE).domains["d0"].pods) == {"said", "says-nothing"}
    assert told.clique(CLIQUE).nodes["n0"].domain == "d0"
    assert told.clique(OTHER).nodes["n0"].domain == ""


def test_a_node_that_changes_its_domain_is_gone_from_the_old_one() -> None:
    told = Told()
    told.see(names.NODES, node(101, domain="d0"))
    assert told.see(names.NODES, node(102, domain="d1")) == [
        ("d0", NodeGone("n0", "n0-1", 102, "moved")),
        (CLIQUE, NodeSeen("n0", "n0-1", 102, CLIQUE, "d1")),
        ("d1", NodeSeen("n0", "n0-1", 102, CLIQUE, "d1")),
    ]


def test_a_clique_that_is_new_to_a_domain_is_told_of_the_domain() -> None:
    told = Told()
    told.see(names.COMPUTE_DOMAINS, make.domain("d0", 101))
    told.see(names.DAEMON_SETS, make.daemon_set("ds-1", 102, "d0"))
    events = told.see(names.NODES, node(103))
    assert {type(event).__name__ for key, event in events if key == CLIQUE} == {
        "DomainSeen",
        "DaemonSetSeen",
        "NodeSeen",
    }


def test_absence_is_a_deletion_only_at_the_end_of_a_complete_list() -> None:
    told = Told()
    told.see(names.PODS, pod(101))
    assert told.begin(names.PODS) == []
    assert told.items(names.PODS, pod(102, uid="pod-2")) != []
    events = told.complete(names.PODS, 110)
    assert [(key, event.uid, bool(event.inferred)) for key, event in events if isinstance(event, DaemonPodGone)] == [
        (CLIQUE, "pod-1", True),
        ("d0", "pod-1", True),
    ]


def test_a_list_that_did_not_complete_proves_nothing() -> None:
    told = Told()
    told.see(names.PODS, pod(101))
    told.begin(names.PODS)
    told.items(names.PODS, pod(102, uid="pod-2"))
    told.begin(names.PODS)
    told.items(names.PODS, pod(101))
    events = told.complete(names.PODS, 110)
    assert {event.uid for _, event in gone(events) if isinstance(event, DaemonPodGone)} == {"pod-2"}


def test_what_a_live_read_showed_after_the_list_is_not_absent_from_it() -> None:
    told = Told()
    told.begin(names.CDCS)
    told.live_read(make.cdc("cdc-1", 120, "d0", CLIQUE, [ROW]))
    told.recorded()
    assert told.complete(names.CDCS, 110) == []


def test_a_live_read_does_not_bring_back_what_is_gone() -> None:
    told = Told()
    found = make.cdc("cdc-1", 101, "d0", CLIQUE, [ROW])
    told.see(names.CDCS, found)
    told.delete(names.CDCS, make.cdc("cdc-1", 102, "d0", CLIQUE, [ROW]))
    told.live_read(found)
    never_told = make.cdc("cdc-2", 100, "d0", OTHER, [ROW])
    told.live_read(never_told)
    assert told.recorded() == []
    assert told.clique().domains["d0"].cdc is None
    assert OTHER not in told.aggregates


def test_a_live_read_of_a_node_is_recorded_for_its_version_alone() -> None:
    told = Told()
    told.see(names.NODES, node(101, domain="d1"))
    told.live_read(node(105, domain="d1"))
    recorded = told.recorded()
    assert {key for key, _ in recorded} == {CLIQUE, "d1"}
    assert {event.resource_version for _, event in recorded if isinstance(event, NodeSeen)} == {105}
    assert told.see(names.NODES, node(106, domain="d1")) == [], "a heartbeat in the watch is not"


def test_a_deletion_that_is_older_than_what_is_known_tells_nothing() -> None:
    told = Told()
    told.live_read(node(105, domain="d1"))
    told.recorded()
    assert told.delete(names.NODES, node(103)) == []


def test_a_cdc_that_was_deleted_and_created_anew_in_a_gap_stays() -> None:
    told = Told()
    told.see(names.CDCS, make.cdc("cdc-1", 101, "d0", CLIQUE, [ROW]))
    told.begin(names.CDCS)
    told.items(names.CDCS, make.cdc("cdc-2", 105, "d0", CLIQUE, [ROW]))
    told.complete(names.CDCS, 110)
    cdc = told.clique().domains["d0"].cdc
    assert cdc is not None
    assert (cdc.uid, list(cdc.rows)) == ("cdc-2", ["n0"])


def test_a_node_that_was_installed_anew_in_a_gap_stays() -> None:
    told = Told()
    told.see(names.NODES, node(101))
    told.begin(names.NODES)
    told.items(names.NODES, node(105, uid="n0-2"))
    told.complete(names.NODES, 110)
    assert told.clique().nodes["n0"].domain == "d0"


def test_a_row_that_was_there_before_the_list_of_pods_and_has_none_is_an_orphan() -> None:
    told = Told()
    told.see(names.CDCS, make.cdc("cdc-1", 101, "d0", CLIQUE, [ROW]))
    told.begin(names.PODS)
    events = told.complete(names.PODS, 110)
    assert [(key, event.node, event.uid) for key, event in events if isinstance(event, DaemonPodGone)] == [
        (CLIQUE, "n0", "")
    ]


def test_a_row_that_was_seen_after_the_list_began_is_not_an_orphan() -> None:
    told = Told()
    told.begin(names.PODS)
    told.see(names.CDCS, make.cdc("cdc-1", 101, "d0", CLIQUE, [ROW]))
    assert told.complete(names.PODS, 110) == []


def test_a_row_with_a_pod_is_not_an_orphan_though_the_pod_has_no_address_yet() -> None:
    told = Told()
    told.see(names.CDCS, make.cdc("cdc-1", 101, "d0", CLIQUE, [ROW]))
    told.begin(names.PODS)
    told.items(names.PODS, pod(102, clique=None))
    assert gone(told.complete(names.PODS, 110)) == []


@pytest.mark.parametrize(("address", "proved"), [("10.0.0.1", []), ("10.0.0.99", [(CLIQUE, "n0")])])
def test_a_row_whose_node_has_only_a_pod_of_another_address_is_an_orphan(
    address: str, proved: list[tuple[str, str]]
) -> None:
    told = Told()
    told.see(names.CDCS, make.cdc("cdc-1", 101, "d0", CLIQUE, [objects.DaemonRow("n0", "10.0.0.1", CLIQUE, 0)]))
    told.begin(names.PODS)
    told.items(names.PODS, pod(102, ip=address))
    events = told.complete(names.PODS, 110)
    assert [(key, event.node) for key, event in events if isinstance(event, DaemonPodGone)] == proved


def test_a_label_that_names_no_domain_is_told_once_a_list_of_domains_proves_it() -> None:
    told = Told()
    told.see(names.NODES, node(101))
    told.begin(names.COMPUTE_DOMAINS)
    late = make.node("n9", "n9-1", 102, "d9", OTHER)
    told.see(names.NODES, late)
    events = told.complete(names.COMPUTE_DOMAINS, 110)
    assert [(key, event.uid) for key, event in events if isinstance(event, DomainGone)] == [
        (CLIQUE, "d0"),
        ("d0", "d0"),
    ]


def test_after_a_restart_a_live_domain_is_not_gone_from_a_clique_that_nobody_is_in() -> None:
    told = Told()
    told.see(names.COMPUTE_DOMAINS, make.domain("d0", 101))
    told.see(names.NODES, node(102))
    told.delete(names.NODES, node(103))
    told.cluster_is(make.domain("d0", 101))
    told.restart()
    told.deliver_all()
    assert gone(told.recorded()) == []
    assert told.clique().domains["d0"].known


def test_a_deletion_that_nobody_saw_is_told_after_the_restart() -> None:
    told = Told()
    told.see(names.COMPUTE_DOMAINS, make.domain("d0", 101))
    told.see(names.NODES, node(102))
    told.see(names.PODS, pod(103, ip="10.0.0.1"))
    told.recorded()
    told.cluster_is(make.domain("d0", 101), node(104))
    told.restart()
    told.deliver_all()
    assert {(key, type(event)) for key, event in told.recorded()} == {(CLIQUE, DaemonPodGone), ("d0", DaemonPodGone)}


def test_a_template_that_is_one_domains_own_stays_its_own_when_it_is_in_anothers_way() -> None:
    told = Told()
    own = make.template("template-1", 101, "d0")
    told.see(names.CLAIM_TEMPLATES, own)
    name = own.metadata.name
    in_the_way = ClaimTemplateSeen("d1", "Workload", "template-1", 101, "driver", name, owned=False)
    assert told.normaliser.observe(in_the_way) == [("d1", in_the_way)]
    assert told.normaliser.observe(in_the_way) == []
    told.live_read(own)
    assert told.recorded() == []
    assert told.normaliser.taken_names() == [in_the_way]

    assert told.delete(names.CLAIM_TEMPLATES, make.template("template-1", 105, "d0")) == [
        ("d0", ClaimTemplateGone("d0", "Daemon", "template-1", 105))
    ]
    assert told.normaliser.name_is_free(in_the_way) == [("d1", ClaimTemplateGone("d1", "Workload", "template-1", 101))]
    assert told.normaliser.taken_names() == []


def test_a_list_of_templates_does_not_prove_that_one_in_a_domains_way_is_gone() -> None:
    told = Told()
    told.normaliser.observe(ClaimTemplateSeen("d1", "Workload", "foreign", 50, "team", "taken", owned=False))
    told.begin(names.CLAIM_TEMPLATES)
    assert told.complete(names.CLAIM_TEMPLATES, 110) == []


def test_marks_go_to_the_watch_they_are_about() -> None:
    told = Told()
    told.begin(names.PODS)
    told.complete(names.PODS, 110)
    told.handle(reflector.Gap(Selector(names.PODS), 110, "watch: too old"))
    assert told.log == [
        ("watch/pods", RelistBegan("pods", "gap")),
        ("watch/pods", RelistCompleted("pods", 110, 0)),
        ("watch/pods", WatchGap("pods", 110, "watch: too old")),
    ]


def test_what_is_known_shrinks_with_the_cluster() -> None:
    told = Told()
    for number in range(50):
        domain, version = f"job-{number}", 1000 + 10 * number
        told.see(names.COMPUTE_DOMAINS, make.domain(domain, version))
        told.see(names.NODES, node(version + 1, domain=domain))
        told.delete(names.COMPUTE_DOMAINS, make.domain(domain, version + 2))
        told.see(names.CDCS, make.cdc(f"cdc-{number}", version + 3, domain, CLIQUE, []))
        told.delete(names.CDCS, make.cdc(f"cdc-{number}", version + 4, domain, CLIQUE, []))
        told.delete(names.NODES, node(version + 5, domain=domain))
    catalogue = told.normaliser._catalogue
    assert not any(catalogue._tables.values())
    assert catalogue._of_domain == {}
    assert catalogue._on_node == {}
    assert told.normaliser._cliques_of == {}


def test_the_clique_is_told_no_more_of_a_domain_than_it_needs() -> None:
    told = Told()
    told.see(names.NODES, node(101))
    status = objects.ComputeDomainStatus("Ready", (objects.ComputeDomainNode("n0"),))
    found = objects.ComputeDomain(make.meta("d0", "d0", 102, {}, "team"), None, status)
    events = dict(told.see(names.COMPUTE_DOMAINS, found))
    in_clique, in_domain = events[CLIQUE], events["d0"]
    assert isinstance(in_clique, DomainSeen)
    assert isinstance(in_domain, DomainSeen)
    assert (in_clique.nodes, in_clique.status) == ((), "")
    assert (len(in_domain.nodes), in_domain.status) == (1, "Ready")


def test_the_domain_takes_in_a_clique_that_was_learnt_without_a_new_version() -> None:
    seen = NodeSeen("n0", "n0-1", 101, "", "d0")
    state = apply(apply(None, "d0", seen), "d0", NodeSeen("n0", "n0-1", 101, CLIQUE, "d0"))
    assert isinstance(state, DomainState)
    assert [one.clique for bucket in state.nodes.values() for one in bucket.values()] == [CLIQUE]


def test_a_pod_that_left_a_clique_and_came_back_at_one_version_has_no_tombstone() -> None:
    state = apply(None, CLIQUE, DaemonPodSeen("d0", "n0", "driver", "p", "p", 105, CLIQUE, "10.0.0.1"))
    state = apply(state, CLIQUE, DaemonPodGone("d0", "n0", "p", 105, "moved"))
    state = apply(state, CLIQUE, DaemonPodSeen("d0", "n0", "driver", "p", "p", 105, CLIQUE, "10.0.0.1"))
    assert isinstance(state, CliqueState)
    assert list(state.domains["d0"].pods) == ["p"]
    assert state.domains["d0"].tombstones == ()


def test_a_late_sighting_does_not_bring_a_deleted_pod_back() -> None:
    seen = DaemonPodSeen("d0", "n0", "driver", "p", "p", 105, CLIQUE, "10.0.0.1")
    state = apply(apply(None, CLIQUE, seen), CLIQUE, DaemonPodGone("d0", "n0", "p", 106))
    state = apply(state, CLIQUE, seen)
    assert isinstance(state, CliqueState)
    assert state.domains["d0"].pods == {}


def test_a_deletion_of_an_earlier_cdc_of_that_name_takes_nothing_away() -> None:
    seen = CdcSeen("d0", CLIQUE, "driver", f"d0.{CLIQUE}", "cdc-2", 105)
    state = apply(apply(None, CLIQUE, seen), CLIQUE, CdcGone("d0", CLIQUE, "cdc-1", 110))
    assert isinstance(state, CliqueState)
    assert state.domains["d0"].cdc is not None

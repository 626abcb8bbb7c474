"""What an object says of itself is believed only where it can be true."""

import pytest

from controller.observing import observations
from eventlog.events import CdcSeen, DaemonSetSeen, DomainSeen
from kube import names, objects
from tests.controller import cluster as make

UID, CLIQUE = "3f1c8a1e-6a64-4c3e-8f5b-0d6c1d1b7a90", "7b0a3c52-5d3e-4f0c-9c1e-3f1f6f5b2a11.32766"
DOMAIN_OF, CLIQUE_OF = names.DOMAIN_LABEL, names.CLIQUE_LABEL


def cdc(name: str, labels: dict[str, str]) -> objects.ComputeDomainClique:
    return objects.ComputeDomainClique(make.meta(name, "cdc-1", 5, labels, make.DRIVER))


@pytest.mark.parametrize("labels", [{}, {DOMAIN_OF: UID}, {CLIQUE_OF: CLIQUE}, {DOMAIN_OF: UID, CLIQUE_OF: CLIQUE}])
def test_a_cdc_is_of_the_domain_and_clique_of_its_name(labels: dict[str, str]) -> None:
    seen = observations.read(cdc(f"{UID}.{CLIQUE}", labels))
    assert isinstance(seen, CdcSeen)
    assert (seen.domain, seen.clique) == (UID, CLIQUE)


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("mine", {DOMAIN_OF: UID, CLIQUE_OF: CLIQUE}),
        (f"other.{CLIQUE}", {DOMAIN_OF: UID, CLIQUE_OF: CLIQUE}),
        (f"{UID}.fabric.1", {DOMAIN_OF: UID, CLIQUE_OF: CLIQUE}),
        (f"{UID}.{CLIQUE}", {DOMAIN_OF: "other"}),
        (f"{UID}.{CLIQUE}", {CLIQUE_OF: "fabric.1"}),
        (f"{UID}.{CLIQUE}", {DOMAIN_OF: ""}),
    ],
)
def test_a_cdc_whose_labels_and_name_disagree_is_not_taken_for_the_cliques(name: str, labels: dict[str, str]) -> None:
    assert observations.read(cdc(name, labels)) is None


@pytest.mark.parametrize(
    ("stated", "capacity"),
    [
        ("1", 1),
        ("18", 18),
        ("1000", 1000),
        *((absurd, 0) for absurd in ("", "0", "1001", "-1", "1e2", "18 ", "\u0661", "9" * 18, "9" * 10_000)),
    ],
)
def test_a_daemon_set_states_a_capacity_only_within_what_the_option_takes(stated: str, capacity: int) -> None:
    variable = objects.EnvVar(observations.CAPACITY_VARIABLE, stated)
    containers = (objects.Container("daemon", (variable,)),)
    template = objects.PodTemplate(spec=objects.PodTemplatePodSpec(containers))
    meta = make.meta("daemons", "ds-1", 5, {DOMAIN_OF: UID}, make.DRIVER)
    seen = observations.read(objects.DaemonSet(meta, objects.DaemonSetSpec(template)))
    assert isinstance(seen, DaemonSetSeen)
    assert seen.capacity == capacity


NO_UIDS = ("", ".", "fabric.1", "watch/nodes", "controller/a", "a\0b", "a" * 64)


@pytest.mark.parametrize("label", [UID, "a" * 63])
def test_whatever_carries_a_domains_uid_is_of_that_domain(label: str) -> None:
    for found in labelled(label):
        seen = observations.read(found)
        assert seen is not None
        assert not isinstance(seen, DomainSeen)
        assert seen.domain == label


@pytest.mark.parametrize("label", NO_UIDS)
def test_what_carries_a_label_that_is_no_uid_is_of_no_domain(label: str) -> None:
    assert [observations.read(found) for found in labelled(label)] == [None] * 5


def labelled(domain: str) -> list[objects.KubeObject]:
    return [
        make.node("n0", "node-1", 1, domain, CLIQUE),
        make.pod("pod-1", 2, domain, "n0", CLIQUE),
        make.daemon_set("ds-1", 3, domain),
        make.template("template-1", 4, domain),
        make.cdc("cdc-1", 5, domain, CLIQUE, []),
    ]

"""The structs check what is used, skip what is not known, and tell "unknown" from zero."""

import msgspec
import pytest

from kube import names
from kube.client import Resource
from kube.envelopes import ListPage, page_decoder
from kube.objects import ComputeDomain, ComputeDomainClique, DaemonSet, Pod, object_decoder, type_of

META = {"name": "a", "uid": "u", "resourceVersion": "7"}


def decode(kind: Resource, **fields: object) -> object:
    return object_decoder(kind).decode(msgspec.json.encode({"metadata": META, **fields}))


@pytest.mark.parametrize(
    ("phase", "ready", "expected"),
    [
        ("Running", "True", True),
        ("Running", "False", False),
        ("Running", "Unknown", False),
        ("Running", None, False),
        ("Pending", "True", False),
        ("Succeeded", "True", False),
    ],
)
def test_a_pod_is_ready_if_it_runs_and_its_ready_condition_is_true(
    phase: str, ready: str | None, *, expected: bool
) -> None:
    conditions = [{"type": "Initialized", "status": "True", "lastProbeTime": None}]
    conditions += [{"type": "Ready", "status": ready}] if ready else []
    pod = decode(names.PODS, spec={"nodeName": "n"}, status={"phase": phase, "podIP": "::1", "conditions": conditions})
    assert isinstance(pod, Pod)
    assert (pod.ready, pod.spec.node_name, pod.status.pod_ip) == (expected, "n", "::1")


def test_a_pod_that_was_just_created_has_neither_node_nor_address() -> None:
    pod = decode(names.PODS)
    assert isinstance(pod, Pod)
    assert (pod.spec.node_name, pod.status.pod_ip, pod.ready, pod.metadata.terminating) == ("", "", False, False)


def test_a_row_without_an_index_is_unknown_and_an_index_of_zero_is_zero() -> None:
    cdc = decode(names.CDCS, daemons=[{"nodeName": "old"}, {"nodeName": "new", "index": 0}])
    assert isinstance(cdc, ComputeDomainClique)
    assert [row.index for row in cdc.daemons] == [None, 0]
    assert b'"index":0' in msgspec.json.encode(cdc)


def test_a_domain_may_lack_its_spec_and_its_status() -> None:
    domain = decode(names.COMPUTE_DOMAINS)
    assert isinstance(domain, ComputeDomain)
    assert (domain.spec, domain.status.status, domain.status.nodes) == (None, "", ())


def test_a_daemon_set_tells_the_environment_and_labels_of_its_pods() -> None:
    container = {"name": "d", "env": [{"name": "MAX", "value": "18"}, {"name": "IP", "valueFrom": {"fieldRef": {}}}]}
    template = {"metadata": {"labels": {"a": "b"}, "creationTimestamp": None}, "spec": {"containers": [container]}}
    daemon_set = decode(names.DAEMON_SETS, spec={"selector": {}, "template": template})
    assert isinstance(daemon_set, DaemonSet)
    assert [(each.name, each.value) for each in daemon_set.spec.template.spec.containers[0].env] == [
        ("MAX", "18"),
        ("IP", ""),
    ]
    assert daemon_set.spec.template.metadata.labels == {"a": "b"}


def test_resource_versions_compare_as_numbers() -> None:
    older, newer = (
        object_decoder(names.NODES).decode(msgspec.json.encode({"metadata": {**META, "resourceVersion": version}}))
        for version in ("99", "8999999999999999999")
    )
    assert older.metadata.resource_version < newer.metadata.resource_version
    assert msgspec.msgpack.encode(newer.metadata.resource_version), "a snapshot can keep it"


@pytest.mark.parametrize("version", ["", "x", "-1", "1.5", "7\n", "1" * 40, "9" * 19, str(2**63), 7, None])
def test_a_resource_version_that_is_no_number_of_63_bits_is_refused(version: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        object_decoder(names.NODES).decode(msgspec.json.encode({"metadata": {**META, "resourceVersion": version}}))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (names.CDCS, {"daemons": [{"nodeName": 1}]}),
        (names.CDCS, {"daemons": [{"nodeName": "n", "index": "1"}]}),
        (names.CDCS, {"daemons": [{"index": 1}]}),
        (names.PODS, {"status": {"podIP": 5}}),
        (names.PODS, {"metadata": {"name": "a"}}),
        (names.COMPUTE_DOMAINS, {"spec": {"numNodes": "2"}}),
    ],
)
def test_a_field_that_is_used_and_has_another_type_is_refused(kind: Resource, fields: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$"):
        object_decoder(kind).decode(msgspec.json.encode({"metadata": META, **fields}))


def test_a_page_says_whether_it_is_the_last() -> None:
    body = {"metadata": {"resourceVersion": "9", "continue": "more", "remainingItemCount": 4}, "items": []}
    page = page_decoder(names.PODS).decode(msgspec.json.encode(body))
    assert isinstance(page, ListPage)
    assert (page.metadata.token, page.metadata.resource_version) == ("more", 9)


def test_a_kind_without_a_struct_is_refused_at_the_start() -> None:
    with pytest.raises(KeyError):
        type_of(names.EVENTS)

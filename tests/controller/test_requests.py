"""What is sent for each effect: bodies, preconditions, places in the log."""

import json
from typing import Any

import msgspec
import pytest

from controller.writing.requests import Renderer, Request
from eventlog.events import Condition, DomainNode, Row
from kube.names import CDCS, CLAIM_TEMPLATES, COMPUTE_DOMAINS, DAEMON_SETS, EVENTS, NODES
from projections.effects import (
    AnyEffect,
    CreateClaimTemplate,
    CreateDaemonSet,
    DeleteObject,
    OwnerRef,
    PostEvent,
    SetFinalizers,
    Target,
    UnlabelNode,
    WriteCdc,
    WriteStatus,
)

NOW_MS = 1_796_040_000_123
NOW = "2026-11-30T12:00:00Z"
CDC = Target("computedomaincliques", "driver", "cd-uid.fabric.1")
DOMAIN = Target("computedomains", "team", "train")


def manifest(effect: CreateDaemonSet | CreateClaimTemplate) -> dict[str, Any]:
    return {"kind": "made", "metadata": {"name": effect.target.name, "annotations": {"kept": "yes"}}}


def render(effect: AnyEffect) -> Request:
    return Renderer("cliquelog-0-abc", manifest)(effect, "3/17", NOW_MS)


def body(effect: AnyEffect) -> Any:  # noqa: ANN401
    return json.loads(render(effect).body)


def test_a_new_cdc_carries_its_labels_its_owner_and_its_place_in_the_log() -> None:
    effect = WriteCdc(
        CDC,
        "cd-uid",
        0,
        "fabric.1",
        "",
        (Row("n0", "10.0.0.1", 0, "Ready"),),
        (),
        OwnerRef("DaemonSet", "ds", "ds-uid"),
    )
    request = render(effect)
    assert (request.method, request.resource, request.namespace) == ("create", CDCS, "driver")
    assert json.loads(request.body) == {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomainClique",
        "metadata": {
            "name": "cd-uid.fabric.1",
            "namespace": "driver",
            "labels": {
                "resource.nvidia.com/computeDomain": "cd-uid",
                "resource.nvidia.com/computeDomain.cliqueID": "fabric.1",
            },
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds", "uid": "ds-uid"}],
            "annotations": {"cliquelog.dev/position": "3/17"},
        },
        "daemons": [{"nodeName": "n0", "ipAddress": "10.0.0.1", "cliqueID": "fabric.1", "index": 0, "status": "Ready"}],
    }


def test_a_cdc_patch_states_the_version_that_it_was_computed_from_and_replaces_all_rows() -> None:
    effect = WriteCdc(CDC, "cd-uid", 42, "fabric.1", "uid", (Row("n0", "", 0), Row("n1", "10.0.0.2", 5, "Ready")))
    request = render(effect)
    assert (request.method, request.kind, request.subresource, request.name) == ("patch", "merge", "", CDC.name)
    assert json.loads(request.body) == {
        "metadata": {
            "resourceVersion": "42",
            "annotations": {"cliquelog.dev/position": "3/17", "cliquelog.dev/waiting": None},
        },
        "daemons": [
            {"nodeName": "n0", "ipAddress": "", "cliqueID": "fabric.1", "index": 0, "status": "NotReady"},
            {"nodeName": "n1", "ipAddress": "10.0.0.2", "cliqueID": "fabric.1", "index": 5, "status": "Ready"},
        ],
    }


def test_who_waits_for_a_slot_is_named_in_line() -> None:
    patch = body(WriteCdc(CDC, "cd-uid", 42, "fabric.1", "uid", (), ("n18", "n19")))
    assert patch["metadata"]["annotations"]["cliquelog.dev/waiting"] == "n18,n19"
    created = body(WriteCdc(CDC, "cd-uid", 0, "fabric.1", "", (), ("n18",)))
    assert created["metadata"]["annotations"]["cliquelog.dev/waiting"] == "n18"


@pytest.mark.parametrize("status", ["", "Unknown", "ready"])
def test_a_status_is_never_outside_the_enum(status: str) -> None:
    assert body(WriteCdc(CDC, "cd", 1, "c.1", "uid", (Row("n", "", 0, status),)))["daemons"][0]["status"] == "NotReady"
    patch = body(WriteStatus(DOMAIN, "cd", 1, "cd", status, (DomainNode("n", status=status),)))
    assert patch["status"]["status"] == "NotReady"
    assert patch["status"]["nodes"][0]["status"] == "NotReady"


def test_an_index_that_its_writer_left_out_is_not_written_as_zero() -> None:
    assert "index" not in body(WriteCdc(CDC, "cd", 1, "c.1", "uid", (Row("n", "10.0.0.1"),)))["daemons"][0]


def test_an_owner_of_an_unknown_kind_is_an_error_that_says_so() -> None:
    with pytest.raises(ValueError, match="'Gadget'"):
        render(WriteCdc(CDC, "cd", 0, "c.1", "", (), (), OwnerRef("Gadget", "g", "u")))


def test_a_status_goes_to_the_subresource_and_keeps_the_time_of_conditions_that_did_not_change() -> None:
    effect = WriteStatus(
        DOMAIN,
        "cd-uid",
        9,
        "cd-uid",
        "Ready",
        (DomainNode("n0", "10.0.0.1", "", -1, "Ready"),),
        (Condition("CliqueFull", "True", "NoSlot", "n18 waits"), Condition("NameTaken", "False", "Free")),
        since=(("CliqueFull", "2026-01-01T00:00:00Z"),),
    )
    request = render(effect)
    assert (request.resource, request.kind, request.subresource) == (COMPUTE_DOMAINS, "merge", "status")
    assert json.loads(request.body) == {
        "metadata": {"resourceVersion": "9"},
        "status": {
            "status": "Ready",
            "nodes": [{"name": "n0", "ipAddress": "10.0.0.1", "cliqueID": "", "index": -1, "status": "Ready"}],
            "conditions": [
                {
                    "type": "CliqueFull",
                    "status": "True",
                    "reason": "NoSlot",
                    "message": "n18 waits",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                },
                {
                    "type": "NameTaken",
                    "status": "False",
                    "reason": "Free",
                    "message": "",
                    "lastTransitionTime": NOW,
                },
            ],
        },
    }


def test_finalizers_are_replaced_under_the_version_that_they_were_seen_at() -> None:
    request = render(SetFinalizers(DOMAIN, "cd-uid", 9, "cd-uid", ("a/b", "c/d")))
    assert (request.method, request.resource, request.kind, request.subresource) == (
        "patch",
        COMPUTE_DOMAINS,
        "merge",
        "",
    )
    assert json.loads(request.body) == {
        "metadata": {
            "resourceVersion": "9",
            "finalizers": ["a/b", "c/d"],
            "annotations": {"cliquelog.dev/position": "3/17"},
        }
    }


def test_a_node_loses_the_label_only_if_it_is_that_node_and_that_domain() -> None:
    request = render(UnlabelNode(Target("nodes", "", "n0"), "cd-uid", 77, "node-uid"))
    assert (request.method, request.resource, request.namespace, request.kind) == ("patch", NODES, "", "json")
    label = "/metadata/labels/resource.nvidia.com~1computeDomain"
    assert json.loads(request.body) == [
        {"op": "test", "path": "/metadata/uid", "value": "node-uid"},
        {"op": "test", "path": label, "value": "cd-uid"},
        {"op": "remove", "path": label},
    ]


def test_a_deletion_names_the_uid() -> None:
    request = render(DeleteObject(Target("daemonsets", "driver", "ds"), "cd-uid", 9, "ds-uid"))
    assert request == Request("delete", DAEMON_SETS, "driver", "ds", uid="ds-uid")


def test_bodies_made_elsewhere_get_the_place_in_the_log_and_keep_their_annotations() -> None:
    request = render(CreateDaemonSet(Target("daemonsets", "driver", "ds"), "cd-uid", 0))
    assert (request.method, request.resource, request.namespace) == ("create", DAEMON_SETS, "driver")
    annotations = {"kept": "yes", "cliquelog.dev/position": "3/17"}
    assert json.loads(request.body) == {"kind": "made", "metadata": {"name": "ds", "annotations": annotations}}
    template = render(CreateClaimTemplate(Target("resourceclaimtemplates", "team", "t"), "cd-uid", 0, "Workload"))
    assert (template.method, template.resource, template.namespace) == ("create", CLAIM_TEMPLATES, "team")


def test_an_event_regards_the_compute_domain_and_fits_the_api_servers_bounds() -> None:
    effect = PostEvent(Target("events", "team", "train.full"), "cd-uid", 0, "train", "CliqueFull", "x" * 5000)
    request = render(effect)
    assert (request.method, request.resource, request.namespace) == ("create", EVENTS, "team")
    event = json.loads(request.body)
    assert event["involvedObject"] == {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "namespace": "team",
        "name": "train",
        "uid": "cd-uid",
    }
    assert (event["type"], event["reason"], len(event["message"])) == ("Warning", "CliqueFull", 1024)
    assert event["reportingComponent"] == "cliquelog.dev/controller"
    assert event["reportingInstance"] == "cliquelog-0-abc"
    assert event["firstTimestamp"] == event["lastTimestamp"] == NOW


def test_rendering_the_same_effect_twice_gives_the_same_bytes() -> None:
    effect = WriteCdc(CDC, "cd-uid", 42, "fabric.1", "uid", (Row("n0", "10.0.0.1", 0),))
    assert render(effect) == render(msgspec.structs.replace(effect))

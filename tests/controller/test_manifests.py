from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from kubernetes_asyncio.client import ApiClient

from controller.writing.manifests import DaemonDeployment, daemon_claim_template, daemon_set, workload_claim_template
from kube import names
from projections.owned import child_name
from projections.settings import Settings

UID = "7f2c1f86-6f0b-4b5c-9a55-0d0f3a6c1e11"
DEPLOYMENT = DaemonDeployment("driver", "daemon:1", capacity=18, verbosity=4)


def parsed(body: dict[str, object]) -> dict[str, Any]:
    """The body as the API server reads it."""
    return msgspec.json.decode(msgspec.json.encode(body))


def pod_of(deployment: DaemonDeployment) -> dict[str, Any]:
    template: dict[str, Any] = parsed(daemon_set(deployment, UID))["spec"]["template"]
    return template


def environment_of(deployment: DaemonDeployment) -> dict[str, Any]:
    [container] = pod_of(deployment)["spec"]["containers"]
    return {variable["name"]: variable for variable in container["env"]}


def test_the_daemon_set_is_found_by_name_label_and_finalizer() -> None:
    body = parsed(daemon_set(DEPLOYMENT, UID))
    assert (body["apiVersion"], body["kind"]) == ("apps/v1", "DaemonSet")
    assert body["metadata"] == {
        "name": f"computedomain-daemon-{UID}",
        "namespace": "driver",
        "labels": {"resource.nvidia.com/computeDomain": UID},
        "finalizers": ["resource.nvidia.com/computeDomain"],
    }
    assert set(body["spec"]) == {"selector", "template"}


def test_the_selector_matches_the_pods_whether_they_are_readers_or_not() -> None:
    for reader in (False, True):
        body = parsed(daemon_set(msgspec.structs.replace(DEPLOYMENT, reader=reader), UID))
        selector = body["spec"]["selector"]["matchLabels"]
        labels = body["spec"]["template"]["metadata"]["labels"]
        assert selector == {"resource.nvidia.com/computeDomain": UID}
        assert selector.items() <= labels.items()
        assert labels.get("cliquelog.dev/daemon") == ("reader" if reader else None)
        # The clique label is the pod's own to set, once it knows its clique.
        assert names.CLIQUE_LABEL not in labels


def test_daemons_run_on_the_domains_nodes_only_and_whatever_their_taints() -> None:
    spec = pod_of(DEPLOYMENT)["spec"]
    assert spec["nodeSelector"] == {"resource.nvidia.com/computeDomain": UID}
    assert sorted(toleration["effect"] for toleration in spec["tolerations"]) == [
        "NoExecute",
        "NoSchedule",
        "PreferNoSchedule",
    ]
    assert all(set(toleration) == {"operator", "effect"} for toleration in spec["tolerations"])
    assert {toleration["operator"] for toleration in spec["tolerations"]} == {"Exists"}


def test_a_daemon_pod_has_the_claim_and_nothing_that_the_device_brings() -> None:
    spec = pod_of(DEPLOYMENT)["spec"]
    assert spec["serviceAccountName"] == "compute-domain-daemon-service-account"
    [claim] = spec["resourceClaims"]
    template = parsed(daemon_claim_template("driver", UID))
    assert claim == {"name": "compute-domain-daemon", "resourceClaimTemplateName": template["metadata"]["name"]}
    [container] = spec["containers"]
    assert container["name"] == "compute-domain-daemon"
    assert container["image"] == "daemon:1"
    assert container["command"] == ["compute-domain-daemon", "-v", "$(LOG_VERBOSITY)", "run"]
    assert container["resources"] == {"claims": [{"name": claim["name"]}]}
    assert set(spec) == {"serviceAccountName", "nodeSelector", "tolerations", "resourceClaims", "containers"}
    assert {"volumeMounts", "securityContext", "ports"}.isdisjoint(container)


def test_the_environment_states_the_settings_and_the_pods_own_facts() -> None:
    deployment = msgspec.structs.replace(
        DEPLOYMENT, capacity=36, verbosity=6, feature_gates={"IMEXDaemonsWithDNSNames": True, "AllAlpha": False}
    )
    environment = environment_of(deployment)
    values = {name: variable["value"] for name, variable in environment.items() if "value" in variable}
    assert values == {
        "LOG_VERBOSITY": "6",
        "MAX_NODES_PER_IMEX_DOMAIN": "36",
        "NVIDIA_VISIBLE_DEVICES": "void",
        "FEATURE_GATES": "AllAlpha=false,IMEXDaemonsWithDNSNames=true,",
    }
    paths = {
        name: variable["valueFrom"]["fieldRef"]["fieldPath"]
        for name, variable in environment.items()
        if "valueFrom" in variable
    }
    assert paths == {
        "NODE_NAME": "spec.nodeName",
        "POD_IP": "status.podIP",
        "POD_UID": "metadata.uid",
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
    }


def test_the_verbosity_is_defined_before_the_command_refers_to_it() -> None:
    [container] = pod_of(DEPLOYMENT)["spec"]["containers"]
    assert container["env"][0]["name"] == "LOG_VERBOSITY"


def test_all_three_probes_ask_the_daemons_check() -> None:
    [container] = pod_of(DEPLOYMENT)["spec"]["containers"]
    numbers = {}
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = container[kind]
        assert probe["exec"]["command"] == ["compute-domain-daemon", "-v", "$(LOG_VERBOSITY)", "check"]
        assert (probe["timeoutSeconds"], probe["successThreshold"], probe["initialDelaySeconds"]) == (10, 1, 0)
        numbers[kind] = (probe["periodSeconds"], probe["failureThreshold"])
    assert numbers == {"startupProbe": (1, 1200), "livenessProbe": (60, 20), "readinessProbe": (10, 1)}


def test_pull_secrets_and_priority_are_stated_only_if_configured() -> None:
    deployment = msgspec.structs.replace(DEPLOYMENT, pull_secrets=("one", "two"), priority_class="daemons-first")
    spec = pod_of(deployment)["spec"]
    assert spec["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    assert spec["priorityClassName"] == "daemons-first"
    assert {"imagePullSecrets", "priorityClassName"}.isdisjoint(pod_of(DEPLOYMENT)["spec"])


def test_the_daemon_claim_template_asks_for_the_nodes_daemon_device() -> None:
    assert parsed(daemon_claim_template("driver", UID)) == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "name": f"computedomain-daemon-{UID}",
            "namespace": "driver",
            "labels": {
                "resource.nvidia.com/computeDomain": UID,
                "resource.nvidia.com/computeDomainTarget": "Daemon",
            },
            "finalizers": ["resource.nvidia.com/computeDomain"],
        },
        "spec": {
            "spec": {
                "devices": {
                    "requests": [
                        {"name": "daemon", "exactly": {"deviceClassName": "compute-domain-daemon.nvidia.com"}}
                    ],
                    "config": [
                        {
                            "requests": ["daemon"],
                            "opaque": {
                                "driver": "compute-domain.nvidia.com",
                                "parameters": {
                                    "apiVersion": "resource.nvidia.com/v1beta1",
                                    "kind": "ComputeDomainDaemonConfig",
                                    "domainID": UID,
                                },
                            },
                        }
                    ],
                }
            }
        },
    }


def test_the_workload_claim_template_asks_for_a_channel_in_the_domains_mode() -> None:
    body = parsed(workload_claim_template("team", "train-channel", UID, "All"))
    metadata, devices = body["metadata"], body["spec"]["spec"]["devices"]
    assert (metadata["namespace"], metadata["name"]) == ("team", "train-channel")
    assert metadata["labels"][names.TARGET_LABEL] == "Workload"
    assert metadata["finalizers"] == [names.FINALIZER]
    assert devices["requests"] == [
        {"name": "channel", "exactly": {"deviceClassName": "compute-domain-default-channel.nvidia.com"}}
    ]
    [config] = devices["config"]
    assert config["requests"] == ["channel"]
    assert config["opaque"]["driver"] == "compute-domain.nvidia.com"
    assert config["opaque"]["parameters"] == {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomainChannelConfig",
        "domainID": UID,
        "allocationMode": "All",
    }


def test_the_projections_use_the_same_names_as_the_manifests() -> None:
    assert parsed(daemon_set(DEPLOYMENT, UID))["metadata"]["name"] == child_name(UID)
    assert Settings("driver").finalizer == names.FINALIZER


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (
            "V1DaemonSet",
            daemon_set(msgspec.structs.replace(DEPLOYMENT, pull_secrets=("s",), priority_class="p", reader=True), UID),
        ),
        ("V1ResourceClaimTemplate", daemon_claim_template("driver", UID)),
        ("V1ResourceClaimTemplate", workload_claim_template("team", "train-channel", UID, "Single")),
    ],
)
async def test_every_field_is_one_that_the_api_knows(kind: str, body: dict[str, object]) -> None:
    """The client library's models are generated from the official schema: reading drops what it does not know."""
    async with ApiClient() as api:
        known = api.deserialize(SimpleNamespace(data=msgspec.json.encode(body)), kind)
        assert api.sanitize_for_serialization(known) == parsed(body)

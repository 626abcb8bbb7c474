"""Bodies of the objects that are made for a ComputeDomain: its DaemonSet and its two claim templates.

They are upstream's, field by field, because its kubelet plugin, its daemons and an upgrade in either direction rely on
names, labels, claims and environment. The few additions are ours by name: the reader label, and a priority class if
one is configured. Source: kubernetes-sigs/dra-driver-nvidia-gpu, main of August 2026.
"""

from collections.abc import Mapping

import msgspec

from kube.names import (
    CHANNEL_DEVICE_CLASS,
    CLAIM_TEMPLATES,
    DAEMON_DEVICE_CLASS,
    DAEMON_PREFIX,
    DAEMON_SERVICE_ACCOUNT,
    DAEMON_SETS,
    DOMAIN_LABEL,
    DRIVER,
    FINALIZER,
    GROUP,
    READER_LABEL,
    TARGET_LABEL,
)

Body = dict[str, object]

_CLAIM = "compute-domain-daemon"
"""The claim's name in the daemon's pod, also the container's name and its command."""
_COMMAND = (_CLAIM, "-v", "$(LOG_VERBOSITY)")


class DaemonDeployment(msgspec.Struct, frozen=True):
    """How the daemons of this installation are run.

    `namespace` is the driver's. `image` holds `compute-domain-daemon`; `pull_secrets` names the secrets to pull it
    with. `verbosity` is the daemon's log verbosity (upstream's `-v`). `capacity` is the most daemons of one clique.
    `feature_gates` are all known gates with their values. `priority_class` is the pods' PriorityClass, none if empty:
    without one, daemons compete with the training pods that wait for them (upstream #1107: 20 s from label to
    scheduled). `reader` says that the image is our daemon, which reads its row and never writes one.
    """

    namespace: str
    image: str
    capacity: int
    verbosity: int
    pull_secrets: tuple[str, ...] = ()
    feature_gates: Mapping[str, bool] = {}
    priority_class: str = ""
    reader: bool = False


def daemon_set(deployment: DaemonDeployment, uid: str) -> Body:
    """Give the DaemonSet of the ComputeDomain with this UID.

    Its pods run where the kubelet plugin put the domain's label on the node, whatever the node's taints. Each has the
    daemon claim; the device behind it brings the mounts and the clique's environment, so the pod states neither.
    """
    labels = {DOMAIN_LABEL: uid}
    pod_labels = labels | ({READER_LABEL: "reader"} if deployment.reader else {})
    return {
        "apiVersion": DAEMON_SETS.api_version,
        "kind": DAEMON_SETS.kind,
        "metadata": {
            "name": f"{DAEMON_PREFIX}{uid}",
            "namespace": deployment.namespace,
            "labels": labels,
            "finalizers": [FINALIZER],
        },
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": pod_labels}, "spec": _pod_spec(deployment, uid)},
        },
    }


def daemon_claim_template(namespace: str, uid: str) -> Body:
    """Give the claim template of the domain's daemons; `namespace` is the DaemonSet's."""
    config = {"kind": "ComputeDomainDaemonConfig", "domainID": uid}
    name = f"{DAEMON_PREFIX}{uid}"
    return _claim_template(namespace, name, uid, "Daemon", ("daemon", DAEMON_DEVICE_CLASS, config))


def workload_claim_template(namespace: str, name: str, uid: str, mode: str) -> Body:
    """Give the claim template that the domain's workloads refer to; `mode` is `Single` or `All`."""
    config = {"kind": "ComputeDomainChannelConfig", "domainID": uid, "allocationMode": mode}
    return _claim_template(namespace, name, uid, "Workload", ("channel", CHANNEL_DEVICE_CLASS, config))


def _pod_spec(deployment: DaemonDeployment, uid: str) -> Body:
    effects = ("NoSchedule", "NoExecute", "PreferNoSchedule")
    spec: Body = {
        "serviceAccountName": DAEMON_SERVICE_ACCOUNT,
        "nodeSelector": {DOMAIN_LABEL: uid},
        "tolerations": [{"operator": "Exists", "effect": effect} for effect in effects],
        "resourceClaims": [{"name": _CLAIM, "resourceClaimTemplateName": f"{DAEMON_PREFIX}{uid}"}],
        "containers": [_container(deployment)],
    }
    if deployment.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in deployment.pull_secrets]
    if deployment.priority_class:
        spec["priorityClassName"] = deployment.priority_class
    return spec


def _container(deployment: DaemonDeployment) -> Body:
    return {
        "name": _CLAIM,
        "image": deployment.image,
        "command": [*_COMMAND, "run"],
        "env": _environment(deployment),
        "resources": {"claims": [{"name": _CLAIM}]},
        "startupProbe": _probe(period=1, failures=1200),
        "livenessProbe": _probe(period=60, failures=20),
        "readinessProbe": _probe(period=10, failures=1),
    }


def _environment(deployment: DaemonDeployment) -> list[Body]:
    gates = "".join(f"{name}={str(on).lower()}," for name, on in sorted(deployment.feature_gates.items()))
    stated = {
        "LOG_VERBOSITY": str(deployment.verbosity),
        "MAX_NODES_PER_IMEX_DOMAIN": str(deployment.capacity),
        "NVIDIA_VISIBLE_DEVICES": "void",
        "FEATURE_GATES": gates,
    }
    from_pod = {
        "NODE_NAME": "spec.nodeName",
        "POD_IP": "status.podIP",
        "POD_UID": "metadata.uid",
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
    }
    variables: list[Body] = [{"name": name, "value": value} for name, value in stated.items()]
    variables += [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in from_pod.items()]
    return variables


def _probe(*, period: int, failures: int) -> Body:
    """Give a probe that asks the daemon's own `check`. Liveness is as patient as start-up: 20 minutes."""
    return {
        "exec": {"command": [*_COMMAND, "check"]},
        "initialDelaySeconds": 0,
        "periodSeconds": period,
        "timeoutSeconds": 10,
        "failureThreshold": failures,
        "successThreshold": 1,
    }


def _claim_template(namespace: str, name: str, uid: str, target: str, asked: tuple[str, str, dict[str, str]]) -> Body:
    request, device_class, config = asked
    parameters = {"apiVersion": f"{GROUP}/v1beta1", **config}
    return {
        "apiVersion": CLAIM_TEMPLATES.api_version,
        "kind": CLAIM_TEMPLATES.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {DOMAIN_LABEL: uid, TARGET_LABEL: target},
            "finalizers": [FINALIZER],
        },
        "spec": {
            "spec": {
                "devices": {
                    "requests": [{"name": request, "exactly": {"deviceClassName": device_class}}],
                    "config": [{"requests": [request], "opaque": {"driver": DRIVER, "parameters": parameters}}],
                }
            }
        },
    }

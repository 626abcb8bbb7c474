"""What a kubelet and its plugin write to the API server, as plain objects."""

import dataclasses
import datetime
from collections.abc import Mapping

from kube.names import DRIVER, NODE_CLIQUE_LABEL
from tests.integration.api import Object


@dataclasses.dataclass(frozen=True)
class NodeSpec:
    """A machine.

    `clique` is what its daemon finds out: `<clusterUUID>.<cliqueNumber>`, or "" without a fabric. `clique_on_node`
    tells whether the Node carries it as a label beforehand, which not every cluster does.
    """

    name: str
    clique: str = ""
    clique_on_node: bool = True
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)


def now() -> str:
    """Give the time as the API writes a MicroTime."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def node(spec: NodeSpec) -> Object:
    """Give the Node as the kubelet registers it."""
    labels = {"kubernetes.io/hostname": spec.name, "kubernetes.io/os": "linux", **spec.labels}
    if spec.clique_on_node:
        labels[NODE_CLIQUE_LABEL] = spec.clique
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": spec.name, "labels": labels}}


def node_status(spec: NodeSpec) -> Object:
    """Give the part of the Node's status that lets pods be scheduled there."""
    resources = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "",
        "lastHeartbeatTime": now()[:19] + "Z",
        "lastTransitionTime": now()[:19] + "Z",
    }
    status = {
        "capacity": resources,
        "allocatable": resources,
        "conditions": [ready],
        "addresses": [{"type": "Hostname", "address": spec.name}],
    }
    return {"status": status}


def lease(spec: NodeSpec, node_uid: str) -> Object:
    """Give the kubelet's heartbeat; the Node owns it, so they go together."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": spec.name,
            "namespace": "kube-node-lease",
            "ownerReferences": [_owner(spec, node_uid)],
        },
        "spec": {"holderIdentity": spec.name, "leaseDurationSeconds": 40, "renewTime": now()},
    }


def resource_slice(spec: NodeSpec, node_uid: str) -> Object:
    """Give the devices that the kubelet plugin publishes; the Node owns the slice, too."""
    devices = [
        {"name": f"{kind}-0", "attributes": {"type": {"string": kind}, "id": {"int": 0}}}
        for kind in ("daemon", "channel")
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{spec.name}-{DRIVER}", "ownerReferences": [_owner(spec, node_uid)]},
        "spec": {
            "driver": DRIVER,
            "nodeName": spec.name,
            "pool": {"name": spec.name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def _owner(spec: NodeSpec, node_uid: str) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "name": spec.name, "uid": node_uid}


def running(pod: Object, address: str) -> Object:
    """Give the patch for a pod whose containers have started."""
    started = [
        {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0, "ready": False,
         "started": True, "state": {"running": {"startedAt": now()[:19] + "Z"}}}
        for container in pod["spec"]["containers"]
    ]  # fmt: skip
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "containerStatuses": started}
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {**status, "conditions": [_ready(ready=False)]}}


def readiness(pod: Object, *, ready: bool) -> Object:
    """Give the patch that makes a pod Ready or not."""
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [_ready(ready=ready)]}}


def is_ready(pod: Object) -> bool:
    """Tell whether the pod's Ready condition is True."""
    conditions = pod.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _ready(*, ready: bool) -> Object:
    return {"type": "Ready", "status": str(ready), "lastTransitionTime": now()[:19] + "Z"}

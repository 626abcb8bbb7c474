"""A test's own part of a shared control plane.

A control plane takes seconds to start, so tests share one. What they must not share is what a controller sees: it
watches ComputeDomains and nodes of the whole cluster. Hence a sandbox has its own namespaces and node names, and takes
its ComputeDomains and nodes away at the end.
"""

import json
from pathlib import Path

from kube.names import COMPUTE_DOMAINS, DOMAIN_LABEL
from tests.integration import manifests
from tests.integration.controlplane.cluster import ControlPlane
from tests.integration.node_objects import NodeSpec

SANDBOX_LABEL = "cliquelog.dev/sandbox"
DRIVER_API = f"/apis/{COMPUTE_DOMAINS.api_version}"
FINALIZED = (
    (DRIVER_API, "computedomains"),
    ("/apis/apps/v1", "daemonsets"),
    ("/apis/resource.k8s.io/v1", "resourceclaimtemplates"),
)
NO_FINALIZERS = json.dumps({"metadata": {"finalizers": None}})


class Sandbox:
    """Namespaces `<name>-driver` and `<name>-jobs`, the controller's service account and roles, and node names."""

    def __init__(self, plane: ControlPlane, name: str) -> None:
        self.plane = plane
        self.name = name
        self.driver_namespace = f"{name}-driver"
        self.jobs_namespace = f"{name}-jobs"
        self._nodes_so_far = 0

    def set_up(self) -> None:
        """Make the namespaces, and the controller's service account with exactly the roles of deploy/."""
        for namespace in (self.driver_namespace, self.jobs_namespace):
            self.plane.kubectl("create", "namespace", namespace)
        manifests.apply(self.plane, "rbac.yaml", self.driver_namespace)

    def controller_kubeconfig(self) -> Path:
        """Give the kubeconfig with which a controller of this sandbox runs."""
        return self.plane.service_account_kubeconfig(self.driver_namespace, "cliquelog-controller")

    @property
    def controller_user(self) -> str:
        """The controller's user name in the audit log."""
        return f"system:serviceaccount:{self.driver_namespace}:cliquelog-controller"

    def nodes(self, count: int, clique: str = "", *, clique_on_node: bool = True) -> list[NodeSpec]:
        """Give `count` machines of one clique under names that no other sandbox has."""
        first = self._nodes_so_far
        self._nodes_so_far += count
        return [
            NodeSpec(f"{self.name}-{n:04d}", clique, clique_on_node, {SANDBOX_LABEL: self.name})
            for n in range(first, first + count)
        ]

    def domains(self, name: str = "") -> str:
        """Give the path of the sandbox's ComputeDomains, or of one."""
        return _path(DRIVER_API, self.jobs_namespace, "computedomains", name)

    def cliques(self, name: str = "") -> str:
        """Give the path of the sandbox's ComputeDomainCliques, or of one."""
        return _path(DRIVER_API, self.driver_namespace, "computedomaincliques", name)

    def daemon_pods(self, domain_uid: str) -> str:
        """Give the path of a domain's daemons."""
        return f"{_path('/api/v1', self.driver_namespace, 'pods', '')}?labelSelector={DOMAIN_LABEL}%3D{domain_uid}"

    def tear_down(self) -> None:
        """Remove what other sandboxes would see; the rest of the namespaces goes in the background.

        Whole collections go in one request each: kubectl by itself deletes five objects a second.
        """
        for namespace in (self.driver_namespace, self.jobs_namespace):
            for api, plural in FINALIZED:
                self._delete_all(_path(api, namespace, plural, ""))
            kinds = ",".join(plural for _, plural in FINALIZED)
            for left in self.plane.kubectl("get", kinds, "--namespace", namespace, "-o", "name").split():
                self._drop_finalizers(namespace, left)
            self._delete_all(f"{_path('/api/v1', namespace, 'pods', '')}?gracePeriodSeconds=0")
        self._delete_all(f"/api/v1/nodes?labelSelector={SANDBOX_LABEL}%3D{self.name}")
        self.plane.kubectl("delete", "namespace", self.driver_namespace, self.jobs_namespace, "--wait=false")

    def _delete_all(self, path: str) -> None:
        self.plane.kubectl("delete", "--raw", path)

    def _drop_finalizers(self, namespace: str, left: str) -> None:
        try:
            self.plane.kubectl("patch", left, "--namespace", namespace, "--type=merge", f"--patch={NO_FINALIZERS}")
        except AssertionError as error:
            if "NotFound" not in str(error):
                raise


def _path(api: str, namespace: str, plural: str, name: str) -> str:
    return f"{api}/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")

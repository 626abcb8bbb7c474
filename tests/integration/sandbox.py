"""A test's own part of a shared control plane.

A control plane takes seconds to start, so tests share one. What they must not share is what a controller sees: it
watches ComputeDomains and nodes of the whole cluster. Hence a sandbox has its own namespaces and node names, and takes
its ComputeDomains and nodes away at the end.
"""

import json
from pathlib import Path

from tests.integration import manifests
from tests.integration.controlplane.cluster import ControlPlane
from tests.integration.node_objects import NodeSpec

SANDBOX_LABEL = "cliquelog.dev/sandbox"
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

    def tear_down(self) -> None:
        """Remove what other sandboxes would see; the rest of the namespaces goes in the background."""
        for namespace in (self.driver_namespace, self.jobs_namespace):
            kinds = "computedomains.resource.nvidia.com,daemonsets,resourceclaimtemplates"
            self.plane.kubectl("delete", kinds, "--all", "--namespace", namespace, "--wait=false")
            for left in self.plane.kubectl("get", kinds, "--namespace", namespace, "-o", "name").split():
                self._drop_finalizers(namespace, left)
            self.plane.kubectl("delete", "pods", "--all", "--namespace", namespace, "--force", "--grace-period=0")
        self.plane.kubectl("delete", "nodes", "--selector", f"{SANDBOX_LABEL}={self.name}")
        self.plane.kubectl("delete", "namespace", self.driver_namespace, self.jobs_namespace, "--wait=false")

    def _drop_finalizers(self, namespace: str, left: str) -> None:
        try:
            self.plane.kubectl("patch", left, "--namespace", namespace, "--type=merge", f"--patch={NO_FINALIZERS}")
        except AssertionError as error:
            if "NotFound" not in str(error):
                raise

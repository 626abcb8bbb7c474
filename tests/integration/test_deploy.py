"""What deploy/ ships, judged by the API server itself."""

import pytest

from tests.integration import manifests
from tests.integration.api import Api, Object
from tests.integration.sandbox import Sandbox
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration

OWN = ("get", "list", "watch", "create", "patch", "delete")


@pytest.mark.parametrize(
    ("verbs", "group", "resource", "where"),
    [
        (("get", "list", "watch", "patch"), "resource.nvidia.com", "computedomains", "jobs"),
        (("patch",), "resource.nvidia.com", "computedomains/status", "jobs"),
        (OWN, "resource.nvidia.com", "computedomaincliques", "driver"),
        (OWN, "apps", "daemonsets", "driver"),
        (OWN, "resource.k8s.io", "resourceclaimtemplates", "jobs"),
        (("list", "watch"), "", "pods", "driver"),
        (("get", "list", "watch", "patch"), "", "nodes", ""),
        (("get", "create", "update"), "coordination.k8s.io", "leases", "driver"),
        (("create",), "", "events", "jobs"),
    ],
)
async def test_the_shipped_roles_let_the_controller_do_its_work(
    rbac_sandbox: Sandbox, verbs: tuple[str, ...], group: str, resource: str, where: str
) -> None:
    async with Api(rbac_sandbox.controller_kubeconfig()) as controller:
        answers = {verb: await may(controller, verb, group, resource, namespace(rbac_sandbox, where)) for verb in verbs}
    assert answers == dict.fromkeys(verbs, True)


async def test_the_shipped_roles_do_not_let_the_controller_do_more(rbac_sandbox: Sandbox) -> None:
    async with Api(rbac_sandbox.controller_kubeconfig()) as controller:
        for verb, group, resource, where in [
            ("delete", "resource.nvidia.com", "computedomains", "jobs"),
            ("update", "resource.nvidia.com", "computedomains", "jobs"),
            ("create", "resource.nvidia.com", "computedomaincliques", "jobs"),
            ("create", "apps", "daemonsets", "jobs"),
            ("list", "", "pods", "jobs"),
            ("get", "", "pods", "driver"),
            ("delete", "", "pods", "driver"),
            ("get", "", "secrets", "driver"),
            ("delete", "", "nodes", ""),
            ("get", "coordination.k8s.io", "leases", "jobs"),
            ("get", "", "events", "jobs"),
        ]:
            allowed = await may(controller, verb, group, resource, namespace(rbac_sandbox, where))
            assert not allowed, (verb, group, resource, where)


def namespace(sandbox: Sandbox, where: str) -> str:
    return {"driver": sandbox.driver_namespace, "jobs": sandbox.jobs_namespace, "": ""}[where]


async def may(api: Api, verb: str, group: str, resource: str, namespace: str) -> bool:
    """Ask the API server whether this user may."""
    plural, _, subresource = resource.partition("/")
    attributes = {
        "verb": verb,
        "group": group,
        "resource": plural,
        "subresource": subresource,
        "namespace": namespace,
    }
    review = await api.create(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        },
    )
    return bool(review["status"]["allowed"])


async def test_the_controllers_pod_is_admitted_where_only_restricted_pods_are(api: Api, sandbox: Sandbox) -> None:
    namespace = sandbox.driver_namespace
    sandbox.plane.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    manifests.apply(sandbox.plane, "controller.yaml", namespace)

    async def pods_and_deployments() -> tuple[list[Object], list[Object]]:
        pods = await api.items(f"/api/v1/namespaces/{namespace}/pods")
        return pods, await api.items(f"/apis/apps/v1/namespaces/{namespace}/deployments")

    [pod], _ = await eventually(pods_and_deployments, lambda found: len(found[0]) == 1, "the controller has a pod")
    assert pod["spec"]["serviceAccountName"] == "cliquelog-controller"

"""The control plane and the fake kubelets are what the other integration tests take them for."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from kube.names import CLIQUE_LABEL, DOMAIN_LABEL
from tests.integration import driver_objects
from tests.integration.api import Api, Object, Refused
from tests.integration.controlplane.build import Programs
from tests.integration.fake_kubelet import FakeKubelet, Step
from tests.integration.node_objects import is_ready
from tests.integration.sandbox import Sandbox
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration

FABRIC = "b8a2f1de-5c1f-4f6e-9d1e-3f0f5a3c7e11.1"


def domains(sandbox: Sandbox, name: str = "") -> str:
    collection = f"/apis/resource.nvidia.com/v1beta1/namespaces/{sandbox.jobs_namespace}/computedomains"
    return f"{collection}/{name}" if name else collection


def daemon_pods(sandbox: Sandbox, domain_uid: str) -> str:
    return f"/api/v1/namespaces/{sandbox.driver_namespace}/pods?labelSelector={DOMAIN_LABEL}%3D{domain_uid}"


async def make_daemon_set(api: Api, sandbox: Sandbox) -> str:
    """Make a ComputeDomain and what its controller would make, and give its UID."""
    domain = await api.create(domains(sandbox), driver_objects.compute_domain("job"))
    uid = str(domain["metadata"]["uid"])
    template = driver_objects.daemon_claim_template(uid)
    namespace = sandbox.driver_namespace
    await api.create(f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates", template)
    await api.create(f"/apis/apps/v1/namespaces/{namespace}/daemonsets", driver_objects.daemon_set(uid))
    return uid


# The CRDs of deploy/


async def test_a_compute_domain_gets_the_defaults_of_its_crd(api: Api, sandbox: Sandbox) -> None:
    stored = await api.create(domains(sandbox), driver_objects.compute_domain("job"))
    assert stored["spec"] == {
        "numNodes": 0,
        "channel": {"allocationMode": "Single", "resourceClaimTemplate": {"name": "job-channel"}},
    }


async def test_the_spec_of_a_compute_domain_cannot_be_changed(api: Api, sandbox: Sandbox) -> None:
    await api.create(domains(sandbox), driver_objects.compute_domain("job"))
    with pytest.raises(Refused, match="spec is immutable") as refused:
        await api.patch(domains(sandbox, "job"), {"spec": {"numNodes": 4}})
    assert refused.value.status == 422


async def test_the_status_of_a_compute_domain_is_ready_or_not_ready_and_nothing_else(
    api: Api, sandbox: Sandbox
) -> None:
    await api.create(domains(sandbox), driver_objects.compute_domain("job"))
    status = domains(sandbox, "job") + "/status"
    for wrong in ("", "Maybe"):
        with pytest.raises(Refused, match="Unsupported value"):
            await api.patch(status, {"status": {"status": wrong}})
    condition = {
        "type": "Full",
        "status": "True",
        "reason": "CliqueFull",
        "message": "18 of 18",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    stored = await api.patch(status, {"status": {"status": "Ready", "conditions": [condition]}})
    assert stored["status"] == {"status": "Ready", "conditions": [condition]}


async def test_a_compute_domain_without_a_spec_is_accepted_as_it_is_upstream(api: Api, sandbox: Sandbox) -> None:
    body = driver_objects.compute_domain("job")
    del body["spec"]
    stored = await api.create(domains(sandbox), body)
    assert "spec" not in stored


async def test_the_rows_of_a_clique_are_kept_apart_by_node_name_and_default_to_not_ready(
    api: Api, sandbox: Sandbox
) -> None:
    cliques = f"/apis/resource.nvidia.com/v1beta1/namespaces/{sandbox.driver_namespace}/computedomaincliques"
    row = {"nodeName": "n0", "ipAddress": "10.0.0.1", "cliqueID": FABRIC, "index": 0}
    with pytest.raises(Refused, match="Duplicate value"):
        await api.create(cliques, driver_objects.clique("twice", [row, row]))
    stored = await api.create(cliques, driver_objects.clique("once", [row]))
    assert stored["daemons"] == [{**row, "status": "NotReady"}]


# DaemonSet controller, scheduler and fake kubelets


async def test_daemons_come_to_labelled_nodes_with_their_device_and_go_with_the_label(
    api: Api, sandbox: Sandbox
) -> None:
    nodes = sandbox.nodes(3, FABRIC)
    names = [spec.name for spec in nodes]
    async with FakeKubelet(api, nodes) as kubelet:
        uid = await make_daemon_set(api, sandbox)

        async def pods() -> list[Object]:
            return await api.items(daemon_pods(sandbox, uid))

        await kubelet.join(uid, *names[:2])
        ready = await eventually(pods, lambda found: len(found) == 2 and all(map(is_ready, found)), "2 Ready daemons")
        assert sorted(pod["spec"]["nodeName"] for pod in ready) == names[:2]
        assert len({pod["status"]["podIP"] for pod in ready}) == 2
        assert {pod["metadata"]["labels"][CLIQUE_LABEL] for pod in ready} == {FABRIC}

        claims = await api.items(f"/apis/resource.k8s.io/v1/namespaces/{sandbox.driver_namespace}/resourceclaims")
        allocated = [claim["status"]["allocation"]["devices"]["results"][0] for claim in claims]
        assert sorted((result["pool"], result["device"]) for result in allocated) == [
            (name, "daemon-0") for name in names[:2]
        ]

        await kubelet.leave(names[0])
        left = await eventually(pods, lambda found: len(found) == 1, "one daemon goes with its node's label")
        assert left[0]["spec"]["nodeName"] == names[1]


async def test_every_step_of_a_daemon_can_be_held_back(api: Api, sandbox: Sandbox) -> None:
    [node] = sandbox.nodes(1, FABRIC)
    async with FakeKubelet(api, [node]) as kubelet:
        uid = await make_daemon_set(api, sandbox)

        async def pods() -> list[Object]:
            return await api.items(daemon_pods(sandbox, uid))

        def bound(found: list[Object]) -> bool:
            return len(found) == 1 and "nodeName" in found[0]["spec"]

        for step in (Step.ADDRESS, Step.LABEL, Step.READY):
            kubelet.hold(step, node.name)
        await kubelet.join(uid, node.name)
        [pod] = await eventually(pods, bound, "the daemon is bound")
        assert "podIP" not in pod["status"]

        kubelet.release(Step.ADDRESS, node.name)
        [pod] = await eventually(pods, lambda found: "podIP" in found[0]["status"], "the daemon has an IP")
        assert CLIQUE_LABEL not in pod["metadata"]["labels"]

        kubelet.release(Step.LABEL, node.name)
        [pod] = await eventually(pods, lambda found: CLIQUE_LABEL in found[0]["metadata"]["labels"], "it is labelled")
        assert not is_ready(pod)

        kubelet.release(Step.READY, node.name)
        await eventually(pods, lambda found: is_ready(found[0]), "the daemon is Ready")
        await kubelet.set_ready(node.name, ready=False)
        await eventually(pods, lambda found: not is_ready(found[0]), "the daemon is no longer Ready")

        kubelet.hold(Step.GONE, node.name)
        await kubelet.restart(node.name)
        [pod] = await eventually(pods, lambda found: "deletionTimestamp" in found[0]["metadata"], "it is terminating")
        kubelet.release(Step.GONE, node.name)
        [new] = await eventually(
            pods, lambda found: len(found) == 1 and is_ready(found[0]), "another daemon takes its place"
        )
        assert new["metadata"]["uid"] != pod["metadata"]["uid"]
        assert new["status"]["podIP"] != pod["status"]["podIP"]


async def test_daemons_come_up_although_the_api_server_crashes_while_they_do(api: Api, sandbox: Sandbox) -> None:
    nodes = sandbox.nodes(4, FABRIC)
    names = [spec.name for spec in nodes]
    async with FakeKubelet(api, nodes) as kubelet:
        uid = await make_daemon_set(api, sandbox)

        async def pods() -> list[Object]:
            return await api.items(daemon_pods(sandbox, uid))

        kubelet.hold(Step.READY, *names)
        await kubelet.join(uid, *names)
        await eventually(pods, lambda found: sum("podIP" in pod["status"] for pod in found) == 4, "4 running daemons")
        sandbox.plane.kill_api_server()
        kubelet.release(Step.READY, *names)
        sandbox.plane.start_api_server()
        await eventually(pods, lambda found: len(found) == 4 and all(map(is_ready, found)), "4 Ready daemons")


# Who may do what, and who did


async def test_the_audit_log_counts_each_request_by_user_verb_resource_and_answer(api: Api, sandbox: Sandbox) -> None:
    sandbox.controller_kubeconfig()
    mark = sandbox.plane.audit.mark()
    async with Api(sandbox.controller_kubeconfig()) as controller:
        await controller.create(domains(sandbox), driver_objects.compute_domain("job"))
        with pytest.raises(Refused, match="already exists"):
            await controller.create(domains(sandbox), driver_objects.compute_domain("job"))
    await api.patch(domains(sandbox, "job"), {"metadata": {"labels": {"by": "admin"}}})

    audit = sandbox.plane.audit
    by_controller = audit.requests(mark, user=sandbox.controller_user, resource="computedomains")
    assert [(request.verb, request.response_status.code) for request in by_controller] == [
        ("create", 201),
        ("create", 409),
    ]
    [patch] = audit.requests(mark, user="admin", verbs={"patch"}, resource="computedomains", name="job")
    assert b'"by":"admin"' in bytes(patch.request_object)
    assert audit.requests(mark, namespace=sandbox.jobs_namespace, codes={409}, verbs={"create"}) == [by_controller[1]]


OWN = ("get", "list", "watch", "create", "patch", "delete")


@pytest.mark.parametrize(
    ("verbs", "group", "resource", "where"),
    [
        (("get", "list", "watch", "patch"), "resource.nvidia.com", "computedomains", "jobs"),
        (("patch",), "resource.nvidia.com", "computedomains/status", "jobs"),
        (OWN, "resource.nvidia.com", "computedomaincliques", "driver"),
        (OWN, "apps", "daemonsets", "driver"),
        (OWN, "resource.k8s.io", "resourceclaimtemplates", "jobs"),
        (("get", "list", "watch"), "", "pods", "driver"),
        (("get", "list", "watch", "patch"), "", "nodes", ""),
        (("get", "create", "update", "patch"), "coordination.k8s.io", "leases", "driver"),
        (("create", "patch"), "", "events", "jobs"),
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
            ("get", "", "pods", "jobs"),
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


# No server outlives the tests

STARTER = """
import pathlib, sys, time
from tests.integration.controlplane.cluster import free_port
from tests.integration.controlplane.process import Server
program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
urls = [f"--client-url=http://127.0.0.1:{free_port()}", f"--peer-url=http://127.0.0.1:{free_port()}"]
server = Server("etcd", [program, "etcd", f"--data-dir={folder / 'etcd'}", *urls], folder / "log")
server.start()
server.wait_ready((folder / "etcd" / "member" / "snap" / "db").exists, 30)
print(server.pid, flush=True)
time.sleep(600)
"""


async def test_a_test_run_that_is_killed_leaves_no_server(programs: Programs, tmp_path: Path) -> None:
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-c", STARTER, str(programs.controlplane), str(tmp_path), stdout=subprocess.PIPE
    )
    assert run.stdout is not None
    server = int(await run.stdout.readline())

    async def command_line() -> bytes:
        return await asyncio.to_thread(read_or_empty, Path(f"/proc/{server}/cmdline"))

    assert (await command_line()).startswith(bytes(programs.controlplane))
    run.kill()
    await run.communicate()
    await eventually(command_line, lambda line: line == b"", "the server ends with the run that started it")


def read_or_empty(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""

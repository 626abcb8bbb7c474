"""Real DaemonSet controller and scheduler with fake kubelets: daemons live as the tests take them to live."""

from collections.abc import Iterator

import pytest

from kube.names import CLIQUE_LABEL, FINALIZER
from tests.integration import driver_objects
from tests.integration.api import Api, Object, Refused
from tests.integration.controlplane.cluster import ControlPlane
from tests.integration.fake_kubelet import FakeKubelet, Step
from tests.integration.node_objects import NodeSpec, is_ready
from tests.integration.sandbox import SANDBOX_LABEL, Sandbox
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration

FABRIC = "b8a2f1de-5c1f-4f6e-9d1e-3f0f5a3c7e11.1"


async def make_daemon_set(api: Api, sandbox: Sandbox) -> str:
    """Make a ComputeDomain and what its controller would make, and give its UID."""
    domain = await api.create(sandbox.domains(), driver_objects.compute_domain("job"))
    uid = str(domain["metadata"]["uid"])
    template = driver_objects.daemon_claim_template(uid)
    namespace = sandbox.driver_namespace
    await api.create(f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates", template)
    await api.create(f"/apis/apps/v1/namespaces/{namespace}/daemonsets", driver_objects.daemon_set(uid))
    return uid


async def test_daemons_come_to_labelled_nodes_with_their_device_and_go_with_the_label(
    api: Api, sandbox: Sandbox
) -> None:
    nodes = sandbox.nodes(3, FABRIC)
    names = [spec.name for spec in nodes]
    async with FakeKubelet(api, nodes) as kubelet:
        uid = await make_daemon_set(api, sandbox)

        async def pods() -> list[Object]:
            return await api.items(sandbox.daemon_pods(uid))

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
            return await api.items(sandbox.daemon_pods(uid))

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
            return await api.items(sandbox.daemon_pods(uid))

        kubelet.hold(Step.READY, *names)
        await kubelet.join(uid, *names)
        await eventually(pods, lambda found: sum("podIP" in pod["status"] for pod in found) == 4, "4 running daemons")
        sandbox.plane.kill_api_server()
        kubelet.release(Step.READY, *names)
        sandbox.plane.start_api_server()
        await eventually(pods, lambda found: len(found) == 4 and all(map(is_ready, found)), "4 Ready daemons")


async def test_a_node_that_vanishes_takes_its_devices_with_it_and_its_daemon_gets_no_further(
    api: Api, sandbox: Sandbox
) -> None:
    [node] = sandbox.nodes(1, FABRIC)
    async with FakeKubelet(api, [node]) as kubelet:
        uid = await make_daemon_set(api, sandbox)
        kubelet.hold(Step.READY, node.name)
        await kubelet.join(uid, node.name)

        async def pods() -> list[Object]:
            return await api.items(sandbox.daemon_pods(uid))

        async def devices() -> list[Object]:
            return await api.items(f"/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3D{node.name}")

        await eventually(pods, lambda found: [pod for pod in found if "podIP" in pod["status"]] != [], "a daemon runs")
        await kubelet.remove(node.name)
        kubelet.release(Step.READY, node.name)
        await eventually(devices, lambda found: found == [], "the devices of the node are gone")
        assert not any(map(is_ready, await pods()))


async def test_a_failure_in_a_test_is_not_hidden_by_the_kubelets_around_it(api: Api, sandbox: Sandbox) -> None:
    with pytest.raises(LookupError, match="the test's own"):
        await fail_beside_the_kubelets(api, sandbox)


async def test_a_failure_of_the_kubelets_ends_the_test_with_its_reason(api: Api, sandbox: Sandbox) -> None:
    [node] = sandbox.nodes(1, "no label value!", clique_on_node=False)
    with pytest.raises(ExceptionGroup) as failed:
        await run_one_daemon(api, sandbox, node)
    assert failed.group_contains(Refused, match="no label value!")


async def run_one_daemon(api: Api, sandbox: Sandbox, node: NodeSpec) -> None:
    async with FakeKubelet(api, [node]) as kubelet:
        uid = await make_daemon_set(api, sandbox)
        await kubelet.join(uid, node.name)
        await eventually(
            lambda: api.items(sandbox.daemon_pods(uid)), lambda found: any(map(is_ready, found)), "the daemon is Ready"
        )


async def fail_beside_the_kubelets(api: Api, sandbox: Sandbox) -> None:
    async with FakeKubelet(api, sandbox.nodes(1)):
        message = "the test's own"
        raise LookupError(message)


async def test_a_sandbox_leaves_nothing_that_the_next_ones_controller_would_see(
    api: Api, control_plane: ControlPlane, sandbox_names: Iterator[str]
) -> None:
    sandbox = Sandbox(control_plane, next(sandbox_names))
    sandbox.set_up()
    [node] = sandbox.nodes(1, FABRIC)
    await run_one_daemon(api, sandbox, node)
    await api.patch(sandbox.domains("job"), {"metadata": {"finalizers": [FINALIZER]}})
    sandbox.tear_down()

    assert await api.items("/apis/resource.nvidia.com/v1beta1/computedomains") == []
    left = await api.items(f"/api/v1/nodes?labelSelector={SANDBOX_LABEL}%3D{sandbox.name}")
    assert left == []

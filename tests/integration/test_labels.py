"""The clique label in its four states: empty, absent, late on the pod, late on the node."""

from pathlib import Path

import pytest

from kube.names import NODE_CLIQUE_LABEL
from tests.integration.api import Api, Object
from tests.integration.controllers import Controller
from tests.integration.domain_views import Domain
from tests.integration.fake_kubelet import FakeKubelet, Step
from tests.integration.node_objects import is_ready
from tests.integration.sandbox import Sandbox
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration

FABRIC = "93d1b6a1-3a55-4a0c-9b60-a7ce52f0b9aa.1"


async def listed(domain: Domain) -> dict[str, Object]:
    """Give the nodes of the domain's status by name."""
    return {node["name"]: node for node in (await domain.get()).get("status", {}).get("nodes", [])}


async def daemon_is_ready(kubelet: FakeKubelet, domain: Domain, node: str) -> None:
    """Let the node's daemon get an address and become Ready, while it says no clique."""

    async def has_address() -> bool:
        pod = (await domain.pods()).get(node, {})
        return bool(pod.get("status", {}).get("podIP"))

    async def is_up() -> bool:
        return is_ready((await domain.pods()).get(node, {}))

    await eventually(has_address, bool, f"the daemon of {node} has an address")
    await kubelet.set_ready(node, ready=True)
    await eventually(is_up, bool, f"the daemon of {node} is Ready")


async def test_nodes_without_a_fabric_are_listed_in_the_status_however_many_and_have_no_clique(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    specs = [*sandbox.nodes(10, ""), *sandbox.nodes(10, "", clique_on_node=False)]
    names = [spec.name for spec in specs]
    async with Controller(sandbox, tmp_path / "log.sqlite") as controller, FakeKubelet(api, specs) as kubelet:
        await controller.ready()
        domain = await Domain.create(api, sandbox, "bare", numNodes=len(names))
        await kubelet.join(domain.uid, *names)

        async def look() -> Object:
            status: Object = (await domain.get()).get("status", {})
            return status

        def all_there(status: Object) -> bool:
            rows = status.get("nodes", [])
            return len(rows) == len(names) and all(row["status"] == "Ready" for row in rows)

        status = await eventually(look, all_there, "every node is listed as Ready")
        assert sorted(row["name"] for row in status["nodes"]) == sorted(names)
        assert {(row["cliqueID"], row["index"]) for row in status["nodes"]} == {("", -1)}
        assert status["status"] == "Ready"
        assert not status.get("conditions")
        assert await domain.cdcs() == []
        assert await controller.stop() == 0


async def test_a_daemon_whose_clique_nobody_says_is_pending_and_its_row_follows_when_its_pod_says_it(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    (mute,) = sandbox.nodes(1, FABRIC, clique_on_node=False)
    (other,) = sandbox.nodes(1, FABRIC)
    async with Controller(sandbox, tmp_path / "log.sqlite") as controller, FakeKubelet(api, [mute, other]) as kubelet:
        await controller.ready()
        domain = await Domain.create(api, sandbox, "mute")
        kubelet.hold(Step.LABEL, mute.name)
        await kubelet.join(domain.uid, mute.name)
        await daemon_is_ready(kubelet, domain, mute.name)
        # What came after it has been acted on, so the controller has seen it.
        await kubelet.join(domain.uid, other.name)
        rows = await domain.all_ready(FABRIC, other.name)
        assert rows[other.name]["index"] == 0

        async def look() -> set[str]:
            return set(await listed(domain))

        await eventually(look, lambda found: found == {other.name}, "the status lists the other node alone")
        assert not (await domain.get())["status"].get("conditions")
        assert len(await domain.cdcs()) == 1
        kubelet.release(Step.LABEL, mute.name)
        rows = await domain.all_ready(FABRIC, mute.name, other.name)
        assert {node: row["index"] for node, row in rows.items()} == {other.name: 0, mute.name: 1}
        assert await controller.stop() == 0


async def test_a_daemon_gets_its_row_when_its_node_gets_the_clique_label_late_and_keeps_its_index(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    late, first = sandbox.nodes(2, FABRIC, clique_on_node=False)
    async with Controller(sandbox, tmp_path / "log.sqlite") as controller, FakeKubelet(api, [late, first]) as kubelet:
        await controller.ready()
        domain = await Domain.create(api, sandbox, "late")
        kubelet.hold(Step.LABEL, late.name)
        await kubelet.join(domain.uid, late.name, first.name)
        await daemon_is_ready(kubelet, domain, late.name)
        await domain.all_ready(FABRIC, first.name)
        await api.patch(f"/api/v1/nodes/{late.name}", {"metadata": {"labels": {NODE_CLIQUE_LABEL: FABRIC}}})
        rows = await domain.all_ready(FABRIC, late.name, first.name)
        indices = {node: row["index"] for node, row in rows.items()}
        assert indices == {first.name: 0, late.name: 1}
        kubelet.release(Step.LABEL, late.name)

        async def labelled() -> bool:
            return any(
                "computeDomain.cliqueID" in key for key in (await domain.pods())[late.name]["metadata"]["labels"]
            )

        await eventually(labelled, bool, "the pod says its clique")

        async def status() -> str:
            # Again at each look: the kubelet, let go, may just be about to find the daemon ready.
            await kubelet.set_ready(late.name, ready=False)
            return str((await domain.rows(FABRIC))[late.name]["status"])

        await eventually(status, lambda found: found == "NotReady", "the row follows its pod")
        assert await domain.indices(FABRIC) == indices
        assert await controller.stop() == 0


async def test_a_daemon_whose_node_named_another_clique_is_where_its_pod_says(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    (spec,) = sandbox.nodes(1, FABRIC)
    wrong = f"{FABRIC}9"
    async with Controller(sandbox, tmp_path / "log.sqlite") as controller, FakeKubelet(api, [spec]) as kubelet:
        await controller.ready()
        await api.patch(f"/api/v1/nodes/{spec.name}", {"metadata": {"labels": {NODE_CLIQUE_LABEL: wrong}}})
        domain = await Domain.create(api, sandbox, "moved")
        kubelet.hold(Step.LABEL, spec.name)
        await kubelet.join(domain.uid, spec.name)
        await daemon_is_ready(kubelet, domain, spec.name)
        await domain.all_ready(wrong, spec.name)
        kubelet.release(Step.LABEL, spec.name)
        await domain.all_ready(FABRIC, spec.name)

        async def look() -> dict[str, Object]:
            return await domain.rows(wrong)

        await eventually(look, lambda rows: rows == {}, "the row in the wrong clique is gone")
        assert await controller.stop() == 0

"""The whole life of a ComputeDomain with the roles that deploy/ ships, and none beside them."""

from pathlib import Path

import pytest

from tests.integration import driver_objects
from tests.integration.api import Api, Object
from tests.integration.controllers import Controller
from tests.integration.fake_kubelet import FakeKubelet
from tests.integration.sandbox import Sandbox
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration

FABRIC = "b8a2f1de-5c1f-4f6e-9d1e-3f0f5a3c7e11.1"


async def test_a_domain_forms_and_goes_with_the_shipped_roles_alone(rbac_sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox, audit = rbac_sandbox, rbac_sandbox.plane.audit
    nodes = [*sandbox.nodes(3, FABRIC), *sandbox.nodes(1, "")]
    mark = audit.mark()
    async with Api(sandbox.plane.admin_kubeconfig) as api, FakeKubelet(api, nodes) as kubelet:

        async def rows() -> list[Object]:
            return [row for cdc in await api.items(sandbox.cliques()) for row in cdc.get("daemons", [])]

        async with Controller(sandbox, tmp_path / "log.sqlite", "--leader-election-enabled") as controller:
            await controller.ready()
            domain = await api.create(sandbox.domains(), driver_objects.compute_domain("job"))
            await kubelet.join(domain["metadata"]["uid"], *(spec.name for spec in nodes))
            found = await eventually(
                rows, lambda rows: [row["status"] for row in rows] == ["Ready"] * 3, "three Ready rows"
            )
            assert sorted(row["index"] for row in found) == [0, 1, 2]
            await eventually(
                lambda: api.get(sandbox.domains("job")),
                lambda domain: domain.get("status", {}).get("status") == "Ready",
                "the domain's own status is Ready",
            )
            await api.delete(sandbox.domains("job"))
            await eventually(lambda: api.items(sandbox.domains()), lambda left: left == [], "the domain is gone")
            assert await controller.stop() == 0

    by_us = audit.requests(mark, user=sandbox.controller_user)
    assert {"computedomaincliques", "daemonsets", "resourceclaimtemplates", "nodes", "leases"} <= {
        request.object_ref.resource for request in by_us if request.response_status.code < 300
    }
    assert audit.requests(mark, user=sandbox.controller_user, codes={401, 403}) == []

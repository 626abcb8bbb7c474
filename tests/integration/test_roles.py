"""The whole life of a ComputeDomain with the roles that deploy/ ships: none is missing, and none is of no use."""

from pathlib import Path

import pytest

from tests.integration import manifests
from tests.integration.api import Api, Object
from tests.integration.controllers import Controller
from tests.integration.domains import Domain, all_ready, create_domain, machines, refusals, specs_of
from tests.integration.fake_kubelet import FakeKubelet
from tests.integration.sandbox import Sandbox
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration

NOT_ALWAYS_NEEDED = {
    ("computedomaincliques", "delete"),
    ("computedomains", "get"),
    ("computedomaincliques", "get"),
    ("daemonsets", "get"),
    ("resourceclaimtemplates", "get"),
    ("nodes", "get"),
}
"""What one life may do without: the reads that follow a conflict, and the deletion of a CDC where the garbage
collector was quicker, for which the DaemonSet owns it."""


async def the_event(api: Api, sandbox: Sandbox, reason: str) -> Object:
    """Wait for the Event with this reason in the ComputeDomain's namespace."""
    path = f"/api/v1/namespaces/{sandbox.jobs_namespace}/events?fieldSelector=reason%3D{reason}"
    found = await eventually(lambda: api.items(path), lambda events: len(events) > 0, f"an Event {reason}")
    assert len(found) == 1
    return found[0]


async def one_clique_is_full(api: Api, domain: Domain, waiting: str) -> None:
    """Check that all know of the node for which there is no slot."""
    event = await the_event(api, domain.sandbox, "CliqueFull")
    assert waiting in event["message"]
    assert event["involvedObject"]["uid"] == domain.uid

    async def conditions() -> list[Object]:
        found = await api.get(domain.sandbox.domains(domain.name))
        conditions: list[Object] = found.get("status", {}).get("conditions", [])
        return conditions

    await eventually(
        conditions,
        lambda found: any(one["status"] == "True" and waiting in one["message"] for one in found),
        f"a condition names {waiting}",
    )


async def test_a_domain_forms_and_goes_with_the_shipped_roles_alone(rbac_sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox, audit = rbac_sandbox, rbac_sandbox.plane.audit
    nodes = machines(sandbox, (18, 3))
    [late] = sandbox.nodes(1, next(iter(nodes)))
    [bare] = sandbox.nodes(1, "")
    mark = audit.mark()
    async with (
        Api(sandbox.plane.admin_kubeconfig) as api,
        Controller(sandbox, tmp_path / "log.sqlite", "--leader-election-enabled") as controller,
        FakeKubelet(api, [*specs_of(nodes), late, bare]) as kubelet,
    ):
        await controller.ready()
        domain = await create_domain(api, sandbox, "job")
        await kubelet.join(domain.uid, *(spec.name for spec in specs_of(nodes)), bare.name)
        await domain.formed(nodes)
        await eventually(
            lambda: api.get(sandbox.domains("job")),
            lambda found: found.get("status", {}).get("status") == "Ready",
            "the domain's own status is Ready",
        )
        await kubelet.join(domain.uid, late.name)
        await one_clique_is_full(api, domain, late.name)
        assert all_ready(await domain.rows(), nodes)
        await domain.delete()
        await domain.gone()
        assert await controller.stop() == 0

    assert refusals(sandbox, mark, 401, 403) == []
    granted = {
        (resource, verb)
        for document in manifests.read("rbac.yaml", sandbox.driver_namespace)
        for rule in document.get("rules", [])
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    used = {
        ("/".join(filter(None, (one.object_ref.resource, one.object_ref.subresource))), one.verb)
        for one in audit.requests(mark, user=sandbox.controller_user)
    }
    assert granted - used <= NOT_ALWAYS_NEEDED
    assert granted >= NOT_ALWAYS_NEEDED

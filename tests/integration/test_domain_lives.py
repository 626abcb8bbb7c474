"""What a ComputeDomain survives, and what it does not take over: a name used again, a name taken, objects deleted."""

import asyncio
from pathlib import Path

import pytest

from kube.names import DOMAIN_LABEL
from tests.integration import driver_objects
from tests.integration.api import Api, Object, Refused
from tests.integration.controllers import Controller
from tests.integration.domain_views import Domain
from tests.integration.fake_kubelet import FakeKubelet
from tests.integration.sandbox import Sandbox
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration

FABRIC = "e4c1f9a7-0d3c-4a52-8a5c-6b2f1d9be001.6"


def templates(sandbox: Sandbox, name: str = "") -> str:
    path = f"/apis/resource.k8s.io/v1/namespaces/{sandbox.jobs_namespace}/resourceclaimtemplates"
    return f"{path}/{name}" if name else path


async def found(api: Api, path: str) -> Object | None:
    """Give the object at the path; None if there is none."""
    try:
        return await api.get(path)
    except Refused as error:
        if error.status != 404:
            raise
        return None


async def join_one_by_one(kubelet: FakeKubelet, domain: Domain, *names: str) -> dict[str, int]:
    """Let nodes join, each after the one before it has its row; give their indices."""
    for count, name in enumerate(names, 1):
        await kubelet.join(domain.uid, name)
        rows = await domain.all_ready(FABRIC, *names[:count])
    return {node: row["index"] for node, row in rows.items()}


async def test_a_domain_with_a_name_that_was_used_before_starts_afresh(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    specs = sandbox.nodes(3, FABRIC)
    names = [spec.name for spec in specs]
    async with Controller(sandbox, tmp_path / "log.sqlite") as controller, FakeKubelet(api, specs) as kubelet:
        await controller.ready()
        old = await Domain.create(api, sandbox, "again")
        assert await join_one_by_one(kubelet, old, *names) == {name: n for n, name in enumerate(names)}
        await api.delete(sandbox.domains("again"))

        async def look() -> Object | None:
            return await found(api, sandbox.domains("again"))

        await eventually(look, lambda domain: domain is None, "the old domain is gone")
        assert await old.cdcs() == []
        new = await Domain.create(api, sandbox, "again")
        assert new.uid != old.uid
        # Only the last joins: an index that it had in the old domain would be 2.
        assert await join_one_by_one(kubelet, new, names[2]) == {names[2]: 0}
        assert await old.cdcs() == []
        assert await controller.stop() == 0


async def test_a_deleted_clique_comes_back_with_the_indices_that_its_living_daemons_have(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    specs = sandbox.nodes(4, FABRIC)
    names = [spec.name for spec in specs]
    async with Controller(sandbox, tmp_path / "log.sqlite") as controller, FakeKubelet(api, specs) as kubelet:
        await controller.ready()
        domain = await Domain.create(api, sandbox, "kept")
        before = await join_one_by_one(kubelet, domain, *reversed(names))
        deleted = await domain.cdc(FABRIC)
        assert deleted is not None
        await api.delete(domain.cdc_path(FABRIC), uid=deleted["metadata"]["uid"])
        after = await domain.all_ready(FABRIC, *names)
        assert {node: row["index"] for node, row in after.items()} == before
        restored = await domain.cdc(FABRIC)
        assert restored is not None
        assert restored["metadata"]["uid"] != deleted["metadata"]["uid"]
        assert await controller.stop() == 0


@pytest.mark.parametrize("clique_too", [False, True])
async def test_daemons_that_are_all_deleted_at_once_come_back_to_their_indices(
    api: Api, sandbox: Sandbox, tmp_path: Path, clique_too: bool
) -> None:
    specs = sandbox.nodes(6, FABRIC)
    names = [spec.name for spec in specs]
    async with Controller(sandbox, tmp_path / "log.sqlite") as controller, FakeKubelet(api, specs) as kubelet:
        await controller.ready()
        domain = await Domain.create(api, sandbox, "failover")
        before = await join_one_by_one(kubelet, domain, *reversed(names))
        old_pods = {pod["metadata"]["uid"] for pod in (await domain.pods()).values()}
        if clique_too:
            await api.delete(domain.cdc_path(FABRIC))
        await asyncio.gather(*(kubelet.restart(name) for name in names))

        async def look() -> dict[str, Object]:
            return await domain.pods()

        def all_new(pods: dict[str, Object]) -> bool:
            return len(pods) == 6 and not old_pods & {pod["metadata"]["uid"] for pod in pods.values()}

        await eventually(look, all_new, "every node has a new daemon")
        after = await domain.all_ready(FABRIC, *names)
        assert {node: row["index"] for node, row in after.items()} == before
        assert await controller.stop() == 0


async def test_a_template_name_that_somebody_else_owns_is_told_not_fought_for_and_taken_once_it_is_free(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    foreign = driver_objects.daemon_claim_template("nobody")
    foreign["metadata"] = {"name": "theirs-channel"}
    await api.create(templates(sandbox), foreign)
    mark = sandbox.plane.audit.mark()

    def requests(verb: str) -> int:
        asked = sandbox.plane.audit.requests(
            mark,
            user=sandbox.controller_user,
            resource="resourceclaimtemplates",
            namespace=sandbox.jobs_namespace,
            verbs={verb},
        )
        return len(asked)

    async with Controller(sandbox, tmp_path / "log.sqlite", "--recheck-seconds", "1") as controller:
        await controller.ready()
        domain = await Domain.create(api, sandbox, "theirs")

        async def told() -> tuple[Object | None, list[str]]:
            return await domain.condition("WorkloadTemplateReady"), await domain.events("NameTaken")

        condition, events = await eventually(told, all, "a condition and an Event tell that the name is taken")
        assert condition is not None
        assert (condition["status"], condition["reason"]) == ("False", "NameTaken")
        place = f"{sandbox.jobs_namespace}/theirs-channel"
        assert place in condition["message"]
        assert len(events) == 1
        assert place in events[0]
        assert (await domain.get())["status"]["status"] == "NotReady"

        async def looks() -> int:
            return requests("get")

        seen = await looks()
        await eventually(looks, lambda now: now >= seen + 4, "the controller looks at the foreign template again")
        assert requests("create") == 1
        assert await domain.events("NameTaken") == events
        untouched = await api.get(templates(sandbox, "theirs-channel"))
        assert not untouched["metadata"].get("labels")

        await api.delete(templates(sandbox, "theirs-channel"))

        async def owner() -> str | None:
            template = await found(api, templates(sandbox, "theirs-channel"))
            return None if template is None else template["metadata"].get("labels", {}).get(DOMAIN_LABEL)

        await eventually(owner, lambda uid: uid == domain.uid, "the domain has its template")

        async def complaint() -> Object | None:
            return await domain.condition("WorkloadTemplateReady")

        await eventually(complaint, lambda now: now is None, "the condition goes")
        assert requests("create") == 2
        assert await controller.stop() == 0


async def test_a_domain_without_a_spec_is_told_and_disturbs_no_other(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    (spec,) = sandbox.nodes(1, FABRIC)
    async with Controller(sandbox, tmp_path / "log.sqlite") as controller, FakeKubelet(api, [spec]) as kubelet:
        await controller.ready()
        body = {key: value for key, value in driver_objects.compute_domain("empty").items() if key != "spec"}
        made = await api.create(sandbox.domains(), body)
        empty = Domain(api, sandbox, "empty", made["metadata"]["uid"])

        async def told() -> tuple[Object | None, list[str]]:
            return await empty.condition("SpecValid"), await empty.events("InvalidSpec")

        condition, _ = await eventually(told, all, "a condition and an Event tell that the spec is missing")
        assert condition is not None
        assert "has no spec" in condition["message"]
        assert (await empty.get())["metadata"].get("finalizers", []) == []
        healthy = await Domain.create(api, sandbox, "healthy")
        await kubelet.join(healthy.uid, spec.name)
        await healthy.all_ready(FABRIC, spec.name)
        await api.delete(sandbox.domains("empty"))
        assert await found(api, sandbox.domains("empty")) is None
        assert await controller.stop() == 0

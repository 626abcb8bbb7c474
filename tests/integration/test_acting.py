"""The acting half on a real API server, with the roles that deploy/ ships: each effect and precondition, the Lease."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog

from controller.lease import Elector, LeaseConfig
from controller.metrics import Metrics
from controller.writing.applier import Applier
from controller.writing.coalescer import Coalescer, Depth, Limits
from controller.writing.pacing import Pace
from controller.writing.requests import Renderer
from eventlog.events import Condition, DomainNode, Row
from kube.client import KubeClient
from kube.clock import SystemClock
from kube.names import DOMAIN_LABEL, FINALIZER
from kube.transport import connect
from projections.effects import (
    AnyEffect,
    CreateClaimTemplate,
    CreateDaemonSet,
    DeleteObject,
    PostEvent,
    SetFinalizers,
    Target,
    UnlabelNode,
    WriteCdc,
    WriteStatus,
)
from tests.integration.api import Api, Object, Refused
from tests.integration.controlplane.cluster import ControlPlane
from tests.integration.driver_objects import compute_domain, daemon_claim_template, daemon_set
from tests.integration.node_objects import node
from tests.integration.sandbox import Sandbox
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration


def manifest(effect: CreateDaemonSet | CreateClaimTemplate) -> dict[str, Any]:
    """Bodies for the objects of a domain; the test gives its UID as the effect's `domain`."""
    body = daemon_set(effect.domain) if isinstance(effect, CreateDaemonSet) else daemon_claim_template(effect.domain)
    body["metadata"]["name"] = effect.target.name
    return body


class Acting:
    """An applier on the real API server, as the controller's service account, and the administrator's eyes."""

    def __init__(self, sandbox: Sandbox, client: KubeClient, admin: Api) -> None:
        self.sandbox = sandbox
        self.client = client
        self.admin = admin
        self.metrics = Metrics()
        self.logs = structlog.testing.LogCapture()
        self.observed: list[tuple[Target, Object | None]] = []
        self.coalescer = Coalescer(Pace(), Limits(), random.Random(1))
        self.applier = Applier(
            coalescer=self.coalescer,
            client=client,
            clock=SystemClock(),
            render=Renderer("cliquelog-0-test", manifest),
            observe=self.observe,
            may_send=lambda: True,
            metrics=self.metrics,
            log=structlog.wrap_logger(
                None, processors=[self.logs], wrapper_class=structlog.make_filtering_bound_logger("info")
            ),
            workers=4,
        )

    async def observe(self, _owner: str, target: Target, raw: bytes | None) -> None:
        self.observed.append((target, None if raw is None else json.loads(raw)))

    async def settle(self, effect: AnyEffect) -> None:
        """Want one effect until its first request has been answered, and then nothing."""
        self.applier.replace("test", {effect.target: effect}, "2/40")
        await eventually(self.depth, lambda depth: depth.wanted == 0 and depth.in_flight == 0, f"{effect}")
        self.applier.replace("test", {}, "2/41")

    async def depth(self) -> Depth:
        return self.coalescer.depth()

    @property
    def complaints(self) -> list[Any]:
        return self.logs.entries


@pytest.fixture
async def acting(rbac_sandbox: Sandbox, rbac_control_plane: ControlPlane) -> AsyncIterator[Acting]:
    client = await connect(str(rbac_sandbox.controller_kubeconfig()), None)
    async with Api(rbac_control_plane.admin_kubeconfig) as admin:
        result = Acting(rbac_sandbox, client, admin)
        task = asyncio.ensure_future(result.applier.run())
        try:
            yield result
            assert not task.done(), "the applier ended"
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await client.close()


async def new_domain(acting: Acting, name: str) -> Object:
    return await acting.admin.create(acting.sandbox.domains(), compute_domain(name))


def version(body: Object) -> int:
    return int(body["metadata"]["resourceVersion"])


async def test_a_cdc_is_created_and_patched_and_a_stale_patch_is_not_carried_out(acting: Acting) -> None:
    clique = "8d1a2c3b-1111-2222-3333-444455556666.7"
    target = Target("computedomaincliques", acting.sandbox.driver_namespace, f"cd-uid.{clique}")
    path = acting.sandbox.cliques(target.name)
    await acting.settle(WriteCdc(target, "cd-uid", 0, clique, "", (Row("n0", "", 0),), ("n18",)))
    created = await acting.admin.get(path)
    assert created["metadata"]["annotations"] == {"cliquelog.dev/position": "2/40", "cliquelog.dev/waiting": "n18"}
    assert created["metadata"]["labels"][DOMAIN_LABEL] == "cd-uid"
    assert [(row["nodeName"], row["index"], row["status"]) for row in created["daemons"]] == [("n0", 0, "NotReady")]

    rows = (Row("n0", "10.0.0.1", 0, "Ready"), Row("n1", "10.0.0.2", 1))
    uid = created["metadata"]["uid"]
    await acting.settle(WriteCdc(target, "cd-uid", version(created), clique, uid, rows))
    patched = await acting.admin.get(path)
    assert patched["metadata"]["annotations"] == {"cliquelog.dev/position": "2/40"}
    assert [(row["nodeName"], row["index"], row["status"]) for row in patched["daemons"]] == [
        ("n0", 0, "Ready"),
        ("n1", 1, "NotReady"),
    ]
    assert not acting.complaints

    await acting.admin.patch(path, {"metadata": {"labels": {"another": "writer"}}})
    stale = WriteCdc(target, "cd-uid", version(patched), clique, uid, (Row("n9", "10.0.0.9", 9),))
    acting.applier.replace("other", {target: stale}, "2/42")

    async def seen() -> list[Any]:
        return acting.observed

    await eventually(seen, bool, "the live read after the conflict")
    assert acting.observed[0] == (target, await acting.admin.get(path))
    assert (await acting.admin.get(path))["daemons"] == patched["daemons"]
    assert b'cliquelog_conflicts_total{resource="computedomaincliques",verb="patch"} 1.0' in acting.metrics.render()


async def test_a_domain_gets_its_finalizer_and_its_status_with_conditions(acting: Acting) -> None:
    body = await new_domain(acting, "train")
    uid = body["metadata"]["uid"]
    target = Target("computedomains", acting.sandbox.jobs_namespace, "train")
    path = acting.sandbox.domains("train")
    await acting.settle(SetFinalizers(target, uid, version(body), uid, (FINALIZER,)))
    body = await acting.admin.get(path)
    assert body["metadata"]["finalizers"] == [FINALIZER]
    node_row = DomainNode("n0", "10.0.0.1", "", -1, "Ready")
    condition = Condition("CliqueFull", "True", "NoSlot", "n18 waits")
    await acting.settle(WriteStatus(target, uid, version(body), uid, "NotReady", (node_row,), (condition,)))
    status = (await acting.admin.get(path))["status"]
    assert status["status"] == "NotReady"
    assert status["nodes"] == [{"name": "n0", "ipAddress": "10.0.0.1", "cliqueID": "", "index": -1, "status": "Ready"}]
    assert [(one["type"], one["status"], one["reason"]) for one in status["conditions"]] == [
        ("CliqueFull", "True", "NoSlot")
    ]
    assert not acting.complaints


async def test_a_domains_objects_are_created_and_deleted_by_their_uid(acting: Acting) -> None:
    uid = (await new_domain(acting, "train"))["metadata"]["uid"]
    namespace = acting.sandbox.driver_namespace
    for api, effect in (
        ("/apis/apps/v1", CreateDaemonSet(Target("daemonsets", namespace, "made"), uid, 0)),
        (
            "/apis/resource.k8s.io/v1",
            CreateClaimTemplate(Target("resourceclaimtemplates", namespace, "made"), uid, 0, "Daemon"),
        ),
    ):
        target = effect.target
        path = f"{api}/namespaces/{namespace}/{target.resource}/made"
        await acting.settle(effect)
        body = await acting.admin.get(path)
        assert body["metadata"]["annotations"]["cliquelog.dev/position"] == "2/40"
        await acting.settle(DeleteObject(target, uid, version(body), body["metadata"]["uid"]))
        await gone(acting, path)
    assert not acting.complaints


async def test_an_object_of_another_uid_is_not_deleted(acting: Acting) -> None:
    uid = (await new_domain(acting, "train"))["metadata"]["uid"]
    namespace = acting.sandbox.driver_namespace
    target = Target("resourceclaimtemplates", namespace, "kept")
    await acting.settle(CreateClaimTemplate(target, uid, 0, "Daemon"))
    wrong = "00000000-0000-0000-0000-000000000000"
    acting.applier.replace("other", {target: DeleteObject(target, uid, 1, wrong)}, "2/42")

    async def seen() -> list[Any]:
        return acting.observed

    await eventually(seen, bool, "the live read after the conflict")
    assert await acting.admin.get(f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates/kept")


async def test_a_node_loses_the_label_of_its_domain_and_no_other(acting: Acting) -> None:
    for label, expected in (("cd-uid", None), ("another", "another")):
        (spec,) = acting.sandbox.nodes(1)
        body = node(spec)
        body["metadata"]["labels"][DOMAIN_LABEL] = label
        made = await acting.admin.create("/api/v1/nodes", body)
        target = Target("nodes", "", spec.name)
        await acting.admin.patch(f"/api/v1/nodes/{spec.name}", {"metadata": {"annotations": {"heart": "beat"}}})
        effect = UnlabelNode(target, "cd-uid", version(made), made["metadata"]["uid"])
        acting.applier.replace(spec.name, {target: effect}, "2/40")

        async def answered() -> bytes:
            return acting.metrics.render()

        code = "422" if expected else "2xx"
        sample = f'cliquelog_requests_total{{code="{code}",resource="nodes",verb="patch"}} 1.0'
        await eventually(answered, lambda text, sample=sample: sample.encode() in text, sample)  # type: ignore[misc]
        acting.applier.replace(spec.name, {}, "2/41")
        labels = (await acting.admin.get(f"/api/v1/nodes/{spec.name}"))["metadata"]["labels"]
        assert labels.get(DOMAIN_LABEL) == expected


async def test_an_event_is_posted_once_also_by_the_next_process(acting: Acting) -> None:
    body = await new_domain(acting, "train")
    namespace = acting.sandbox.jobs_namespace
    target = Target("events", namespace, "train.clique-full.n18")
    effect = PostEvent(target, body["metadata"]["uid"], 0, "train", "CliqueFull", "n18 waits for a slot")
    await acting.settle(effect)
    event = await acting.admin.get(f"/api/v1/namespaces/{namespace}/events/{target.name}")
    assert (event["reason"], event["involvedObject"]["uid"]) == ("CliqueFull", body["metadata"]["uid"])
    next_process = Acting(acting.sandbox, acting.client, acting.admin)
    task = asyncio.ensure_future(next_process.applier.run())
    try:
        await next_process.settle(effect)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert not acting.complaints
    assert not next_process.complaints


async def test_a_released_lease_goes_to_the_next_contender(acting: Acting) -> None:
    def elector(identity: str) -> Elector:
        config = LeaseConfig(acting.sandbox.driver_namespace, "cliquelog", identity, 15, 10.0, 0.2)
        return Elector(acting.client, SystemClock(), random.Random(identity), structlog.get_logger(), config)

    path = f"/apis/coordination.k8s.io/v1/namespaces/{acting.sandbox.driver_namespace}/leases/cliquelog"
    one, two = elector("one"), elector("two")
    await one.acquire()
    keeping = asyncio.ensure_future(one.keep())
    first = (await acting.admin.get(path))["spec"]
    second = asyncio.ensure_future(two.acquire())

    async def spec() -> dict[str, Any]:
        lease = await acting.admin.get(path)
        result: dict[str, Any] = lease["spec"]
        return result

    await eventually(spec, lambda now: now["renewTime"] > first["renewTime"], "a renewal")
    assert not second.done()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await one.release()
    await second
    assert ((await spec())["holderIdentity"], (await spec())["leaseTransitions"]) == ("two", 1)


async def gone(acting: Acting, path: str) -> None:
    async def look() -> bool:
        try:
            await acting.admin.get(path)
        except Refused as error:
            if error.status != 404:
                raise
            return True
        return False

    await eventually(look, bool, f"{path} is gone")

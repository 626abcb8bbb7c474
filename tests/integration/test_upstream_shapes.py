"""Beside daemons of the upstream driver, which write their rows themselves: adopt, keep, never renumber or prune."""

import asyncio
import json
from pathlib import Path

import pytest

from kube.names import CDCS
from tests.integration import driver_objects
from tests.integration.api import Api, Object
from tests.integration.controllers import Controller
from tests.integration.domain_views import Domain
from tests.integration.fake_kubelet import FakeKubelet, Step
from tests.integration.node_objects import NodeSpec
from tests.integration.sandbox import Sandbox
from tests.integration.upstream_daemons import UpstreamDaemons
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration

FABRIC = "0c6b1c52-6a0e-4b1c-8f43-8f7b2a1f2d10.4"
UPSTREAM = ("--daemons", "upstream")


def names(nodes: list[NodeSpec]) -> list[str]:
    return [node.name for node in nodes]


def cliques(nodes: list[NodeSpec]) -> dict[str, str]:
    return {node.name: node.clique for node in nodes}


async def install_daemons(api: Api, sandbox: Sandbox, domain: Domain) -> None:
    """Make what an earlier controller has made for the domain."""
    space = f"namespaces/{sandbox.driver_namespace}"
    template = driver_objects.daemon_claim_template(domain.uid)
    await api.create(f"/apis/resource.k8s.io/v1/{space}/resourceclaimtemplates", template)
    await api.create(f"/apis/apps/v1/{space}/daemonsets", driver_objects.daemon_set(domain.uid))


async def addresses(domain: Domain, nodes: list[NodeSpec]) -> dict[str, str]:
    """Wait until the daemon of every node has an address, and give them by node."""

    async def look() -> dict[str, str]:
        return {node: pod["status"].get("podIP", "") for node, pod in (await domain.pods()).items()}

    def all_there(found: dict[str, str]) -> bool:
        return all(found.get(node.name) for node in nodes)

    return await eventually(look, all_there, f"{len(nodes)} daemons have an address")


def rows_written(sandbox: Sandbox, mark: int, user: str | None = None) -> list[dict[str, Object]]:
    """Give the rows, by node, of each successful write of the sandbox's CDCs, in order; only by `user` if given."""
    verbs = {"create", "patch", "update"}
    namespace, resource = sandbox.driver_namespace, "computedomaincliques"
    requests = sandbox.plane.audit.requests(mark, user=user, resource=resource, namespace=namespace, verbs=verbs)
    bodies = [json.loads(bytes(one.response_object)) for one in requests if one.response_status.code < 300]
    # The garbage collector patches owners and asks for the metadata alone: such an answer shows no rows.
    bodies = [body for body in bodies if body["kind"] == CDCS.kind]
    bodies.sort(key=lambda body: int(body["metadata"]["resourceVersion"]))
    return [{row["nodeName"]: row for row in body.get("daemons", [])} for body in bodies]


def owner_uids(cdc: Object | None) -> set[str]:
    assert cdc is not None
    return {owner["uid"] for owner in cdc["metadata"]["ownerReferences"]}


async def test_a_clique_that_daemons_filled_before_the_controller_started_is_adopted_as_it_stands(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    nodes = sandbox.nodes(4, FABRIC, clique_on_node=False)
    chosen = dict(zip(names(nodes), (7, 3, 12, 0), strict=True))
    domain = await Domain.create(api, sandbox, "old")
    await install_daemons(api, sandbox, domain)
    async with (
        FakeKubelet(api, nodes) as kubelet,
        UpstreamDaemons(api, sandbox, domain, cliques(nodes), prefer=chosen),
    ):
        await kubelet.join(domain.uid, *names(nodes))
        await domain.all_ready(FABRIC, *names(nodes))
        before = await domain.cdc(FABRIC)
        mark = sandbox.plane.audit.mark()
        async with Controller(sandbox, tmp_path / "log.sqlite", *UPSTREAM) as controller:
            await controller.ready()
            late = sandbox.nodes(2, FABRIC)
            await kubelet.add(late)
            await kubelet.join(domain.uid, *names(late))
            rows = await domain.all_ready(FABRIC, *names(nodes), *names(late))
            assert await controller.stop() == 0
    indices = {node: row["index"] for node, row in rows.items()}
    assert {node: indices[node] for node in chosen} == chosen
    assert {indices[node.name] for node in late} == {1, 2}
    assert owner_uids(before) <= owner_uids(await domain.cdc(FABRIC))
    for written in rows_written(sandbox, mark):
        assert {node: written[node]["index"] for node in chosen} == chosen


async def test_rows_that_daemons_write_while_the_controller_runs_keep_the_indices_that_they_chose(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    nodes = sandbox.nodes(3, FABRIC, clique_on_node=False)
    chosen = dict(zip(names(nodes), (12, 7, 3), strict=True))
    async with (
        Controller(sandbox, tmp_path / "log.sqlite", *UPSTREAM) as controller,
        FakeKubelet(api, nodes) as kubelet,
    ):
        await controller.ready()
        domain = await Domain.create(api, sandbox, "running")
        kubelet.hold(Step.LABEL, *names(nodes))  # the controller learns the pods' clique after the rows are there
        async with UpstreamDaemons(api, sandbox, domain, cliques(nodes), prefer=chosen):
            await kubelet.join(domain.uid, *names(nodes))

            async def look() -> dict[str, int | None]:
                return await domain.indices(FABRIC)

            await eventually(look, lambda found: found == chosen, "every daemon has written its row")
            mark = sandbox.plane.audit.mark()
            kubelet.release(Step.LABEL, *names(nodes))
            rows = await domain.all_ready(FABRIC, *names(nodes))
            pods = await domain.pods()
            assert {node: row["index"] for node, row in rows.items()} == chosen
            assert owner_uids(await domain.cdc(FABRIC)) >= {pod["metadata"]["uid"] for pod in pods.values()}
            for written in rows_written(sandbox, mark):
                assert {node: row["index"] for node, row in written.items()} == chosen
        assert await controller.stop() == 0


async def test_eighteen_daemons_that_negotiate_while_the_controller_runs_end_with_every_row_and_never_change_index(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    nodes = sandbox.nodes(18, FABRIC)
    leavers, stayers = nodes[:6], nodes[6:]
    async with (
        Controller(sandbox, tmp_path / "log.sqlite", *UPSTREAM) as controller,
        FakeKubelet(api, nodes) as kubelet,
    ):
        await controller.ready()
        mark = sandbox.plane.audit.mark()
        domain = await Domain.create(api, sandbox, "negotiating")
        async with UpstreamDaemons(api, sandbox, domain, cliques(nodes)):
            await kubelet.join(domain.uid, *names(nodes))
            first = await domain.all_ready(FABRIC, *names(nodes))
            await kubelet.leave(*names(leavers))
            await domain.all_ready(FABRIC, *names(stayers))
            await asyncio.gather(kubelet.join(domain.uid, *names(leavers)), kubelet.restart(stayers[0].name))
            last = await domain.all_ready(FABRIC, *names(nodes))
        assert await controller.stop() == 0
    for rows in (first, last):
        assert sorted(row["index"] for row in rows.values()) == list(range(18))
    kept = names(stayers[1:])  # the first was restarted: in its new life it chose for itself again
    assert {node: last[node]["index"] for node in kept} == {node: first[node]["index"] for node in kept}
    versions = rows_written(sandbox, mark)
    indices_of_lives: dict[tuple[str, str], set[int]] = {}
    for rows in versions:
        assert len({row["index"] for row in rows.values()}) == len(rows)
        for node, one in rows.items():
            indices_of_lives.setdefault((node, one["ipAddress"]), set()).add(one["index"])
    assert {life: found for life, found in indices_of_lives.items() if len(found) > 1} == {}
    for node in kept:
        shown = [node in rows for rows in versions]
        assert all(shown[shown.index(True) :]), f"the row of {node}, whose daemon lived on, was lost"
    assert rows_written(sandbox, mark, sandbox.controller_user)


@pytest.mark.parametrize("knew_it", [True, False])
async def test_the_row_of_a_daemon_that_died_while_no_controller_ran_is_removed(
    api: Api, sandbox: Sandbox, tmp_path: Path, knew_it: bool
) -> None:
    nodes = sandbox.nodes(3, FABRIC)
    dead, *living = names(nodes)
    domain = await Domain.create(api, sandbox, "bereaved")
    await install_daemons(api, sandbox, domain)
    log = tmp_path / "log.sqlite"
    async with FakeKubelet(api, nodes) as kubelet, UpstreamDaemons(api, sandbox, domain, cliques(nodes)) as daemons:
        if knew_it:
            async with Controller(sandbox, log, *UPSTREAM) as earlier:
                await earlier.ready()
                await kubelet.join(domain.uid, *names(nodes))
                before = await domain.all_ready(FABRIC, *names(nodes))
                assert await earlier.stop() == 0
        else:
            await kubelet.join(domain.uid, *names(nodes))
            before = await domain.all_ready(FABRIC, *names(nodes))
        daemons.crash(dead)
        await kubelet.leave(dead)

        async def look() -> set[str]:
            return set(await domain.pods())

        await eventually(look, lambda pods: pods == set(living), "the pod is gone")
        assert set(await domain.rows(FABRIC)) == set(names(nodes))
        async with Controller(sandbox, log, *UPSTREAM) as controller:
            await controller.ready()
            after = await domain.all_ready(FABRIC, *living)
            assert await controller.stop() == 0
    assert {node: row["index"] for node, row in after.items()} == {node: before[node]["index"] for node in living}


async def test_a_row_stands_while_its_pod_lives_though_the_pod_says_neither_address_nor_clique_yet(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    nodes = sandbox.nodes(2, FABRIC, clique_on_node=False)
    early, other = names(nodes)
    domain = await Domain.create(api, sandbox, "early")
    await install_daemons(api, sandbox, domain)
    async with FakeKubelet(api, nodes) as kubelet:
        kubelet.hold(Step.ADDRESS, *names(nodes))
        kubelet.promise(early, "10.9.0.1")
        kubelet.promise(other, "10.9.0.2")
        await kubelet.join(domain.uid, *names(nodes))
        await eventually(domain.pods, lambda pods: set(pods) == {early, other}, "both pods are placed")
        cdc = driver_objects.clique(f"{domain.uid}.{FABRIC}", [row(early, "10.9.0.1", 5), row(other, "10.9.0.2", 4)])
        await api.create(sandbox.cliques(), cdc)
        mark = sandbox.plane.audit.mark()
        async with Controller(sandbox, tmp_path / "log.sqlite", *UPSTREAM) as controller:
            await controller.ready()
            kubelet.release(Step.ADDRESS, other)

            async def look() -> str:
                return str((await domain.rows(FABRIC)).get(other, {}).get("status"))

            await eventually(look, lambda status: status == "Ready", "the controller has acted on the clique")
            assert (await domain.rows(FABRIC))[early] == row(early, "10.9.0.1", 5)
            kubelet.release(Step.ADDRESS, early)
            rows = await domain.all_ready(FABRIC, early, other)
            assert {node: one["index"] for node, one in rows.items()} == {early: 5, other: 4}
            assert all(early in written for written in rows_written(sandbox, mark))
            assert await controller.stop() == 0


async def test_a_row_without_an_index_gets_a_free_one_and_does_not_count_as_index_zero(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    nodes = sandbox.nodes(2, FABRIC)
    zero, unknown = names(nodes)
    domain = await Domain.create(api, sandbox, "ancient")
    await install_daemons(api, sandbox, domain)
    async with FakeKubelet(api, nodes) as kubelet:
        await kubelet.join(domain.uid, *names(nodes))
        ips = await addresses(domain, nodes)
        cdc = driver_objects.clique(f"{domain.uid}.{FABRIC}", [row(unknown, ips[unknown]), row(zero, ips[zero], 0)])
        await api.create(sandbox.cliques(), cdc)
        assert await domain.indices(FABRIC) == {unknown: None, zero: 0}
        async with Controller(sandbox, tmp_path / "log.sqlite", *UPSTREAM) as controller:
            await controller.ready()
            rows = await domain.all_ready(FABRIC, zero, unknown)
            assert {node: one["index"] for node, one in rows.items()} == {zero: 0, unknown: 1}
            assert await controller.stop() == 0


async def test_no_row_without_an_address_is_written_for_daemons_that_would_put_it_into_their_hosts_file(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    nodes = sandbox.nodes(4, FABRIC)
    slow, *quick = names(nodes)
    async with (
        Controller(sandbox, tmp_path / "log.sqlite", *UPSTREAM) as controller,
        FakeKubelet(api, nodes) as kubelet,
    ):
        await controller.ready()
        mark = sandbox.plane.audit.mark()
        domain = await Domain.create(api, sandbox, "addressed")
        kubelet.hold(Step.ADDRESS, slow)
        await kubelet.join(domain.uid, *names(nodes))
        await domain.all_ready(FABRIC, *quick)  # the controller writes for them: no daemon process is there to do it
        kubelet.release(Step.ADDRESS, slow)
        await domain.all_ready(FABRIC, *names(nodes))
        assert await controller.stop() == 0
    written = rows_written(sandbox, mark)
    assert written
    assert [row for rows in written for row in rows.values() if not row["ipAddress"]] == []


def row(node: str, address: str, index: int | None = None) -> Object:
    """Give a row as a daemon has written it; without an index as one of long ago did."""
    placed = {} if index is None else {"index": index}
    return {"nodeName": node, "ipAddress": address, "cliqueID": FABRIC, **placed, "status": "NotReady"}

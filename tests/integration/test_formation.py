"""The main job on a real API server, scheduler and DaemonSet controller: a ComputeDomain forms."""

import json
import math
from datetime import datetime
from pathlib import Path

import pytest

from tests.integration import driver_objects
from tests.integration.api import Api, Object
from tests.integration.controllers import Controller
from tests.integration.fake_kubelet import FakeKubelet
from tests.integration.node_objects import NodeSpec
from tests.integration.sandbox import Sandbox
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration

FABRICS = [f"b8a2f1de-5c1f-4f6e-9d1e-3f0f5a3c7e11.{number}" for number in range(4)]
SIZES = (18, 18, 18, 5)


def machines(sandbox: Sandbox) -> dict[str, list[NodeSpec]]:
    return {fabric: sandbox.nodes(size, fabric) for fabric, size in zip(FABRICS, SIZES, strict=True)}


async def rows_by_clique(api: Api, sandbox: Sandbox, uid: str) -> dict[str, list[Object]]:
    cdcs = await api.items(sandbox.cliques())
    own = [cdc for cdc in cdcs if cdc["metadata"]["name"].startswith(f"{uid}.")]
    return {cdc["metadata"]["name"].removeprefix(f"{uid}."): cdc.get("daemons", []) for cdc in own}


def all_ready(rows: dict[str, list[Object]]) -> bool:
    sizes = sorted(len(found) for found in rows.values())
    return sizes == sorted(SIZES) and all(row["status"] == "Ready" for found in rows.values() for row in found)


def check_rows(rows: dict[str, list[Object]], nodes: dict[str, list[NodeSpec]]) -> None:
    for fabric, specs in nodes.items():
        found = rows[fabric]
        assert sorted(row["nodeName"] for row in found) == sorted(spec.name for spec in specs)
        assert sorted(row["index"] for row in found) == list(range(len(specs)))
        assert {row["cliqueID"] for row in found} == {fabric}
        assert len({row["ipAddress"] for row in found}) == len(specs)


async def create_domain(api: Api, sandbox: Sandbox, name: str) -> str:
    domain = await api.create(sandbox.domains(), driver_objects.compute_domain(name))
    return str(domain["metadata"]["uid"])


def clique_writes(sandbox: Sandbox, mark: int) -> list[tuple[str, datetime]]:
    """Give name and time of each write of a CDC by the sandbox's controllers since the mark."""
    verbs = {"create", "patch", "update"}
    requests = sandbox.plane.audit.requests(
        mark, user=sandbox.controller_user, resource="computedomaincliques", verbs=verbs
    )
    written = []
    for request in requests:
        body = json.loads(bytes(request.response_object))
        written.append((body["metadata"]["name"], datetime.fromisoformat(request.request_received_timestamp)))
    return sorted(written, key=lambda item: item[1])


def allowed(times: list[datetime]) -> int:
    """Give the bound on writes for a formation that took as long as from the first to the last of them.

    Four while the daemons arrive within about a second and get Ready soon after; on a machine so busy that they take
    longer, one more for each wait at its longest (controller.pacing.Pace.max_wait_s, 2 s).
    """
    return max(4, 3 + math.ceil((times[-1] - times[0]).total_seconds() / 2.0))


async def test_a_domain_of_four_cliques_forms_with_few_writes(api: Api, sandbox: Sandbox, tmp_path: Path) -> None:
    nodes = machines(sandbox)
    specs = [spec for group in nodes.values() for spec in group]
    async with Controller(sandbox, tmp_path / "log.sqlite") as controller, FakeKubelet(api, specs) as kubelet:
        await controller.ready()
        mark = sandbox.plane.audit.mark()
        uid = await create_domain(api, sandbox, "job")
        await kubelet.join(uid, *(spec.name for spec in specs))

        async def look() -> dict[str, list[Object]]:
            return await rows_by_clique(api, sandbox, uid)

        rows = await eventually(look, all_ready, "every row is Ready")
        check_rows(rows, nodes)
        audit = sandbox.plane.audit
        writes = clique_writes(sandbox, mark)
        assert {name for name, _ in writes} == {f"{uid}.{fabric}" for fabric in nodes}
        for name in {name for name, _ in writes}:
            times = [time for written, time in writes if written == name]
            assert len(times) <= allowed(times), (
                f"{name}: {len(times)} writes, the last {times[-1] - times[0]} after the first"
            )
        assert audit.requests(mark, user=sandbox.controller_user, codes={409, 429}) == []
        assert await controller.stop() == 0

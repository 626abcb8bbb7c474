"""One ComputeDomain on a sandbox: its machines, its rows as the API shows them, and what was written for it."""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from kube.names import DOMAIN_LABEL
from tests.integration import driver_objects
from tests.integration.api import Api, Object, Refused
from tests.integration.node_objects import NodeSpec
from tests.integration.sandbox import Sandbox
from tests.integration.waiting import eventually

FABRICS = tuple(f"b8a2f1de-5c1f-4f6e-9d1e-3f0f5a3c7e11.{number}" for number in range(4))
SIZES = (18, 18, 18, 5)
"""Sizes of the cliques of a usual test: three full ones and a small one."""

Rows = dict[str, list[Object]]
"""Rows by clique ID."""

PATIENCE_S = 120.0
"""Bound of a wait for a whole formation or deletion on a busy machine; it asserts nothing about speed."""


def machines(sandbox: Sandbox, sizes: Iterable[int] = SIZES) -> dict[str, list[NodeSpec]]:
    """Give machines by clique, one clique for each size."""
    return {fabric: sandbox.nodes(size, fabric) for fabric, size in zip(FABRICS, sizes, strict=False)}


def specs_of(nodes: Mapping[str, list[NodeSpec]]) -> list[NodeSpec]:
    """Give all machines."""
    return [spec for group in nodes.values() for spec in group]


class Domain:
    """A ComputeDomain that a test made."""

    def __init__(self, api: Api, sandbox: Sandbox, name: str, uid: str) -> None:
        self._api = api
        self.sandbox = sandbox
        self.name = name
        self.uid = uid

    async def rows(self) -> Rows:
        """Give the rows that the API shows now."""
        cdcs = await self._api.items(self.sandbox.cliques())
        own = [cdc for cdc in cdcs if cdc["metadata"]["name"].startswith(f"{self.uid}.")]
        return {cdc["metadata"]["name"].removeprefix(f"{self.uid}."): cdc.get("daemons", []) for cdc in own}

    async def formed(self, nodes: Mapping[str, list[NodeSpec]], holds: Callable[[Rows], bool] | None = None) -> Rows:
        """Wait until every node has a Ready row (and what else the test wants), check the rows and give them."""

        def complete(rows: Rows) -> bool:
            return all_ready(rows, nodes) and (holds is None or holds(rows))

        rows = await eventually(self.rows, complete, f"every row of {self.name} is Ready", PATIENCE_S)
        check_rows(rows, nodes)
        return rows

    async def delete(self) -> None:
        """Ask for its deletion; the finalizer keeps it for now."""
        await self._api.delete(self.sandbox.domains(self.name))

    async def leftovers(self) -> list[str]:
        """Name what there is of the domain: itself, its children, its daemons, its label on nodes."""
        left = [] if await self._is_gone() else [f"computedomains/{self.name}"]
        labelled = f"?labelSelector={DOMAIN_LABEL}%3D{self.uid}"
        for path in (
            "/apis/apps/v1/daemonsets",
            "/apis/resource.k8s.io/v1/resourceclaimtemplates",
            "/api/v1/pods",
            "/api/v1/nodes",
        ):
            plural = path.rsplit("/", 1)[1]
            left += [f"{plural}/{found['metadata']['name']}" for found in await self._api.items(path + labelled)]
        return left + [f"computedomaincliques/{self.uid}.{clique}" for clique in await self.rows()]

    async def gone(self) -> None:
        """Wait until nothing is left of the domain."""
        await eventually(self.leftovers, lambda left: not left, f"nothing is left of {self.name}", PATIENCE_S)

    async def _is_gone(self) -> bool:
        try:
            found = await self._api.get(self.sandbox.domains(self.name))
        except Refused as error:
            if error.status != 404:
                raise
            return True
        return bool(found["metadata"]["uid"] != self.uid)


async def create_domain(api: Api, sandbox: Sandbox, name: str) -> Domain:
    """Create a ComputeDomain."""
    created = await api.create(sandbox.domains(), driver_objects.compute_domain(name))
    return Domain(api, sandbox, name, str(created["metadata"]["uid"]))


def all_ready(rows: Rows, nodes: Mapping[str, list[NodeSpec]]) -> bool:
    """Tell whether there are as many rows as nodes, all Ready."""
    sizes = {fabric: len(found) for fabric, found in rows.items()}
    wanted = {fabric: len(specs) for fabric, specs in nodes.items()}
    return sizes == wanted and all(row["status"] == "Ready" for found in rows.values() for row in found)


def check_rows(rows: Rows, nodes: Mapping[str, list[NodeSpec]]) -> None:
    """Check that each clique has its nodes, each once, with the indices 0..n-1 and addresses of their own."""
    assert rows.keys() == nodes.keys()
    for fabric, specs in nodes.items():
        found = rows[fabric]
        assert sorted(row["nodeName"] for row in found) == sorted(spec.name for spec in specs)
        assert sorted(row["index"] for row in found) == list(range(len(specs)))
        assert {row["cliqueID"] for row in found} == {fabric}
        assert len({row["ipAddress"] for row in found}) == len(specs)


def by_name(rows: Rows) -> dict[str, Object]:
    """Give the rows of all cliques by node."""
    return {row["nodeName"]: row for found in rows.values() for row in found}


def indices(rows: Rows) -> dict[str, int]:
    """Give each node's index."""
    return {name: row["index"] for name, row in by_name(rows).items()}


def clique_writes(sandbox: Sandbox, mark: int) -> dict[str, list[datetime]]:
    """Give the times of the accepted writes of each CDC by the sandbox's controllers since the mark, in order."""
    verbs = {"create", "patch", "update"}
    requests = sandbox.plane.audit.requests(
        mark, user=sandbox.controller_user, resource="computedomaincliques", verbs=verbs, codes={200, 201}
    )
    written = defaultdict(list)
    for request in requests:
        body = json.loads(bytes(request.response_object))
        written[body["metadata"]["name"]].append(datetime.fromisoformat(request.request_received_timestamp))
    return {name: sorted(times) for name, times in written.items()}


def refusals(sandbox: Sandbox, mark: int, *codes: int) -> list[str]:
    """Name the requests of the sandbox's controllers since the mark that were answered with one of the codes."""
    return [
        f"{one.response_status.code} {one.verb} {one.object_ref.resource}/{one.object_ref.name}"
        for one in sandbox.plane.audit.requests(mark, user=sandbox.controller_user, codes=codes)
    ]


def allowed(times: list[datetime]) -> int:
    """Give the bound on one clique's writes for a formation that took as long as from the first to the last of them.

    Four while the daemons arrive within about a second and get Ready soon after; on a machine so busy that they take
    longer, one more for each wait at its longest (controller.writing.pacing.Pace.max_wait_s, 2 s).
    """
    return max(4, 3 + math.ceil((times[-1] - times[0]).total_seconds() / 2.0))

"""A ComputeDomain on the real API server, as tests ask about it."""

from typing import Self

from kube.names import WAITING_ANNOTATION
from tests.integration import driver_objects
from tests.integration.api import Api, Object, Refused
from tests.integration.sandbox import Sandbox
from tests.integration.waiting import eventually


class Domain:
    """One ComputeDomain: its UID, its rows, its status, its pods, its Events."""

    def __init__(self, api: Api, sandbox: Sandbox, name: str, uid: str) -> None:
        self._api = api
        self._sandbox = sandbox
        self.name = name
        self.uid = uid

    @classmethod
    async def create(cls, api: Api, sandbox: Sandbox, name: str, **spec: object) -> Self:
        """Create it."""
        made = await api.create(sandbox.domains(), driver_objects.compute_domain(name, **spec))
        return cls(api, sandbox, name, made["metadata"]["uid"])

    def cdc_path(self, clique: str) -> str:
        """Give the path of its CDC in a clique."""
        return self._sandbox.cliques(f"{self.uid}.{clique}")

    async def cdc(self, clique: str) -> Object | None:
        """Give its CDC in a clique; None while there is none."""
        try:
            return await self._api.get(self.cdc_path(clique))
        except Refused as error:
            if error.status != 404:
                raise
            return None

    async def cdcs(self) -> list[Object]:
        """Give all its CDCs."""
        found = await self._api.items(self._sandbox.cliques())
        return [cdc for cdc in found if cdc["metadata"]["name"].startswith(f"{self.uid}.")]

    async def rows(self, clique: str) -> dict[str, Object]:
        """Give the rows in a clique by node name; empty while there is no CDC."""
        cdc = await self.cdc(clique)
        return {row["nodeName"]: row for row in (cdc or {}).get("daemons", [])}

    async def indices(self, clique: str) -> dict[str, int | None]:
        """Give the index of each row by node name; None for a row without."""
        return {node: row.get("index") for node, row in (await self.rows(clique)).items()}

    async def line(self, clique: str) -> str:
        """Give the CDC's waiting annotation, empty if nobody waits."""
        cdc = await self.cdc(clique)
        return "" if cdc is None else str(cdc["metadata"].get("annotations", {}).get(WAITING_ANNOTATION, ""))

    async def get(self) -> Object:
        """Give the ComputeDomain itself."""
        return await self._api.get(self._sandbox.domains(self.name))

    async def condition(self, kind: str) -> Object | None:
        """Give its condition of this type."""
        conditions = (await self.get()).get("status", {}).get("conditions", [])
        return next((one for one in conditions if one["type"] == kind), None)

    async def events(self, reason: str) -> list[str]:
        """Give the messages of its Events with this reason."""
        items = await self._api.items(f"/api/v1/namespaces/{self._sandbox.jobs_namespace}/events")
        mine = [event for event in items if event["involvedObject"].get("uid") == self.uid]
        return sorted(event["message"] for event in mine if event["reason"] == reason)

    async def pods(self) -> dict[str, Object]:
        """Give its daemon pods that are not on their way out, by node name."""
        found = await self._api.items(self._sandbox.daemon_pods(self.uid))
        placed = [pod for pod in found if pod["spec"].get("nodeName")]
        return {pod["spec"]["nodeName"]: pod for pod in placed if "deletionTimestamp" not in pod["metadata"]}

    async def all_ready(self, clique: str, *nodes: str) -> dict[str, Object]:
        """Wait until exactly these nodes have a row, each Ready under its pod's address; give the rows by node."""

        async def look() -> tuple[dict[str, Object], dict[str, str]]:
            pods = await self.pods()
            return await self.rows(clique), {node: pod["status"].get("podIP", "") for node, pod in pods.items()}

        def holds(state: tuple[dict[str, Object], dict[str, str]]) -> bool:
            rows, addresses = state
            return sorted(rows) == sorted(nodes) and all(
                row["status"] == "Ready" and row["ipAddress"] == addresses.get(node) for node, row in rows.items()
            )

        rows, _ = await eventually(look, holds, f"exactly {len(nodes)} Ready rows in {clique}")
        return rows

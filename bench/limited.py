"""A client of a server with a capacity: requests take their time or are thrown out, and are counted."""

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable

from kube.client import ApiError, KubeClient, Resource, Selector
from kube.clock import Clock
from kube.names import CDCS
from simulation.capacity import Capacity
from simulation.client import error_of
from simulation.costs import Costs
from simulation.store import Refused


class LimitedClient:
    """A KubeClient around another. `answers`: writes of CDCs by HTTP status; `throttled`: 429 of all other requests."""

    def __init__(self, client: KubeClient, capacity: Capacity, costs: Costs, clock: Clock) -> None:
        """Let each request take a seat; a watch only for its start, as in a real server."""
        self._client = client
        self._capacity = capacity
        self._costs = costs
        self._clock = clock
        self.answers: Counter[int] = Counter()
        self.throttled = 0

    async def list(self, selector: Selector, *, limit: int = 500, token: str = "", resource_version: str = "") -> bytes:
        """Give one page of a list."""
        ask = self._client.list
        return await self._read(lambda: ask(selector, limit=limit, token=token, resource_version=resource_version))

    async def watch(
        self, selector: Selector, *, resource_version: str, timeout_s: float
    ) -> AsyncGenerator[bytes, None]:
        """Give watch events."""
        await self._read(_nothing)
        async for line in self._client.watch(selector, resource_version=resource_version, timeout_s=timeout_s):
            yield line

    async def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        """Give an object."""
        return await self._read(lambda: self._client.get(resource, namespace, name))

    async def create(self, resource: Resource, namespace: str, body: bytes) -> bytes:
        """Create an object."""
        return await self._write(resource, 201, lambda: self._client.create(resource, namespace, body))

    async def patch(
        self, resource: Resource, namespace: str, name: str, body: bytes, *, kind: str, subresource: str = ""
    ) -> bytes:
        """Patch an object."""
        ask = self._client.patch
        return await self._write(
            resource, 200, lambda: ask(resource, namespace, name, body, kind=kind, subresource=subresource)
        )

    async def replace(self, resource: Resource, namespace: str, name: str, body: bytes) -> bytes:
        """Put an object."""
        return await self._write(resource, 200, lambda: self._client.replace(resource, namespace, name, body))

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str, propagation: str = "Background"
    ) -> bytes:
        """Delete an object."""
        ask = self._client.delete
        return await self._write(
            resource, 200, lambda: ask(resource, namespace, name, uid=uid, propagation=propagation)
        )

    async def close(self) -> None:
        """Close the other."""
        await self._client.close()

    async def _write(self, resource: Resource, status: int, ask: Callable[[], Awaitable[bytes]]) -> bytes:
        if resource != CDCS:
            return await self._read(ask)
        try:
            answer = await self._seated(self._costs.clique_s, ask)
        except ApiError as error:
            self.answers[error.status] += 1
            raise
        self.answers[status] += 1
        return answer

    async def _read(self, ask: Callable[[], Awaitable[bytes]]) -> bytes:
        try:
            return await self._seated(self._costs.pod_s, ask)
        except ApiError as error:
            self.throttled += error.status == 429
            raise

    async def _seated(self, cost_s: float, ask: Callable[[], Awaitable[bytes]]) -> bytes:
        half_s = self._costs.client_s / 2
        await self._clock.sleep(half_s)
        try:
            async with self._capacity.seat(cost_s):
                return await ask()
        except Refused as refused:
            raise error_of(refused) from None
        finally:
            await self._clock.sleep(half_s)


async def _nothing() -> bytes:
    return b""

"""The client port on a simulated API server in the same event loop: no sockets, no bytes on a wire.

Problem: a search that runs a whole controller some ten thousand times cannot afford HTTP, and a socket's timing is not
the seed's. Invariant: it passes the client port's contract, like the transport over HTTP: an answer is the same bytes,
a refusal the same error.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from kube.client import KubeError, Resource, Selector
from kube.status import refusal
from simulation.api import Api, encode, status
from simulation.store import Refused


class SimulatedClient:
    """A KubeClient on an `Api`. Every request lets other tasks run once."""

    def __init__(self, api: Api) -> None:
        """Speak to this server."""
        self._api = api

    async def list(
        self,
        selector: Selector,
        *,
        limit: int = 500,
        token: str = "",
        resource_version: str = "",  # noqa: ARG002 - this server has one state, the newest
    ) -> bytes:
        """Give one page of a list."""
        return await self._answer(selector.resource, lambda: self._api.list(selector, limit=limit, token=token))

    async def watch(
        self, selector: Selector, *, resource_version: str, timeout_s: float
    ) -> AsyncGenerator[bytes, None]:
        """Give watch events, one JSON line each."""
        await asyncio.sleep(0)
        self._check(selector.resource)
        try:
            chunks = self._api.watch(
                selector, resource_version=resource_version, timeout_s=max(1, round(timeout_s)), bookmarks=True
            )
        except Refused as refused:
            raise error_of(refused) from None
        async with aclosing(chunks):
            async for chunk in chunks:
                for line in chunk.splitlines():
                    yield line

    async def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        """Give the object as it is now."""
        return await self._answer(resource, lambda: self._api.get(resource, (namespace, name)))

    async def create(self, resource: Resource, namespace: str, body: bytes) -> bytes:
        """Create the object and give it as stored."""
        return await self._answer(resource, lambda: self._api.create(resource, namespace, body))

    async def patch(
        self, resource: Resource, namespace: str, name: str, body: bytes, *, kind: str, subresource: str = ""
    ) -> bytes:
        """Patch the object and give it as stored."""
        key = (namespace, name)
        return await self._answer(
            resource, lambda: self._api.patch(resource, key, body, kind=kind, subresource=subresource)
        )

    async def replace(self, resource: Resource, namespace: str, name: str, body: bytes) -> bytes:
        """Put the object."""
        return await self._answer(
            resource, lambda: self._api.replace(resource, (namespace, name), body, subresource="")
        )

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str,
        propagation: str = "Background",  # noqa: ARG002 - nobody collects garbage here
    ) -> bytes:
        """Delete the object if it still has this UID."""
        options = encode({"preconditions": {"uid": uid}})
        return await self._answer(resource, lambda: self._api.delete(resource, (namespace, name), options))

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    def _check(self, resource: Resource) -> None:
        if resource not in self._api.store.resources:
            raise refusal(404, b"404 page not found\n", None)

    async def _answer(self, resource: Resource, answer: Callable[[], bytes]) -> bytes:
        await asyncio.sleep(0)
        self._check(resource)
        try:
            return answer()
        except Refused as refused:
            raise error_of(refused) from None


def error_of(refused: Refused) -> KubeError:
    """Give the error that a client makes of a refusal."""
    wait_s = refused.retry_after_s
    return refusal(refused.code, encode(status(refused)), None if wait_s is None else f"{wait_s:g}")

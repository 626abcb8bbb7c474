"""Serve an aiohttp application on loopback, and make clients for it."""

import uuid
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from kubernetes_asyncio.client import Configuration

from kube.client import Resource
from kube.clock import SystemClock
from kube.credentials import Credentials
from kube.transport import HttpKubeClient, Timeouts
from simulation.api import Api
from simulation.schema import load
from simulation.store import Store

CRDS = Path(__file__).parents[2] / "deploy" / "crds"


def api_of(resources: Sequence[Resource], with_status: Collection[Resource] = ()) -> Api:
    """Give a simulated server of these kinds, on the machine's clock."""
    store = Store(resources, with_status, SystemClock(), lambda: str(uuid.uuid4()))
    store.guard(load(CRDS).admit)
    return Api(store)


class Fixed:
    """A loader for a server without credentials."""

    def __init__(self, server: str) -> None:
        self._server = server

    async def load(self, *, rejected: bool) -> Configuration:  # noqa: ARG002 - there is nothing to renew
        return Configuration(host=self._server)


@asynccontextmanager
async def served(application: web.Application) -> AsyncIterator[str]:
    """Give the server's URL."""
    runner = web.AppRunner(application, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def client_of(server: str, timeouts: Timeouts) -> AsyncIterator[HttpKubeClient]:
    client = HttpKubeClient(Credentials(Fixed(server), SystemClock()), timeouts)
    try:
        yield client
    finally:
        await client.close()

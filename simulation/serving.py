"""Serve a simulated API server on loopback, and make the kubeconfig that leads to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

SHUTDOWN_S = 1.0
"""How long requests that are under way are waited for at the end; watches are ended before."""


@asynccontextmanager
async def serving(application: web.Application) -> AsyncIterator[str]:
    """Serve on a free port, and give the URL."""
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_S)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def kubeconfig(server: str) -> bytes:
    """Give a kubeconfig for a server without credentials; JSON is YAML too."""
    name = "simulation"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "users": [{"name": name, "user": {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return msgspec.json.encode(config)

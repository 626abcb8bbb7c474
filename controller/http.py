"""The HTTP side for operators: `/metrics`, `/healthz` (restart me if this fails), `/readyz` (am I of use now).

It serves loopback unless told otherwise, answers GET only, and takes no input but the path.
"""

from collections.abc import Callable
from typing import Protocol

from aiohttp import web

Check = Callable[[], str | None]
"""Gives why something is not as it should be, in one sentence; None if all is well."""

SHUTDOWN_S = 1.0
"""Seconds for answers under way when the server closes; all of them are short."""


class Exposition(Protocol):
    """Metrics as text."""

    @property
    def content_type(self) -> str:
        """The text's media type."""

    def render(self) -> bytes:
        """Give the text."""


class StatusServer:
    """Serves one process's state. `live` and `ready` are asked at each request and must not block."""

    def __init__(self, live: Check, ready: Check, metrics: Exposition) -> None:
        self._live = live
        self._ready = ready
        self._metrics = metrics
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen and give the port (of use where 0 was asked for).

        Raises OSError if the address is not to be had, UnicodeError for a host that no name can have.
        """
        app = web.Application()
        app.add_routes(
            [
                web.get("/metrics", self._serve_metrics),
                web.get("/healthz", self._serve_health),
                web.get("/readyz", self._serve_readiness),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN_S)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        bound: int = self._runner.addresses[0][1]
        return bound

    async def close(self) -> None:
        """Stop listening and close the connections; a server that was not started has none."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _serve_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.render(), headers={"Content-Type": self._metrics.content_type})

    async def _serve_health(self, _request: web.Request) -> web.Response:
        return _answer(self._live())

    async def _serve_readiness(self, _request: web.Request) -> web.Response:
        return _answer(self._ready())


def _answer(reason: str | None) -> web.Response:
    return web.Response(text="ok\n") if reason is None else web.Response(text=reason + "\n", status=503)

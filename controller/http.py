"""The HTTP side for operators: `/metrics`, `/healthz` (restart me if this fails), `/readyz` (am I of use now), `/why`.

It serves loopback unless told otherwise, and answers GET only. `/why?name=NODE|POD` is for loopback alone, whatever the
address is that is listened on: it reads the log, and names nodes and pods. `kubectl port-forward` comes from there.
"""

import ipaddress
import re
from collections.abc import Awaitable, Callable
from typing import Protocol

import aiohttp
from aiohttp import web
from yarl import URL

from kube.transport import reason_of

Check = Callable[[], str | None]
"""Gives why something is not as it should be, in one sentence; None if all is well."""

Explain = Callable[[str], Awaitable[bytes]]
"""Gives why a node, or a daemon pod's node, is not ready, as JSON. Raises Unanswered."""

SHUTDOWN_S = 1.0
"""Seconds for answers under way when the server closes; all but that of `/why` are short."""
ASK_S = 60.0
"""How long whoever asks waits for an answer: longer than one may take."""
ANSWER_MAX = 1 << 20
"""Bytes of an answer that are read."""
_NAME = re.compile(r"(?:[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?/)?[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?")
"""`NAME` or `NAMESPACE/NAME`, as the API server admits them."""


class Unanswered(Exception):
    """A question that is not answered now; the message is a sentence that says what to do."""


class Exposition(Protocol):
    """Metrics as text."""

    @property
    def content_type(self) -> str:
        """The text's media type."""

    def render(self) -> bytes:
        """Give the text."""


class StatusServer:
    """Serves one process's state. `live` and `ready` are asked at each request and must not block."""

    def __init__(self, live: Check, ready: Check, metrics: Exposition, explain: Explain) -> None:
        self._live = live
        self._ready = ready
        self._metrics = metrics
        self._explain = explain
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
                web.get("/why", self._serve_explanation),
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

    async def _serve_explanation(self, request: web.Request) -> web.Response:
        if not _is_loopback(request.remote):
            return web.Response(text="ask from the same host, as kubectl port-forward does\n", status=403)
        names = request.query.getall("name", [])
        if len(names) != 1 or len(request.query) != 1 or not can_be_asked(names[0]):
            return web.Response(text="ask for one node or daemon pod: /why?name=NAME\n", status=400)
        try:
            return web.Response(body=await self._explain(names[0]), content_type="application/json")
        except Unanswered as error:
            return web.Response(text=f"{error}\n", status=503)


def _is_loopback(remote: str | None) -> bool:
    try:
        return remote is not None and ipaddress.ip_address(remote).is_loopback
    except ValueError:
        return False


def can_be_asked(name: str) -> bool:
    """Say whether a server answers for the name: `NAME` or `NAMESPACE/NAME`, as the API server admits them."""
    return _NAME.fullmatch(name) is not None


async def ask(base: str, name: str) -> bytes:
    """Ask a controller's server why a node is not ready, and give its answer as it came.

    Raises Unanswered with one sentence, also for an address that is none.
    """
    try:
        url = URL(base.rstrip("/") + "/why").with_query({"name": name})
        timeout = aiohttp.ClientTimeout(total=ASK_S)
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            body = b""
            while len(body) <= ANSWER_MAX and (more := await response.content.read(ANSWER_MAX + 1 - len(body))):
                body += more
    except (TimeoutError, aiohttp.ClientError, ValueError, OSError) as error:
        raise Unanswered(f"{base} does not answer: {reason_of(error)}; check that it runs") from error
    if response.status != 200 or len(body) > ANSWER_MAX:
        said = body[:200].decode(errors="replace").strip().splitlines()
        raise Unanswered(f"{base} answers {response.status}: {said[0] if said else 'nothing'}")
    return body


def _answer(reason: str | None) -> web.Response:
    return web.Response(text="ok\n") if reason is None else web.Response(text=reason + "\n", status=503)

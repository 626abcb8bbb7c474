"""A server that answers by script, a clock that does not wait, and a reflector between them.

What is scripted is what an API server, a proxy or a network did to somebody once (failure cases, section b).
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

from kube import names
from kube.client import KubeClient, KubeError, Selector
from kube.reflector import (
    Gap,
    ObjectDeleted,
    ObjectSeen,
    Reflector,
    ReflectorEvent,
    ReflectorSettings,
    RelistBegan,
    RelistCompleted,
)
from kube.retry import Backoff, BackoffPolicy
from kube.transport import Timeouts
from tests.kube.serving import client_of, served

Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]

SELECTOR = Selector(names.CDCS)
HANG_S = 60.0
"""After this long a test has failed; nothing waits for it in a run that passes."""


class ScriptedClock:
    """Sleeping takes no time; it is noted, and moves the clock."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds
        await asyncio.sleep(0)


class Noted:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.versions: list[int] = []
        self.failures: list[tuple[str, KubeError, float]] = []

    def advanced(self, selector: Selector, resource_version: int) -> None:  # noqa: ARG002 - there is one selector
        self.versions.append(resource_version)

    def failed(self, selector: Selector, message: str, error: KubeError, wait_s: float) -> None:  # noqa: ARG002
        self.failures.append((message, error, wait_s))


class ScriptedServer:
    """Gives each list and each watch the next reply of its script; after the last, it does not answer."""

    def __init__(self) -> None:
        self.lists: deque[Reply] = deque()
        self.watches: deque[Reply] = deque()
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.closing = asyncio.Event()

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_get("/{path:.*}", self._handle)

        async def close(_: web.Application) -> None:
            self.closing.set()

        application.on_shutdown.append(close)
        return application

    def asked(self, verb: str) -> list[dict[str, str]]:
        return [query for each, query in self.requests if each == verb]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        verb = "watch" if request.query.get("watch") == "true" else "list"
        script = self.watches if verb == "watch" else self.lists
        self.requests.append((verb, dict(request.query)))
        if not script:
            await self.closing.wait()
            return web.Response(status=503)
        return await script.popleft()(request)

    # Replies

    def stream(self, *lines: bytes, end: str = "close", then: Callable[[], None] = lambda: None) -> Reply:
        """A watch with these lines, and how it ends: `close`, `reset`, `stall`."""

        async def reply(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            response.force_close()
            await response.prepare(request)
            for line in lines:
                await response.write(line)
            then()
            if end == "stall":
                await self.closing.wait()
            if end == "reset" and request.transport is not None:
                await asyncio.sleep(0.01)  # the lines are on their way; an abort would take them back
                request.transport.abort()
            return response

        return reply


def whole(body: bytes, code: int = 200, **headers: str) -> Reply:
    """An answer with a Content-Length."""

    async def reply(_: web.Request) -> web.StreamResponse:
        response = web.Response(body=body, status=code, headers=headers, content_type="application/json")
        response.force_close()  # a request on a new connection is not sent again behind the script's back
        return response

    return reply


def dropped() -> Reply:
    """No answer: the connection is reset."""

    async def reply(request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    return reply


def status(code: int, reason: str, message: str = "", **details: object) -> bytes:
    return msgspec.json.encode(
        {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message, "details": details}
    )


def refused(code: int, reason: str, message: str = "", **headers: str) -> Reply:
    return whole(status(code, reason, message), code, **headers)


def item(name: str, version: int, **fields: object) -> dict[str, object]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}, **fields}


def page(version: int, *items: dict[str, object], token: str = "") -> Reply:
    metadata = {"resourceVersion": str(version), **({"continue": token} if token else {})}
    return whole(msgspec.json.encode({"metadata": metadata, "items": items}))


def line(kind: str, name: str, version: int, **fields: object) -> bytes:
    return msgspec.json.encode({"type": kind, "object": item(name, version, **fields)}) + b"\n"


def bookmark(version: int) -> bytes:
    return msgspec.json.encode({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}) + b"\n"


def error_event(code: int, reason: str, message: str = "") -> bytes:
    return b'{"type":"ERROR","object":' + status(code, reason, message) + b"}\n"


# What a reflector told, in short.


def short(event: ReflectorEvent) -> tuple[object, ...]:
    match event:
        case RelistBegan():
            return ("began",)
        case ObjectSeen(object=seen, listed=listed):
            return ("listed" if listed else "changed", seen.metadata.name, seen.metadata.resource_version)
        case RelistCompleted(resource_version=version, objects=objects):
            return ("completed", version, objects)
        case ObjectDeleted(object=gone):
            return ("deleted", gone.metadata.name, gone.metadata.resource_version)
        case Gap(resource_version=version):
            return ("gap", version)


class Run:
    """A reflector on a scripted server, and what it told."""

    def __init__(self, server: ScriptedServer, client: KubeClient) -> None:
        self.server = server
        self.clock = ScriptedClock()
        self.observer = Noted()
        self.events: list[ReflectorEvent] = []
        self.reflector = reflector(client, self._take, self.clock, self.observer)

    @property
    def told(self) -> list[tuple[object, ...]]:
        return [short(event) for event in self.events]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Run the reflector until this holds; what the reflector raises is raised."""
        task = asyncio.create_task(self.reflector.run())
        try:
            async with asyncio.timeout(HANG_S):
                while not holds() and not task.done():  # noqa: ASYNC110 - the condition is the test's
                    await asyncio.sleep(0.001)
        except TimeoutError:
            raise AssertionError(f"told {self.told}; asked {self.server.requests}") from None
        finally:
            task.cancel()
            (result,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(result, Exception):
            raise result

    async def until_watches(self, count: int) -> None:
        """Run until that many watches were asked for."""
        await self.until(lambda: len(self.server.asked("watch")) >= count)

    async def _take(self, event: ReflectorEvent) -> None:
        self.events.append(event)


def reflector(
    client: KubeClient, sink: Callable[[ReflectorEvent], Awaitable[None]], clock: ScriptedClock, observer: Noted
) -> Reflector:
    """A reflector whose randomness is the middle, and whose watches are short."""
    return Reflector(
        client,
        SELECTOR,
        sink,
        clock=clock,
        backoff=Backoff(BackoffPolicy(), lambda: 0.5),
        random=lambda: 0.5,
        observer=observer,
        settings=ReflectorSettings(watch_s=0.2),
    )


@asynccontextmanager
async def scripted(watch_slack_s: float = HANG_S) -> AsyncIterator[Run]:
    """Give a run; a watch may be silent for about this long."""
    server = ScriptedServer()
    timeouts = Timeouts(connect_s=HANG_S, request_s=HANG_S, watch_slack_s=watch_slack_s)
    async with served(server.application()) as url, client_of(url, timeouts) as client:
        yield Run(server, client)

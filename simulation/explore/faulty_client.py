"""The client port of one process, with the faults of a network and of API servers.

Sources of the faults: failure cases B1 to B21 in the project's collection, sieve's three patterns (a crash in between,
a change that is not seen, a server that lags behind). Invariant: without faults it is the client that it wraps, later
by the latencies; a request takes effect at most once; whatever is raised is what the HTTP transport raises.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from kube.client import Expired, KubeClient, KubeError, Resource, Selector, ServerError, Unreachable
from simulation.api import encode, status
from simulation.client import error_of
from simulation.explore.faults import Latency
from simulation.explore.process import Process
from simulation.store import Refused

TIMEOUT_S = 30.0
"""After which a request without an answer is given up, as in the transport."""
SLACK_S = 10.0
"""How long a watch may be silent beyond the end that it asked for, as in the transport."""

LATE_S = 20.0
"""Within which a request that was given up may still take effect: something on the way held it."""

REFUSALS = ("request: 429", "request: 429 with Retry-After", "request: 5xx", "request: lost")
WRITE_FAULTS = ("request: answer lost", "request: takes effect late")
OPENING = ("watch: 410 on opening", "watch: 410 as a server error")
LINE = (
    "watch: closed between lines",
    "watch: closed mid-line",
    "watch: 410 as an ERROR event",
    "watch: 410 as a bare Status",
    "watch: silent",
    "watch: server lags",
    "watch: line given twice",
)
GONE = encode(status(Refused(410, "Expired", "too old resource version: 1 (2)")))
ERROR_EVENT = b'{"type":"ERROR","object":' + GONE + b"}"

Call = Callable[[], Awaitable[bytes]]


class FaultyClient:
    """A KubeClient for a process."""

    def __init__(self, inner: KubeClient, process: Process, latency: Latency, page: int) -> None:
        """Pass requests to `inner`. A list's pages have at most `page` objects: a server may give fewer than asked."""
        self._inner = inner
        self._process = process
        self._faults = process.faults
        self._latency = latency
        self._page_max = page
        self._late: set[asyncio.Task[bytes]] = set()

    async def list(self, selector: Selector, *, limit: int = 500, token: str = "", resource_version: str = "") -> bytes:
        """Give one page of a list."""
        what = f"list {selector.resource.plural}"
        limit = min(limit, self._page_max)  # 0 asks for all, and stays so.
        return await self._read(
            what, lambda: self._inner.list(selector, limit=limit, token=token, resource_version=resource_version)
        )

    async def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        """Give the object as it is now."""
        return await self._read(f"get {resource.plural} {name}", lambda: self._inner.get(resource, namespace, name))

    async def create(self, resource: Resource, namespace: str, body: bytes) -> bytes:
        """Create the object."""
        return await self._write(f"create {resource.plural}", lambda: self._inner.create(resource, namespace, body))

    async def patch(
        self, resource: Resource, namespace: str, name: str, body: bytes, *, kind: str, subresource: str = ""
    ) -> bytes:
        """Patch the object."""
        return await self._write(
            f"patch {resource.plural} {name}",
            lambda: self._inner.patch(resource, namespace, name, body, kind=kind, subresource=subresource),
        )

    async def replace(self, resource: Resource, namespace: str, name: str, body: bytes) -> bytes:
        """Put the object."""
        return await self._write(
            f"replace {resource.plural} {name}", lambda: self._inner.replace(resource, namespace, name, body)
        )

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str, propagation: str = "Background"
    ) -> bytes:
        """Delete the object."""
        return await self._write(
            f"delete {resource.plural} {name}",
            lambda: self._inner.delete(resource, namespace, name, uid=uid, propagation=propagation),
        )

    async def close(self) -> None:
        """Close nothing: a process that ends loses its connections."""

    async def _read(self, what: str, call: Call) -> bytes:
        await self._process.before(what)
        await self._way_there(what)
        answer = await call()
        await asyncio.sleep(self._latency.request())
        await self._process.after(what)
        return answer

    async def _write(self, what: str, call: Call) -> bytes:
        await self._process.before(what)
        await self._way_there(what)
        fault = self._faults.among(self._process.name, WRITE_FAULTS, what)
        if fault == "request: takes effect late":
            late = asyncio.ensure_future(self._later(call))
            self._late.add(late)  # A task that nobody holds may be collected before it has run.
            raise Unreachable(f"{what}: connection reset")
        answer = await call()
        if fault:
            await asyncio.sleep(self._faults.uniform(0, TIMEOUT_S))
            await self._process.alive()
            raise Unreachable(f"{what}: timed out")
        await asyncio.sleep(self._latency.request())
        await self._process.after(what)
        return answer

    async def _later(self, call: Call) -> bytes:
        """Let a request that its sender has given up take effect."""
        await asyncio.sleep(self._faults.uniform(0, LATE_S))
        try:
            return await call()
        except KubeError:
            return b""  # Nobody is there to be told.

    async def _way_there(self, what: str) -> None:
        """Pass the latency to the server; raise what keeps the request from being carried out."""
        await asyncio.sleep(self._latency.request())
        name, faults = self._process.name, self._faults
        if faults.strike(name, "request: slow", what):
            await asyncio.sleep(faults.uniform(0.5, 20))
        if faults.strike(name, "request: hangs", what):
            await asyncio.sleep(TIMEOUT_S)
            raise Unreachable(f"{what}: timed out")
        kind = faults.among(name, REFUSALS, what)
        await self._process.alive()
        if kind:
            raise self._refusal(kind, what)

    def _refusal(self, kind: str, what: str) -> KubeError:
        match kind:
            case "request: 429":
                return error_of(Refused(429, "TooManyRequests", "too many requests"))
            case "request: 429 with Retry-After":
                return error_of(Refused(429, "TooManyRequests", "too many requests", 1.0 + self._faults.below(10)))
            case "request: 5xx":
                return error_of(Refused((500, 503, 504)[self._faults.below(3)], "InternalError", "boom"))
            case _:
                return Unreachable(f"{what}: connection refused")

    async def watch(
        self, selector: Selector, *, resource_version: str, timeout_s: float
    ) -> AsyncGenerator[bytes, None]:
        """Give watch events, one JSON line each."""
        what = f"watch {selector.resource.plural}"
        await self._process.before(what)
        await self._way_there(what)
        kind = self._faults.among(self._process.name, OPENING, what)
        if kind == "watch: 410 as a server error":
            raise ServerError(500, "InternalError", "too old resource version: 1 (2)")
        if kind:
            raise Expired(410, "Expired", "too old resource version: 1 (2)")
        ends_at = asyncio.get_running_loop().time() + timeout_s + SLACK_S
        lines = self._inner.watch(selector, resource_version=resource_version, timeout_s=timeout_s)
        async with aclosing(lines):
            async for line in lines:
                await asyncio.sleep(self._latency.line())
                async for told in self._disturbed(line, what, ends_at):
                    yield told
                    if told is GONE or told is ERROR_EVENT:
                        return

    async def _disturbed(self, line: bytes, what: str, ends_at: float) -> AsyncGenerator[bytes, None]:
        """Give what becomes of a line."""
        kind = self._faults.among(self._process.name, LINE, what)
        match kind:
            case "watch: closed between lines":
                raise Unreachable(f"{what}: connection reset")
            case "watch: closed mid-line":
                yield line[: 1 + self._faults.below(len(line) - 1)]
                raise Unreachable(f"{what}: connection reset")
            case "watch: 410 as an ERROR event":
                yield ERROR_EVENT
            case "watch: 410 as a bare Status":
                yield GONE
            case "watch: silent":
                await asyncio.sleep(max(0.0, ends_at - asyncio.get_running_loop().time()))
                raise Unreachable(f"{what}: silent for too long")
            case "watch: server lags":
                await asyncio.sleep(self._faults.uniform(0.2, 8))
            case "watch: line given twice":
                yield line
        await self._process.alive()
        yield line

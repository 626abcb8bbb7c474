"""How one process asks the API server, at every request of it.

It comes back no earlier than a server asked it to; it has one write of an object out at a time; it writes from what it
was told last: never from a version older than its own write's result, never twice from a version that was refused. Its
own view of the answers is judged, so this stands between the process and the faults.

Who asked is told from the request: the Lease, a watch with its list, and everything else, which is the applier's. The
live reads of claim templates are of more than one part of a controller, so nothing is concluded from them. Nor is a
pause of the Lease judged: its holder tries once more before its deadline, and lets go of it at its end.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import msgspec

from kube.client import ApiError, Conflict, KubeClient, KubeError, Resource, Selector
from kube.names import CLAIM_TEMPLATES, COMPUTE_DOMAINS, EVENTS, LEASES
from simulation.explore.process import Process

Key = tuple[str, str, str]
"""Plural, namespace and name."""


class Meta(msgspec.Struct):
    """Of an object's metadata, what matters here."""

    name: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    annotations: dict[str, str | None] = {}
    finalizers: list[str] | None = None


class Body(msgspec.Struct):
    """Of an object or a merge patch, what matters here."""

    metadata: Meta = msgspec.field(default_factory=Meta)


class Letting(msgspec.Struct, frozen=True):
    """A patch of a ComputeDomain's finalizers: what is left of them, the version and the position that it names."""

    key: Key
    version: str
    finalizers: tuple[str, ...]
    annotations: dict[str, str | None]


class CheckedClient:
    """The KubeClient of one process. `finalizers` is what it wrote of those of ComputeDomains."""

    def __init__(
        self, inner: KubeClient, process: Process, now: Callable[[], float], found: Callable[[str], None]
    ) -> None:
        """Pass requests to `inner`; tell `found` each violation."""
        self._inner = inner
        self._process = process
        self._now = now
        self._found = found
        self._paused: dict[str, tuple[float, float]] = {}
        self._out: set[Key] = set()
        self._refused: dict[Key, str] = {}
        self._written: dict[Key, int] = {}
        self.finalizers: list[Letting] = []

    async def list(self, selector: Selector, *, limit: int = 500, token: str = "", resource_version: str = "") -> bytes:
        """Give one page of a list."""
        call = self._inner.list(selector, limit=limit, token=token, resource_version=resource_version)
        return await self._ask(f"watch of {selector.resource.plural}", "list", call)

    async def watch(
        self, selector: Selector, *, resource_version: str, timeout_s: float
    ) -> AsyncGenerator[bytes, None]:
        """Give watch events."""
        who = f"watch of {selector.resource.plural}"
        self._is_due(who, "watch")
        lines = self._inner.watch(selector, resource_version=resource_version, timeout_s=timeout_s)
        async with aclosing(lines):
            try:
                async for line in lines:
                    yield line
            except KubeError as error:
                self._heed(who, error)
                raise

    async def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        """Give the object as it is now."""
        self._refused.pop((resource.plural, namespace, name), None)
        call = self._inner.get(resource, namespace, name)
        if resource == CLAIM_TEMPLATES:
            return await call
        return await self._ask(_who(resource), f"get of {resource.plural} {name}", call)

    async def create(self, resource: Resource, namespace: str, body: bytes) -> bytes:
        """Create the object."""
        key = (resource.plural, namespace, msgspec.json.decode(body, type=Body).metadata.name)
        answer = await self._write(resource, key, "", self._inner.create(resource, namespace, body))
        self._written.pop(key, None)  # Another object: who knows the earlier one of that name may still mean that.
        return answer

    async def patch(
        self, resource: Resource, namespace: str, name: str, body: bytes, *, kind: str, subresource: str = ""
    ) -> bytes:
        """Patch the object."""
        key = (resource.plural, namespace, name)
        meta = msgspec.json.decode(body, type=Body).metadata if kind == "merge" else Meta()
        if resource == COMPUTE_DOMAINS and meta.finalizers is not None:
            self.finalizers.append(Letting(key, meta.resource_version, tuple(meta.finalizers), meta.annotations))
        call = self._inner.patch(resource, namespace, name, body, kind=kind, subresource=subresource)
        return await self._write(resource, key, meta.resource_version, call)

    async def replace(self, resource: Resource, namespace: str, name: str, body: bytes) -> bytes:
        """Put the object."""
        call = self._inner.replace(resource, namespace, name, body)
        version = msgspec.json.decode(body, type=Body).metadata.resource_version
        return await self._write(resource, (resource.plural, namespace, name), version, call)

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str, propagation: str = "Background"
    ) -> bytes:
        """Delete the object."""
        call = self._inner.delete(resource, namespace, name, uid=uid, propagation=propagation)
        return await self._write(resource, (resource.plural, namespace, name), "", call)

    async def close(self) -> None:
        """Close the connections."""
        await self._inner.close()

    async def _write(self, resource: Resource, key: Key, version: str, call: Awaitable[bytes]) -> bytes:
        """Send a write that states a version as its precondition, or none."""
        what = f"write of {resource.plural} {key[2]}"
        if key in self._out:
            self._violated(f"one in flight: {what} goes out while another one is")
        if key in self._refused:
            self._violated(f"conflict: {what} goes out, without a read, after one {self._refused[key]} was refused")
        if version and int(version) < self._written.get(key, 0):
            self._violated(f"own writes: {what} is from version {version}, and this process wrote {self._written[key]}")
        self._out.add(key)
        try:
            answer = await self._ask(_who(resource), what, call)
        except Conflict:
            if resource not in (EVENTS, LEASES):  # An Event's name stands for it; who loses a Lease reads it each time.
                self._refused[key] = f"from version {version}" if version else "without a version"
            raise
        finally:
            self._out.discard(key)
        written = msgspec.json.decode(answer, type=Body).metadata.resource_version
        if written and resource != LEASES:
            self._written[key] = max(int(written), self._written.get(key, 0))
        return answer

    async def _ask(self, who: str, what: str, call: Awaitable[bytes]) -> bytes:
        self._is_due(who, what)
        try:
            return await call
        except KubeError as error:
            self._heed(who, error)
            raise

    def _heed(self, who: str, error: KubeError) -> None:
        """Note that the server asked for a pause."""
        if isinstance(error, ApiError) and error.retry_after_s and who != LEASES.kind:
            now = self._now()
            self._paused[who] = (now, max(now + error.retry_after_s, self._paused.get(who, (0.0, 0.0))[1]))

    def _is_due(self, who: str, what: str) -> None:
        """Judge a request that begins now; one that began in the very moment of the answer did not know it."""
        told, until = self._paused.get(who, (0.0, 0.0))
        if told < self._now() < until - 1e-6:
            self._violated(f"Retry-After: {what}, {until - self._now():.1f} s before the pause is over that was asked")

    def _violated(self, told: str) -> None:
        """Tell a violation, unless the process is dead: then nothing of this goes out any more."""
        if not self._process.killed.is_set():
            self._found(f"{told} ({self._process.name})")


def _who(resource: Resource) -> str:
    return LEASES.kind if resource == LEASES else "applier"

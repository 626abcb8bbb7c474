"""The applier: carries out what the coalescer asks for, and tells it what came of each request.

It holds no opinion on what should be written, or when. Of an answer to a write it uses the resourceVersion only: the
object's content comes back through the watch (rule 3). Where the fold's picture of an object is in doubt (a conflict, a
time-out after which the write may have taken effect, a watch event that does not come), the live object is read and
given to `observe`, which appends it to the log as an observation; the fold then computes the effect anew (rule 8).

`run` supervises: an error that is not the API server's ends it, and with it the process. A controller that lives on
without its writers would look healthy and do nothing.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec
from structlog.typing import FilteringBoundLogger

from controller.waiting import within
from controller.writing.coalescer import Coalescer
from controller.writing.requests import RESOURCES, Request
from controller.writing.work import (
    Applied,
    Conflict,
    Failed,
    Gone,
    Outcome,
    Refresh,
    Refreshed,
    Refused,
    Throttled,
    Work,
    Write,
)
from kube import client as kube
from kube.clock import Clock
from projections.audit.situation import Pending
from projections.effects import AnyEffect, PostEvent, Target, UnlabelNode

Render = Callable[[AnyEffect, str, int], Request]
"""Gives the request for an effect, the log position that it names, and Unix time in ms."""

Observe = Callable[[str, Target, bytes | None], Awaitable[None]]
"""Appends the live object, as read just now (None: there is none), to the log for the aggregate that asked by its key.
What it raises ends the process."""

WITHHELD_POLL_S = 0.1
"""How often an applier that may not send looks whether it may."""

NO_CHANGE = "the API server takes this write for no change; does its CRD know all fields?"


class WriteMetrics(Protocol):
    """What is counted of requests."""

    def request(self, resource: str, verb: str, code: str, seconds: float) -> None:
        """Count a request: `verb` is create, patch, delete or get; `code` 2xx, the error's status, or `none`."""


class Applier:
    """Sends what the coalescer asks for, at most `workers` requests at a time."""

    def __init__(
        self,
        *,
        coalescer: Coalescer,
        client: kube.KubeClient,
        clock: Clock,
        render: Render,
        observe: Observe,
        may_send: Callable[[], bool],
        metrics: WriteMetrics,
        log: FilteringBoundLogger,
        workers: int,
    ) -> None:
        """`may_send` is asked before each request; while it says no, what is wanted waits."""
        self._coalescer = coalescer
        self._client = client
        self._clock = clock
        self._render = render
        self._observe = observe
        self._may_send = may_send
        self._metrics = metrics
        self._log = log
        self._workers = workers
        self._wake = asyncio.Event()

    def replace(self, owner: str, effects: Mapping[Target, AnyEffect], position: str) -> None:
        """Take all that the aggregate `owner` wants now; see `Coalescer.replace`."""
        self._coalescer.replace(self._clock.monotonic(), owner, effects, position)
        self._wake.set()

    def pending(self, target: Target) -> Pending | None:
        """Say what the object's next write waits for; see `Coalescer.pending`."""
        return self._coalescer.pending(self._clock.monotonic(), target)

    async def run(self) -> None:
        """Work until cancelled; requests that are out are cancelled too, which is as safe as a lost connection."""
        free = asyncio.Semaphore(self._workers)
        async with asyncio.TaskGroup() as group:
            while True:
                await free.acquire()
                work = await self._next()
                group.create_task(self._perform(work, free))

    async def _next(self) -> Work:
        while True:
            self._wake.clear()
            if not self._may_send():
                await self._clock.sleep(WITHHELD_POLL_S)
                continue
            now = self._clock.monotonic()
            work, ask_at = self._coalescer.next(now)
            if work is not None:
                return work
            if ask_at is None:
                await self._wake.wait()
            else:
                with contextlib.suppress(TimeoutError):
                    await within(self._clock, ask_at - now, self._wake.wait())

    async def _perform(self, work: Work, free: asyncio.Semaphore) -> None:
        try:
            outcome = await (self._write(work) if isinstance(work, Write) else self._refresh(work))
        finally:
            free.release()
        if isinstance(outcome, Refused):
            self._log.error("write refused", **_names(work.target), cause=outcome.cause)
        elif isinstance(outcome, Applied):
            if isinstance(work, Write) and outcome.changed_nothing(work.effect):
                self._log.warning("write changed nothing", **_names(work.target), cause=NO_CHANGE)
        elif not isinstance(outcome, Refreshed):
            self._log.info("write not applied", **_names(work.target), outcome=type(outcome).__name__)
        self._coalescer.done(self._clock.monotonic(), work.target, outcome)
        self._wake.set()

    async def _write(self, work: Write) -> Outcome:
        request = self._render(work.effect, work.position, self._clock.now_ms())
        answer = await self._timed(request.resource, request.method, self._send(request))
        if isinstance(answer, kube.KubeError):
            return outcome_of(answer, request, work.effect)
        version = version_of(answer)
        return Failed("the answer cannot be read", None) if version is None else Applied(version or None)

    async def _refresh(self, work: Refresh) -> Outcome:
        target = work.target
        resource = RESOURCES[target.resource]
        answer = await self._timed(resource, "get", self._client.get(resource, target.namespace, target.name))
        if isinstance(answer, kube.NotFound) and not isinstance(answer, kube.ResourceMissing):
            await self._observe(work.owner, target, None)
            return Refreshed(0)
        if isinstance(answer, kube.KubeError):
            return _failure(answer)
        version = version_of(answer)
        if not version:
            return Failed("the answer cannot be read", None)
        await self._observe(work.owner, target, answer)
        return Refreshed(version)

    async def _send(self, request: Request) -> bytes:
        resource, namespace, name = request.resource, request.namespace, request.name
        match request.method:
            case "create":
                return await self._client.create(resource, namespace, request.body)
            case "delete":
                return await self._client.delete(resource, namespace, name, uid=request.uid)
            case "patch":
                return await self._client.patch(
                    resource, namespace, name, request.body, kind=request.kind, subresource=request.subresource
                )

    async def _timed(self, resource: kube.Resource, verb: str, call: Awaitable[bytes]) -> bytes | kube.KubeError:
        """Give the answer, or the error as a value: it is counted here and judged by the caller."""
        began = self._clock.monotonic()
        answer: bytes | kube.KubeError
        try:
            answer = await call
        except kube.KubeError as error:
            answer = error
        code = "2xx" if isinstance(answer, bytes) else code_of(answer)
        self._metrics.request(resource.plural, verb, code, self._clock.monotonic() - began)
        return answer


def outcome_of(error: kube.KubeError, request: Request, effect: AnyEffect) -> Outcome:
    """Give what an error means for the effect whose request it answers."""
    match error:
        case kube.AlreadyExists() if isinstance(effect, PostEvent):
            return Applied(None)  # An earlier life of this process has sent it; its name is its cause.
        case kube.Conflict():
            return Conflict()
        case kube.BadRequest(status=422) if isinstance(effect, UnlabelNode):
            return Conflict()  # So the API server answers a JSON patch whose `test` fails.
        case kube.ResourceMissing():
            return Refused(str(error))
        case kube.NotFound() if request.method != "create":
            return Gone()  # Of a create it means that the namespace is missing.
        case _:
            return _failure(error)


def _failure(error: kube.KubeError) -> Outcome:
    match error:
        case kube.Throttled():
            return Throttled(error.retry_after_s)
        case kube.ServerError():
            return Failed(str(error), error.retry_after_s)
        case kube.ApiError():
            return Refused(str(error))
        case _:
            return Failed(str(error), None)


def code_of(error: kube.KubeError) -> str:
    """Give the HTTP status as a label's value, `none` where no answer came."""
    return str(error.status) if isinstance(error, kube.ApiError) else "none"


class _Meta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="0")


class _Versioned(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


def version_of(raw: bytes) -> int | None:
    """Give an object's resourceVersion; 0 if it states none (a deletion's answer), None if it cannot be read."""
    try:
        return int(msgspec.json.decode(raw, type=_Versioned).metadata.resource_version or "0")
    except (msgspec.DecodeError, ValueError):
        return None


def _names(target: Target) -> dict[str, str]:
    return {"resource": target.resource, "namespace": target.namespace, "name": target.name}

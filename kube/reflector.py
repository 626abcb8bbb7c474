"""The reflector: one list and watch loop per selector, told as a closed vocabulary of events.

Problem: a watch loses changes in many ways that look alike (an expired resourceVersion in four shapes, a silent
connection, a torn line, a server that answers errors in the stream), and a client that guesses loses deletions for
ever (failure cases B1 to B9, B17, B25). Invariant: what the sink is told is complete as of a resourceVersion, or it was
told a Gap and a relist follows. Reason for the explicit states: each way to lose changes is one transition.

    Listing --complete--> Watching --closed, stalled, refused: again from the last resourceVersion--> Watching
       ^                     |
       +------- Gap ---------+-- expired, undecodable, kind gone, or no progress from one version after some tries

An expired continue token is a Gap as well, and the list starts anew without pages, as client-go does. The loop ends
only by an exception: cancelled, the sink raised, or the API server calls the list itself a bad request. Whoever runs
it treats that as the end of the process; there is no half-dead reflector.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import NoReturn, Protocol

import msgspec

from kube.client import (
    BadRequest,
    Expired,
    Forbidden,
    KubeError,
    ResourceMissing,
    Selector,
    TooLarge,
    Undecodable,
    Unreachable,
    ViewClient,
)
from kube.clock import Clock
from kube.envelopes import ListPage, page_decoder
from kube.objects import KubeObject, object_decoder
from kube.retry import Backoff, Random
from kube.watchline import Change, Changed, Removed, read_change


class RelistBegan(msgspec.Struct, frozen=True):
    """A complete list is about to be asked for; an earlier list that did not complete is void.

    What was observed before this moment and is neither listed nor seen by `RelistCompleted` is gone. `cause` is a
    sentence for people.
    """

    selector: Selector
    cause: str


class ObjectSeen(msgspec.Struct, frozen=True):
    """An object as it is at its resourceVersion: from a list (`listed`), or added or modified in the watch."""

    selector: Selector
    object: KubeObject
    listed: bool


class RelistCompleted(msgspec.Struct, frozen=True):
    """All that matched the selector at `resource_version`, `objects` many, has been told since `RelistBegan`."""

    selector: Selector
    resource_version: int
    objects: int


class ObjectDeleted(msgspec.Struct, frozen=True):
    """An object was deleted, or no longer matches the selector's labels; the watch does not say which.

    The object is as it last matched, with the resourceVersion of the change that removed it.
    """

    selector: Selector
    object: KubeObject


class Gap(msgspec.Struct, frozen=True):
    """Changes after `resource_version` may have been missed; a relist follows. It is 0 if nothing was complete yet."""

    selector: Selector
    resource_version: int
    cause: str


ReflectorEvent = RelistBegan | ObjectSeen | RelistCompleted | ObjectDeleted | Gap

Sink = Callable[[ReflectorEvent], Awaitable[None]]
"""Takes the events in order. It is awaited, so a slow sink slows the watch down; what it raises ends the reflector."""


class Observer(Protocol):
    """Told what metrics and logs need; must not block."""

    def advanced(self, selector: Selector, resource_version: int) -> None:
        """Note that the sink was told everything up to this version, by a list, an event or a bookmark."""

    def failed(self, selector: Selector, message: str, error: KubeError, wait_s: float) -> None:
        """Note a request that failed, in a sentence that says what to mend, and the wait before the next."""


class ReflectorSettings(msgspec.Struct, frozen=True):
    """Sizes and times of a reflector.

    A watch is asked to last from `watch_s` to twice that, at random; one that is silent for longer than it was asked to
    last is cut by the client, which bounds how long a half-open connection goes unnoticed. A watch that the server ends
    within `short_s` with nothing new counts as a failure. After `same_version_tries` failures in a row from one
    resourceVersion a relist is made. A kind that is not served is tried again after `missing_s` and the back-off.
    """

    page: int = 500
    watch_s: float = 40.0
    short_s: float = 1.0
    same_version_tries: int = 5
    missing_s: float = 10.0


class Listing(msgspec.Struct, frozen=True):
    """State: the view is not complete. `limit` 0 asks for the list in one page."""

    cause: str
    limit: int


class Watching(msgspec.Struct, frozen=True):
    """State: the view is complete as of this version; changes after it are asked for."""

    resource_version: int


State = Listing | Watching


class Ended(msgspec.Struct, frozen=True):
    """How a watch ended: by the server, in order (None), or by an error."""

    error: KubeError | None


class Reflector:
    """Keeps a sink told of all objects that match a selector."""

    def __init__(
        self,
        client: ViewClient,
        selector: Selector,
        sink: Sink,
        *,
        clock: Clock,
        backoff: Backoff,
        random: Random,
        observer: Observer,
        settings: ReflectorSettings,
    ) -> None:
        """Do nothing yet. KeyError for a kind that has no struct."""
        self._client = client
        self._selector = selector
        self._sink = sink
        self._clock = clock
        self._backoff = backoff
        self._random = random
        self._observer = observer
        self._settings = settings
        self._object = object_decoder(selector.resource)
        self._page = page_decoder(selector.resource)
        self._version = 0
        self._failures = 0
        self._announced = False
        self._doubt = ""

    def doubt(self, cause: str) -> None:
        """Ask for a list once the present watch has ended, because of something that only a list can prove."""
        self._doubt = cause

    async def run(self) -> NoReturn:
        """List and watch for ever. Raises what the sink raises, and BadRequest if the list itself is refused so."""
        state: State = Listing("start", self._settings.page)
        while True:
            state = await (self._list(state) if isinstance(state, Listing) else self._watch(state))

    async def _list(self, state: Listing) -> State:
        """Tell a complete list; the next state is Watching, or Listing again after a wait."""
        if not self._announced:
            await self._sink(RelistBegan(self._selector, state.cause))
            self._announced = True
        objects, token = 0, ""
        while True:
            page = await self._fetch(state.limit, token)
            if isinstance(page, KubeError):
                return await self._list_failed(state, page)
            for item in page.items:
                # From here on the list is told in part: if it fails, the next one must void it.
                self._announced = False
                await self._sink(ObjectSeen(self._selector, item, listed=True))
            objects += len(page.items)
            token = page.metadata.token
            if not token:
                break
        version = page.metadata.resource_version
        await self._sink(RelistCompleted(self._selector, version, objects))
        self._announced = False
        self._doubt = ""
        self._failures = 0
        self._advance(version)
        return Watching(version)

    async def _fetch(self, limit: int, token: str) -> ListPage[KubeObject] | KubeError:
        """Give a page, or the error: as a value, so that an error of the sink is never taken for one of the server."""
        try:
            body = await self._client.list(self._selector, limit=limit, token=token)
            return self._page.decode(body)
        except msgspec.DecodeError as error:
            return Undecodable(f"a list page does not decode: {error}")
        except KubeError as error:
            return error

    async def _list_failed(self, state: Listing, error: KubeError) -> State:
        if isinstance(error, BadRequest):
            raise error
        if isinstance(error, Expired):
            return await self._lost(error, "list", limit=0)
        await self._pause(error, "list")
        return state

    async def _watch(self, state: Watching) -> State:
        """Tell changes until the watch ends; the next state is Watching from the last version, or Listing."""
        began_s = self._clock.monotonic()
        timeout_s = self._settings.watch_s * (1.0 + self._random())
        lines = self._client.watch(self._selector, resource_version=str(self._version), timeout_s=timeout_s)
        async with aclosing(lines):
            while not isinstance(change := await self._next(lines), Ended):
                await self._tell(change)
        progressed = self._version != state.resource_version
        if change.error is not None:
            return await self._watch_failed(change.error, progressed=progressed)
        if not progressed and self._clock.monotonic() - began_s < self._settings.short_s:
            return await self._watch_failed(Unreachable("the server ended the watch at once"), progressed=False)
        self._failures = 0
        if self._doubt:
            return Listing(self._doubt, self._settings.page)
        return Watching(self._version)

    async def _next(self, lines: AsyncIterator[bytes]) -> Change | Ended:
        """Give the next change, or how the watch ended; an error is a value here for the reason given at `_fetch`."""
        try:
            async for line in lines:
                change = read_change(line, self._object)
                if change.version < self._version:
                    # Another history: the server's data were restored from a backup.
                    return Ended(Undecodable(f"resourceVersion went back from {self._version} to {change.version}"))
                return change
        except KubeError as error:
            return Ended(error)
        return Ended(None)

    async def _watch_failed(self, error: KubeError, *, progressed: bool) -> State:
        self._failures = 1 if progressed else self._failures + 1
        lost = isinstance(error, Expired | ResourceMissing | BadRequest | TooLarge | Undecodable)
        if lost or self._failures >= self._settings.same_version_tries:
            return await self._lost(error, "watch", limit=self._settings.page)
        await self._pause(error, "watch")
        return Watching(self._version)

    async def _tell(self, change: Change) -> None:
        """Tell one change, and go on to its version."""
        if isinstance(change, Changed):
            await self._sink(ObjectSeen(self._selector, change.object, listed=False))
        elif isinstance(change, Removed):
            await self._sink(ObjectDeleted(self._selector, change.object))
        self._advance(change.version)

    def _advance(self, version: int) -> None:
        self._version = version
        self._observer.advanced(self._selector, version)

    async def _lost(self, error: KubeError, verb: str, *, limit: int) -> State:
        """Tell the gap, wait, and list anew."""
        cause = f"{verb}: {error}"
        await self._sink(Gap(self._selector, self._version, cause))
        self._failures = 0
        await self._pause(error, verb)
        return Listing(cause, limit)

    async def _pause(self, error: KubeError, verb: str) -> None:
        """Report the failure and wait: the back-off, and longer for a kind that is not there."""
        wait_s = self._backoff.wait_s(error, self._clock.monotonic())
        if isinstance(error, ResourceMissing):
            wait_s += self._settings.missing_s
        self._observer.failed(self._selector, explain(self._selector, verb, error), error, wait_s)
        await self._clock.sleep(wait_s)


def explain(selector: Selector, verb: str, error: KubeError) -> str:
    """Say what failed and what to mend, in a sentence."""
    resource = selector.resource
    kind = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    where = f" in namespace {selector.namespace}" if selector.namespace else ""
    if isinstance(error, ResourceMissing):
        return f"the API server does not serve {kind} {resource.version}: install its CRD; it is looked for until then"
    if isinstance(error, Forbidden):
        return f"not allowed to {verb} {kind}{where}: grant the role that is shipped in deploy/ ({error})"
    return f"{verb} {kind}{where}: {error}"

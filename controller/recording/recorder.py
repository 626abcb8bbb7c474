"""The work of `cliquelog record`: captures what the reflectors of a controller would be told, and acts on nothing.

The objects are kept as the API server sent them, on their way into the reflectors, and between them the reflectors'
own marks: where a list began and was complete, and where changes may have been missed. So an import knows exactly what
a controller would have known. The client that is used here can only list and watch.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

import msgspec
from structlog.typing import FilteringBoundLogger

from controller.observing.views import Views
from controller.recording.capture_files import CaptureFiles
from controller.recording.capturing import AnyLine, Began, Completed, Missed, Page, Watched
from kube.client import Selector, ViewClient
from kube.clock import Clock
from kube.envelopes import WatchEvent
from kube.reflector import Gap, ReflectorEvent, RelistBegan, RelistCompleted

PIECE_MAX = 4 << 20
"""Bytes of a line that holds a page of a list: a longer page is kept as several. One object may be longer."""


class _Items(msgspec.Struct, frozen=True):
    """A page, as far as it has to be taken apart."""

    items: tuple[msgspec.Raw, ...]


class CapturingClient:
    """Lists and watches, and keeps what comes, before anybody has looked at it.

    What is no JSON at all is not kept: the reflector refuses it, and its gap tells of that.
    """

    def __init__(self, client: ViewClient, files: CaptureFiles, clock: Clock) -> None:
        """Keep it in these files."""
        self._client = client
        self._files = files
        self._clock = clock
        self._events = msgspec.json.Decoder(WatchEvent)
        self._at = 0

    def now_ms(self) -> int:
        """Give the time, never earlier than before: an import goes by it, and clocks are set back."""
        self._at = max(self._at, self._clock.now_ms())
        return self._at

    async def list(self, selector: Selector, *, limit: int = 500, token: str = "", resource_version: str = "") -> bytes:
        """Give one page of a list, and keep it. Raises KubeError, Failure."""
        body = await self._client.list(selector, limit=limit, token=token, resource_version=resource_version)
        try:
            pieces = list(_pieces(body))
        except msgspec.DecodeError:
            return body
        for piece in pieces:
            self._files.write(Page(self.now_ms(), selector.resource.plural, msgspec.Raw(piece)))
        return body

    async def watch(
        self, selector: Selector, *, resource_version: str, timeout_s: float
    ) -> AsyncGenerator[bytes, None]:
        """Give watch events, and keep each. Raises KubeError, Failure."""
        lines = self._client.watch(selector, resource_version=resource_version, timeout_s=timeout_s)
        async with aclosing(lines):
            async for line in lines:
                if self._is_event(line):
                    self._files.write(Watched(self.now_ms(), selector.resource.plural, msgspec.Raw(line.strip())))
                yield line

    def _is_event(self, line: bytes) -> bool:
        try:
            self._events.decode(line)
        except msgspec.DecodeError:
            return False
        return True


def _pieces(body: bytes) -> Iterator[bytes]:
    """Give the page as one line, or its items as several. Raises msgspec.DecodeError if it is no page."""
    page = body.strip()
    if b"\n" in page:
        page = msgspec.json.format(page, indent=-1)
    items = msgspec.json.decode(page, type=_Items).items
    if len(page) <= PIECE_MAX:
        yield page
        return
    held: list[msgspec.Raw] = []
    size = 0
    for item in items:
        if held and size + len(bytes(item)) > PIECE_MAX:
            yield msgspec.json.encode(_Items(tuple(held)))
            held, size = [], 0
        held.append(item)
        size += len(bytes(item))
    yield msgspec.json.encode(_Items(tuple(held)))


class Recording:
    """Reflectors whose view is kept in files."""

    def __init__(
        self,
        client: ViewClient,
        files: CaptureFiles,
        *,
        clock: Clock,
        rng: random.Random,
        logger: FilteringBoundLogger,
    ) -> None:
        """Make the parts; nothing is watched yet."""
        self._client = CapturingClient(client, files, clock)
        self._files = files
        self._clock = clock
        self._logger = logger
        self._views = Views(clock, rng, logger)
        self._complete: dict[str, asyncio.Event] = {}

    async def run(self, groups: tuple[list[Selector], list[Selector]], fsync_s: float, stop: asyncio.Event) -> None:
        """Record until `stop` is set. Raises ExceptionGroup of Failure, and of what ends a reflector."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._watch(groups, group), name="reflectors")]
                if fsync_s > 0:
                    tasks.append(group.create_task(self._keep_synced(fsync_s), name="fsync"))
                await stop.wait()
                raise _Stopped
        except* _Stopped:
            self._logger.info("stopped", lines=self._files.counted.lines)

    async def _watch(self, groups: tuple[list[Selector], list[Selector]], group: asyncio.TaskGroup) -> None:
        """Begin to watch, in the order in which a controller does: what a list proves concerns what was seen before."""
        for selectors in groups:
            for selector in selectors:
                plural = selector.resource.plural
                self._complete[plural] = asyncio.Event()
                reflector = self._views.reflector(self._client, selector, self._tell)
                group.create_task(reflector.run(), name=f"reflector {plural}")
            for selector in selectors:
                await self._complete[selector.resource.plural].wait()
        self._logger.info("the view is complete", lines=self._files.counted.lines)

    async def _keep_synced(self, fsync_s: float) -> None:
        while True:
            await self._clock.sleep(fsync_s)
            self._files.sync()

    async def _tell(self, told: ReflectorEvent) -> None:
        """Keep the marks; the objects were kept when they came."""
        plural = told.selector.resource.plural
        line: AnyLine
        match told:
            case RelistBegan():
                line = Began(self._client.now_ms(), plural, told.cause)
            case RelistCompleted():
                line = Completed(self._client.now_ms(), plural, told.resource_version, told.objects)
                self._complete[plural].set()
            case Gap():
                line = Missed(self._client.now_ms(), plural, told.resource_version, told.cause)
                self._logger.warning("watch gap", resource=plural, cause=told.cause)
            case _:
                return
        self._files.write(line)


class _Stopped(Exception):
    """The user has ended the recording."""

"""One list and watch loop over whole objects, for stand-ins that write back all that they read.

The reflector of `kube` decodes what our controller needs and drops the rest, so an object that was read with it cannot
be the body of a PUT. Invariant: the listener is told each object once for each version that was seen, and each one that
is gone, whether a watch or the next list shows it.
"""

from collections.abc import Callable
from contextlib import aclosing
from typing import NoReturn

import msgspec

from kube.client import ApiError, KubeClient, Selector, TooLarge, Undecodable, Unreachable
from kube.clock import Clock
from kube.envelopes import Bookmark, Status, WatchEvent
from kube.retry import Backoff
from kube.status import from_status
from simulation.store import Object

WATCH_S = 300.0
"""Seconds that a watch is asked to last: client-go asks for 5 to 10 minutes."""

LOST = (ApiError, Unreachable, TooLarge, Undecodable)

Listener = Callable[[Object, bool], None]
"""Told an object as it is now, or as it last was and that it is gone."""


class Informer:
    """Tells a listener of all objects that match a selector."""

    def __init__(
        self, client: KubeClient, selector: Selector, listener: Listener, *, clock: Clock, backoff: Backoff
    ) -> None:
        """Do nothing yet."""
        self._client = client
        self._selector = selector
        self._listener = listener
        self._clock = clock
        self._backoff = backoff
        self._known: dict[tuple[str, str], Object] = {}
        self._version = ""

    async def run(self) -> NoReturn:
        """List and watch for ever; after any error, list anew."""
        while True:
            try:
                await self._list()
                while True:
                    await self._watch()
            except LOST as error:
                await self._clock.sleep(self._backoff.wait_s(error, self._clock.monotonic()))

    async def _list(self) -> None:
        token, found = "", set()
        while True:
            page = msgspec.json.decode(await self._client.list(self._selector, token=token))
            for thing in page["items"]:
                found.add(_key(thing))
                self._tell(thing, gone=False)
            token = page["metadata"].get("continue", "")
            if not token:
                break
        for key in [key for key in self._known if key not in found]:
            self._tell(self._known[key], gone=True)
        self._version = page["metadata"]["resourceVersion"]

    async def _watch(self) -> None:
        lines = self._client.watch(self._selector, resource_version=self._version, timeout_s=WATCH_S)
        async with aclosing(lines):
            async for line in lines:
                event = msgspec.json.decode(line, type=WatchEvent)
                if event.type == "ERROR":
                    raise from_status(msgspec.json.decode(event.object, type=Status), 500)
                if event.type == "BOOKMARK":
                    self._version = msgspec.json.decode(event.object, type=Bookmark).metadata.version
                    continue
                thing = msgspec.json.decode(event.object)
                self._version = thing["metadata"]["resourceVersion"]
                self._tell(thing, gone=event.type == "DELETED")

    def _tell(self, thing: Object, *, gone: bool) -> None:
        key = _key(thing)
        if gone:
            self._known.pop(key, None)
        elif version_of(self._known.get(key)) >= version_of(thing):
            return
        else:
            self._known[key] = thing
        self._listener(thing, gone)


def version_of(thing: Object | None) -> int:
    """Give the object's resourceVersion as a number, 0 for no object."""
    return int(thing["metadata"]["resourceVersion"]) if thing is not None else 0


def _key(thing: Object) -> tuple[str, str]:
    return thing["metadata"].get("namespace", ""), thing["metadata"]["name"]

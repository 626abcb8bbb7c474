"""Everything that the CDCs of a sandbox ever showed, by a watch of the test's own.

A look now and then would miss an index that changes and changes back. The API server sends every version of an object,
so this sees each. It begins with a list and goes on from the last version seen; a gap ends the test.
"""

import asyncio
import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Self

import msgspec

from tests.integration.api import Api, Object
from tests.integration.sandbox import Sandbox
from tests.integration.waiting import DEADLINE_S, eventually


class Version(msgspec.Struct, frozen=True):
    """One version of one CDC: its rows by node. `deleted`: the object went with these."""

    name: str
    uid: str
    resource_version: int
    rows: dict[str, Object]
    deleted: bool = False


class CliqueWatch:
    """Use with `async with`. `versions` grows, in the order in which the API server made them."""

    def __init__(self, api: Api, sandbox: Sandbox) -> None:
        self._api = api
        self._path = sandbox.cliques()
        self._news = asyncio.Condition()
        self.versions: list[Version] = []

    async def __aenter__(self) -> Self:
        listed = await self._api.get(self._path)
        for found in listed["items"]:
            self.versions.append(version_of(found))
        self._task = asyncio.create_task(self._follow(str(listed["metadata"]["resourceVersion"])), name="clique watch")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def more_than(self, count: int) -> None:
        """Wait until more versions than `count` have been seen."""
        async with asyncio.timeout(DEADLINE_S), self._news:
            await self._news.wait_for(lambda: len(self.versions) > count or self._task.done())
        self._check()

    async def caught_up(self) -> None:
        """Wait until the watch has shown all that a read made now shows."""
        listed = await self._api.items(self._path)
        newest = {found["metadata"]["name"]: int(found["metadata"]["resourceVersion"]) for found in listed}

        async def seen() -> dict[str, int]:
            self._check()
            return {version.name: version.resource_version for version in self.versions}

        def holds(known: dict[str, int]) -> bool:
            return all(known.get(name, 0) >= version for name, version in newest.items())

        await eventually(seen, holds, "the test's own watch has caught up")

    def _check(self) -> None:
        if self._task.done():
            self._task.result()
            raise AssertionError("the watch of the CDCs ended")

    async def _follow(self, version: str) -> None:
        try:
            while True:
                async with contextlib.aclosing(self._api.watch(self._path, version)) as events:
                    async for event in events:
                        if event["type"] == "ERROR":
                            raise AssertionError(f"the watch of the CDCs has a gap: {event['object']}")
                        version = str(event["object"]["metadata"]["resourceVersion"])
                        if event["type"] != "BOOKMARK":
                            await self._take(version_of(event["object"], deleted=event["type"] == "DELETED"))
        finally:
            async with self._news:
                self._news.notify_all()

    async def _take(self, version: Version) -> None:
        async with self._news:
            self.versions.append(version)
            self._news.notify_all()


def version_of(found: Object, *, deleted: bool = False) -> Version:
    """Give the version that this CDC is; no node has two rows in it."""
    meta = found["metadata"]
    rows = {row["nodeName"]: row for row in found.get("daemons", [])}
    assert len(rows) == len(found.get("daemons", [])), f"a node has two rows in {meta['name']}: {found['daemons']}"
    return Version(meta["name"], meta["uid"], int(meta["resourceVersion"]), rows, deleted)


def doubled(versions: list[Version]) -> list[str]:
    """Name each version in which two nodes have one index."""
    found = []
    for version in versions:
        taken = [row["index"] for row in version.rows.values()]
        if len(set(taken)) != len(taken):
            found.append(f"{version.name} at {version.resource_version}: an index twice in {sorted(taken)}")
    return found


def renumbered(versions: list[Version]) -> list[str]:
    """Name each node whose index changed from one version of its CDC to a later one."""
    return _changes(versions, lambda row: row["index"], lambda before, now: before != now)


def shaken(versions: list[Version]) -> list[str]:
    """Name each row that went from Ready to not Ready."""
    return _changes(versions, lambda row: row["status"], lambda before, now: before == "Ready" != now)


def vanished(versions: list[Version]) -> list[str]:
    """Name each row that went from a CDC which stayed, and each CDC that was deleted."""
    before: dict[str, Version] = {}
    found = []
    for version in versions:
        if version.deleted:
            found.append(f"{version.name} at {version.resource_version}: deleted")
        elif version.name in before:
            lost = before[version.name].rows.keys() - version.rows.keys()
            found += [f"{version.name} at {version.resource_version}: no row of {node} any more" for node in lost]
        before[version.name] = version
    return found


def _changes(
    versions: list[Version], read: Callable[[Object], object], wrong: Callable[[object, object], bool]
) -> list[str]:
    last: dict[tuple[str, str], object] = {}
    found = []
    for version in versions:
        for node, row in version.rows.items():
            now = read(row)
            before = last.get((version.name, node), now)
            if wrong(before, now):
                found.append(f"{version.name} at {version.resource_version}: {node} went from {before} to {now}")
            last[version.name, node] = now
    return found

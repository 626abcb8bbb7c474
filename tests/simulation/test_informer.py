"""An informer tells each version of each object, and what is gone, whatever becomes of its watch."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from kube.client import KubeClient, Selector, Unreachable
from kube.clock import Clock
from kube.names import CDCS
from kube.retry import Backoff, BackoffPolicy
from simulation.api import Api
from simulation.client import SimulatedClient
from simulation.informer import Informer
from simulation.store import Object
from tests.simulation.daemon_world import DRIVER, DaemonWorld, row
from tests.simulation.virtual import on_virtual_time

Told = tuple[str, int, bool]
"""Name, number of rows, whether it is gone."""


class Breakable:
    """A client whose watch ends with an error, or cannot be opened, as the test wants."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self.list = client.list
        self.down = False
        self.cut = asyncio.Event()

    async def watch(
        self, selector: Selector, *, resource_version: str, timeout_s: float
    ) -> AsyncGenerator[bytes, None]:
        if self.down:
            raise Unreachable("down")
        async for line in self._client.watch(selector, resource_version=resource_version, timeout_s=timeout_s):
            yield line
            if self.cut.is_set():
                raise Unreachable("cut")


def follow(steps: Callable[[DaemonWorld, Breakable, list[Told]], Awaitable[None]]) -> list[Told]:
    told: list[Told] = []

    async def main(clock: Clock) -> None:
        world = DaemonWorld(clock)
        client = Breakable(SimulatedClient(Api(world.store)))

        def listen(thing: Object, gone: bool) -> None:
            told.append((thing["metadata"]["name"][:1], len(thing["daemons"]), gone))

        backoff = Backoff(BackoffPolicy(), lambda: 0.5)
        informer = Informer(client, Selector(CDCS, DRIVER), listen, clock=clock, backoff=backoff)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(informer.run())
            await steps(world, client, told)
            running.cancel()

    on_virtual_time(main)
    return told


def make(world: DaemonWorld, name: str) -> None:
    world.store.create(CDCS, DRIVER, {"metadata": {"name": name}, "daemons": []})


def grow(world: DaemonWorld, name: str, rows: int) -> None:
    body = [row(f"n{number}", number, "10.0.0.1") for number in range(rows)]
    world.store.update(CDCS, (DRIVER, name), "", lambda cdc: {**cdc, "daemons": body})


def test_what_is_there_what_changes_and_what_goes_is_told_once_each() -> None:
    async def steps(world: DaemonWorld, _client: Breakable, _told: list[Told]) -> None:
        make(world, "a")
        await world.clock.sleep(1)
        make(world, "b")
        grow(world, "a", 1)
        await world.clock.sleep(1)
        world.store.delete(CDCS, (DRIVER, "b"), None)
        await world.clock.sleep(1000)

    assert follow(steps) == [("a", 0, False), ("b", 0, False), ("a", 1, False), ("b", 0, True)]


def test_what_changed_and_went_while_the_watch_was_down_is_told_after_the_next_list() -> None:
    async def steps(world: DaemonWorld, client: Breakable, told: list[Told]) -> None:
        make(world, "a")
        make(world, "b")
        await world.clock.sleep(1)
        client.cut.set()
        client.down = True
        grow(world, "a", 1)
        await world.clock.sleep(1)
        client.cut.clear()
        grow(world, "a", 2)
        world.store.delete(CDCS, (DRIVER, "b"), None)
        await world.clock.sleep(120)
        client.down = False
        await world.clock.sleep(120)
        assert told[:2] == [("a", 0, False), ("b", 0, False)]

    assert follow(steps)[2:] == [("a", 1, False), ("a", 2, False), ("b", 0, True)]


def test_a_watch_whose_history_is_gone_is_followed_by_a_list() -> None:
    async def steps(world: DaemonWorld, client: Breakable, _told: list[Told]) -> None:
        make(world, "a")
        await world.clock.sleep(1)
        client.cut.set()
        grow(world, "a", 1)
        client.down = True
        await world.clock.sleep(1)
        grow(world, "a", 2)
        world.store.compact()
        client.cut.clear()
        client.down = False
        await world.clock.sleep(60)

    assert follow(steps) == [("a", 0, False), ("a", 1, False), ("a", 2, False)]

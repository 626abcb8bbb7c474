"""Whatever the network and the server do, the sink's view ends equal to the server's objects."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest
from aiohttp import web

from kube import names
from kube.client import AlreadyExists, KubeClient, NotFound, Selector
from kube.objects import ComputeDomainClique
from kube.reflector import (
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
from simulation.api import Api
from simulation.apiserver import Handler, application
from simulation.store import Refused
from tests.kube.contract import LABEL, NAMESPACE, clique
from tests.kube.scripted import HANG_S, Noted, ScriptedClock
from tests.kube.serving import api_of, client_of, served

SELECTOR = Selector(names.CDCS, namespace=NAMESPACE, labels=LABEL)
OBJECTS = 12
STEPS = 250


class View:
    """What a sink can conclude: absence from a complete relist is a deletion, nothing else is."""

    def __init__(self) -> None:
        self.objects: dict[str, int] = {}
        self.relists = 0
        self._listed: set[str] = set()
        self._newest: dict[str, int] = {}

    async def take(self, event: ReflectorEvent) -> None:
        match event:
            case RelistBegan():
                self.relists += 1
                self._listed = set()
            case ObjectSeen(object=ComputeDomainClique(metadata=metadata)):
                assert metadata.resource_version >= self._newest.get(metadata.uid, 0), "an object went back in time"
                self._newest[metadata.uid] = metadata.resource_version
                self.objects[metadata.uid] = metadata.resource_version
                self._listed.add(metadata.uid)
            case ObjectDeleted(object=gone):
                self.objects.pop(gone.metadata.uid, None)
            case RelistCompleted():
                self.objects = {uid: version for uid, version in self.objects.items() if uid in self._listed}


class Faults:
    """A middleware that spoils lists often, and every watch sooner or later, for as long as it is on."""

    def __init__(self, chance: random.Random) -> None:
        self.on = True
        self.done = 0
        self._chance = chance

    async def __call__(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        spared = "watch" not in request.query and self._chance.random() < 0.7
        if spared or not self.on:
            return await handler(request)
        self.done += 1
        transport = request.transport
        assert transport is not None
        match self._chance.randrange(8):
            case 0:
                transport.abort()
                return web.Response()
            case 1:
                raise Refused(429, "TooManyRequests", "slow down")
            case 2:
                raise Refused(410, "Expired", "too old resource version")
            case 3:
                raise Refused(500, "InternalError", "boom")
            case _:
                asyncio.get_running_loop().call_later(self._chance.random() * 0.03, transport.abort)
                return await handler(request)


async def disturb(client: KubeClient, server: Api, chance: random.Random, spoiled: Callable[[], bool]) -> None:
    """Create, change, unlabel, label and delete objects at random, and compact now and then.

    How often a request meets a fault depends on the machine, so it goes on until enough was spoiled.
    """
    steps = 0
    while steps < STEPS or not spoiled():
        steps += 1
        # That the object is there already, or is not there, is part of the game.
        with suppress(NotFound, AlreadyExists):
            await one_step(client, f"cdc-{chance.randrange(OBJECTS)}", chance)
        if chance.random() < 0.05:
            server.compact()


async def one_step(client: KubeClient, name: str, chance: random.Random) -> None:
    match chance.randrange(5):
        case 0:
            await client.create(names.CDCS, NAMESPACE, clique(name, labels={LABEL: "x"}))
        case 1:
            await patched(client, name, {"annotations": {"n": str(chance.random())}})
        case 2:
            await patched(client, name, {"labels": {LABEL: None}})
        case 3:
            await patched(client, name, {"labels": {LABEL: "y"}})
        case _:
            await deleted(client, name)


async def patched(client: KubeClient, name: str, metadata: dict[str, object]) -> None:
    await client.patch(names.CDCS, NAMESPACE, name, msgspec.json.encode({"metadata": metadata}), kind="merge")


async def deleted(client: KubeClient, name: str) -> None:
    body = await client.get(names.CDCS, NAMESPACE, name)
    uid = msgspec.json.decode(body, type=ComputeDomainClique).metadata.uid
    await client.delete(names.CDCS, NAMESPACE, name, uid=uid)


def truth(server: Api) -> dict[str, int]:
    return {
        each["metadata"]["uid"]: int(each["metadata"]["resourceVersion"]) for each in server.store.snapshot(SELECTOR)
    }


@pytest.mark.parametrize("seed", range(6))
async def test_the_view_ends_equal_to_the_objects(seed: int) -> None:
    chance = random.Random(seed)
    server = api_of([names.CDCS])
    faults, view = Faults(chance), View()
    timeouts = Timeouts(connect_s=5.0, request_s=10.0, watch_slack_s=5.0)
    async with (
        served(application(server, web.middleware(faults))) as faulty,
        served(application(server)) as sound,
        client_of(faulty, timeouts) as client,
        client_of(sound, timeouts) as writer,
    ):
        reflector = Reflector(
            client,
            SELECTOR,
            view.take,
            clock=ScriptedClock(),
            backoff=Backoff(BackoffPolicy(), chance.random),
            random=chance.random,
            observer=Noted(),
            settings=ReflectorSettings(page=3, watch_s=1.0),
        )
        task = asyncio.create_task(reflector.run())
        async with asyncio.timeout(HANG_S):
            await disturb(writer, server, chance, lambda: faults.done > 5 and view.relists > 1)
        await writer.create(names.CDCS, NAMESPACE, clique("left", labels={LABEL: "x"}))
        faults.on = False
        expected = truth(server)
        async with asyncio.timeout(HANG_S):
            while view.objects != expected and not task.done():  # noqa: ASYNC110 - the view is a plain dict
                await asyncio.sleep(0.005)
        task.cancel()
        (result,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(result, asyncio.CancelledError), result
    assert view.objects == expected

"""The simulated API server keeps the contract of a real one, and refuses what a careless fake would accept."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import msgspec
import pytest
from aiohttp import web

from kube import names
from kube.client import Expired, KubeClient
from kube.envelopes import ListPage
from kube.objects import Node
from kube.transport import Timeouts
from simulation.api import Api
from simulation.apiserver import Handler, application
from simulation.client import SimulatedClient
from tests.kube.contract import ClientContract, events, new_name, node, nodes, version_now
from tests.kube.serving import api_of, client_of, served

KINDS = (names.NODES, names.PODS, names.COMPUTE_DOMAINS, names.CDCS)


@pytest.fixture
def api() -> Api:
    return api_of(KINDS, with_status={names.NODES, names.PODS, names.COMPUTE_DOMAINS})


@pytest.fixture
async def client(api: Api) -> AsyncIterator[KubeClient]:
    async with served(application(api)) as server, client_of(server, Timeouts()) as client:
        yield client


@pytest.fixture
def watch_s() -> float:
    return 1.0


class TestSimulatedApiServer(ClientContract):
    """The contract, on the simulated server."""

    @pytest.fixture(autouse=True)
    async def history(self, api: Api, client: KubeClient) -> None:
        """Like a real server, it has lived before the test: version 1 is long gone."""
        await nodes(client, 1)
        api.compact()


class TestSimulatedClient(TestSimulatedApiServer):
    """The contract, on the same server without HTTP."""

    @pytest.fixture
    def client(self, api: Api) -> KubeClient:
        return SimulatedClient(api)


async def test_a_version_that_never_was_is_refused(client: KubeClient) -> None:
    selector = await nodes(client, 1)
    future = str(int(await version_now(client, selector)) + 1000)
    with pytest.raises(Expired):
        await events(client, selector, future, 1)


async def test_a_list_that_was_compacted_away_cannot_be_continued(api: Api, client: KubeClient) -> None:
    selector = await nodes(client, 3)
    first = msgspec.json.decode(await client.list(selector, limit=1), type=ListPage[Node])
    api.compact()
    with pytest.raises(Expired):
        await client.list(selector, limit=1, token=first.metadata.token)


async def test_a_watch_from_the_newest_version_outlives_compaction(api: Api, client: KubeClient) -> None:
    selector = await nodes(client, 1)
    api.compact()
    version = await version_now(client, selector)
    await client.create(names.NODES, "", node(new_name(), {}))
    seen = await events(client, selector, version, 1)
    assert [event.type for event in seen] == ["BOOKMARK"]


async def test_a_client_that_goes_away_in_the_middle_of_its_request_is_no_error(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    asked = asyncio.Event()

    @web.middleware
    async def tell(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        finally:
            asked.set()

    async with served(application(api, tell)) as server:
        address = urlsplit(server)
        _, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(b"POST /api/v1/nodes HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.close()
        await writer.wait_closed()
        async with asyncio.timeout(10):
            await asked.wait()
    assert caplog.records == []

"""The HTTP client sends what it should, once, and each way to get no answer has its error."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from kube import names, transport
from kube.client import BadRequest, KubeClient, Selector, TooLarge, Unreachable
from kube.transport import Timeouts, path_of, split_lines
from tests.kube.scripted import ScriptedServer, bookmark, dropped, page, whole
from tests.kube.serving import client_of, served

NODES = Selector(names.NODES)
QUICK = Timeouts(connect_s=0.2, request_s=0.2, watch_slack_s=0.1)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    return ScriptedServer()


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[KubeClient]:
    async with served(server.application()) as url, client_of(url, Timeouts()) as client:
        yield client


async def watch(client: KubeClient) -> list[bytes]:
    return [line async for line in client.watch(NODES, resource_version="1", timeout_s=0.1)]


async def test_requests_name_their_sender_and_ask_for_plain_json(client: KubeClient, server: ScriptedServer) -> None:
    seen: dict[str, str] = {}

    async def reply(request: web.Request) -> web.StreamResponse:
        seen.update(request.headers)
        return await page(1)(request)

    server.lists += [reply]
    await client.list(NODES)
    assert seen["User-Agent"].startswith("cliquelog/")
    assert (seen["Accept"], seen["Accept-Encoding"]) == ("application/json", "identity")
    assert "Authorization" not in seen


async def test_a_list_asks_for_no_version_unless_told(client: KubeClient, server: ScriptedServer) -> None:
    server.lists += [page(1), page(1), page(1)]
    await client.list(Selector(names.PODS, "a b", "x in (y,z)"), limit=7)
    await client.list(NODES, limit=0, resource_version="5")
    await client.list(NODES, token="a+b/c=")  # noqa: S106
    assert server.asked("list") == [
        {"labelSelector": "x in (y,z)", "limit": "7"},
        {"resourceVersion": "5", "resourceVersionMatch": "NotOlderThan"},
        {"limit": "500", "continue": "a+b/c="},
    ]


@pytest.mark.parametrize("call", [lambda client: client.list(NODES), watch], ids=["list", "watch"])
async def test_a_server_that_never_answers_is_unreachable(
    server: ScriptedServer, call: Callable[[KubeClient], Awaitable[object]]
) -> None:
    async with served(server.application()) as url, client_of(url, QUICK) as client:
        with pytest.raises(Unreachable, match="no answer in time"):
            await call(client)


@pytest.mark.parametrize("call", [lambda client: client.list(NODES), watch], ids=["list", "watch"])
async def test_a_dropped_connection_is_unreachable_and_the_request_was_sent_once(
    client: KubeClient, server: ScriptedServer, call: Callable[[KubeClient], Awaitable[object]]
) -> None:
    script = server.watches if call is watch else server.lists
    script += [dropped(), whole(b"{}")]
    with pytest.raises(Unreachable):
        await call(client)
    assert len(server.requests) == 1


async def test_a_server_that_is_not_there_is_unreachable(unused_tcp_port: int) -> None:
    async with client_of(f"http://127.0.0.1:{unused_tcp_port}", Timeouts()) as client:
        with pytest.raises(Unreachable) as caught:
            await client.list(NODES)
    assert str(caught.value) == f"GET /api/v1/nodes: no connection to 127.0.0.1:{unused_tcp_port} (Connection refused)"


async def test_a_server_without_tls_is_told_from_one_that_is_not_there(server: ScriptedServer) -> None:
    async with served(server.application()) as url, client_of(url.replace("http:", "https:"), Timeouts()) as client:
        with pytest.raises(Unreachable, match=r"no TLS connection to 127\.0\.0\.1:[0-9]+: it may speak plain HTTP"):
            await client.list(NODES)


async def test_an_answer_that_is_cut_short_is_unreachable(client: KubeClient, server: ScriptedServer) -> None:
    server.lists += [server.stream(b'{"metadata":', end="reset")]
    with pytest.raises(Unreachable):
        await client.list(NODES)


async def test_an_answer_that_is_too_long_is_given_up(
    client: KubeClient, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "BODY_LIMIT", 1000)
    server.lists += [whole(b"x" * 1000), whole(b"x" * 1001)]
    assert len(await client.list(NODES)) == 1000
    with pytest.raises(TooLarge, match="longer than 1000 bytes"):
        await client.list(NODES)


async def test_a_redirect_is_refused_and_not_followed(client: KubeClient, server: ScriptedServer) -> None:
    server.lists += [whole(b"", 302, Location="/elsewhere"), page(1)]
    with pytest.raises(BadRequest):
        await client.list(NODES)
    assert len(server.requests) == 1


async def test_a_proxy_of_the_environment_is_not_used(
    client: KubeClient, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{unused_tcp_port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.lists += [page(1)]
    await client.list(NODES)
    assert len(server.asked("list")) == 1


async def test_a_watch_that_is_closed_early_lets_its_connection_go(client: KubeClient, server: ScriptedServer) -> None:
    gone = asyncio.Event()

    async def reply(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while not server.closing.is_set():
                await response.write(bookmark(5))
                await asyncio.sleep(0.005)
        except ConnectionResetError:
            gone.set()
            raise
        return response

    server.watches += [reply]
    lines = client.watch(NODES, resource_version="1", timeout_s=60)
    assert await anext(lines) == bookmark(5).strip()
    assert not gone.is_set()
    await lines.aclose()
    await asyncio.wait_for(gone.wait(), 10)


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_be_another_path_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a path"):
        path_of(names.NODES, "", name)
    with pytest.raises(ValueError, match="not a path"):
        path_of(names.PODS, "..", "a")


def test_a_name_stays_one_segment_of_the_path() -> None:
    assert path_of(names.NODES, "", "a/../b?c#d%") == "/api/v1/nodes/a%2F..%2Fb%3Fc%23d%25"
    assert path_of(names.CDCS, "ns") == "/apis/resource.nvidia.com/v1beta1/namespaces/ns/computedomaincliques"
    assert path_of(names.CDCS, "") == "/apis/resource.nvidia.com/v1beta1/computedomaincliques"
    assert path_of(names.NODES, "ignored", "n", "status") == "/api/v1/nodes/n/status"


async def chunks_of(body: bytes, cuts: list[int]) -> AsyncIterator[bytes]:
    start = 0
    for cut in [*sorted(cuts), len(body)]:
        yield body[start:cut]
        start = max(start, cut)


@given(lines=st.lists(st.binary(min_size=0, max_size=9), max_size=8), data=st.data(), ended=st.booleans())
async def test_lines_are_the_same_however_the_stream_is_cut(
    lines: list[bytes], data: st.DataObject, *, ended: bool
) -> None:
    lines = [each.replace(b"\n", b"") for each in lines]
    body = b"\n".join(lines) + (b"\n" if ended else b"")
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=6))
    given_back = [line async for line in split_lines(chunks_of(body, cuts), 9)]
    assert given_back == [line for line in lines if line]


@given(size=st.integers(0, 30), data=st.data(), ended=st.booleans())
async def test_a_line_beyond_the_limit_is_refused_however_the_stream_is_cut(
    size: int, data: st.DataObject, *, ended: bool
) -> None:
    body = b"ok\n" + b"x" * size + (b"\n" if ended else b"")
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=6))
    got: list[bytes] = []
    try:
        got = [line async for line in split_lines(chunks_of(body, cuts), 10)]
    except TooLarge:
        assert size > 10
    else:
        assert size <= 10
        assert got == [line for line in (b"ok", b"x" * size) if line]

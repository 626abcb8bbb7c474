"""The status server over a real socket."""

import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request

from controller.http import ANSWER_MAX, StatusServer, Unanswered, ask
from controller.metrics import Metrics
from controller.writing.coalescer import Depth


class State:
    """What the checks answer."""

    def __init__(self) -> None:
        self.live: str | None = None
        self.ready: str | None = None
        self.metrics = Metrics()
        self.base = ""
        self.asked: list[str] = []
        self.busy = False
        self.server = StatusServer(lambda: self.live, lambda: self.ready, self.metrics, self.explain)

    async def explain(self, name: str) -> bytes:
        if self.busy:
            raise Unanswered("another question is being answered")
        self.asked.append(name)
        return b'{"answer": 1}'


@pytest.fixture
async def state() -> AsyncIterator[State]:
    result = State()
    port = await result.server.start("127.0.0.1", 0)
    result.base = f"http://127.0.0.1:{port}"
    yield result
    await result.server.close()


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_health_and_readiness_say_ok_or_why_not(state: State) -> None:
    assert await get(state.base + "/healthz") == (200, "ok\n")
    assert await get(state.base + "/readyz") == (200, "ok\n")
    state.live, state.ready = "no record was folded for 60 s", "pods are not listed yet"
    assert await get(state.base + "/healthz") == (503, "no record was folded for 60 s\n")
    assert await get(state.base + "/readyz") == (503, "pods are not listed yet\n")


async def test_metrics_are_served_as_prometheus_reads_them(state: State) -> None:
    state.metrics.request("computedomaincliques", "patch", "409", 0.02)
    state.metrics.leading(leads=True)
    state.metrics.watch_queue(lambda: Depth(wanted=3, in_flight=2, held=1))
    async with aiohttp.ClientSession() as session, session.get(state.base + "/metrics") as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == state.metrics.content_type
        lines = (await response.text()).splitlines()
    assert 'cliquelog_requests_total{code="409",resource="computedomaincliques",verb="patch"} 1.0' in lines
    assert 'cliquelog_conflicts_total{resource="computedomaincliques",verb="patch"} 1.0' in lines
    assert "cliquelog_leader 1.0" in lines
    assert 'cliquelog_queue_length{state="held"} 1.0' in lines


async def test_other_paths_and_methods_are_refused(state: State) -> None:
    assert (await get(state.base + "/"))[0] == 404
    async with aiohttp.ClientSession() as session, session.post(state.base + "/healthz") as response:
        assert response.status == 405


async def test_a_closed_server_frees_its_port_and_may_be_closed_again(state: State) -> None:
    port = int(state.base.rsplit(":", 1)[1])
    await state.server.close()
    await state.server.close()
    with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
        probe.connect(("127.0.0.1", port))


async def test_a_port_that_is_taken_is_an_error_of_the_operating_system(state: State) -> None:
    other = StatusServer(lambda: None, lambda: None, state.metrics, state.explain)
    with pytest.raises(OSError, match="address already in use"):
        await other.start("127.0.0.1", int(state.base.rsplit(":", 1)[1]))
    await other.close()


async def test_why_is_answered_for_one_name_that_can_be_one(state: State) -> None:
    assert await ask(state.base, "gb200-07") == b'{"answer": 1}'
    assert await ask(f"{state.base}/", "driver/daemon-7") == b'{"answer": 1}'
    assert state.asked == ["gb200-07", "driver/daemon-7"]
    for query in ("", "?name=", "?name=a&name=b", "?name=a&more=b", "?name=A_b", "?name=a/b/c", f"?name={'a' * 300}"):
        assert (await get(f"{state.base}/why{query}"))[0] == 400
    assert len(state.asked) == 2


async def test_a_question_that_is_not_answered_now_says_why(state: State) -> None:
    state.busy = True
    assert await get(f"{state.base}/why?name=n") == (503, "another question is being answered\n")
    with pytest.raises(Unanswered, match="answers 503: another question"):
        await ask(state.base, "n")


@pytest.mark.parametrize(
    ("peer", "status"),
    [("127.0.0.1", 200), ("127.9.9.9", 200), ("::1", 200), ("192.0.2.7", 403), ("2001:db8::7", 403), ("", 403)],
)
async def test_why_is_for_loopback_alone_whatever_is_listened_on(state: State, peer: str, status: int) -> None:
    request = make_mocked_request("GET", "/why?name=n").clone(remote=peer)
    assert (await state.server._serve_explanation(request)).status == status
    assert state.asked == (["n"] if status == 200 else [])


async def test_an_answer_without_an_end_is_not_read_to_it(state: State) -> None:
    async def long(_name: str) -> bytes:
        return b"x" * (ANSWER_MAX + 1)

    server = StatusServer(lambda: None, lambda: None, state.metrics, long)
    port = await server.start("127.0.0.1", 0)
    try:
        with pytest.raises(Unanswered):
            await ask(f"http://127.0.0.1:{port}", "n")
    finally:
        await server.close()


@pytest.mark.parametrize("base", ["http://127.0.0.1:1", "no address", "ftp://127.0.0.1:1", "http://[::1", ""])
async def test_a_controller_that_is_not_there_is_told_in_a_sentence(base: str) -> None:
    with pytest.raises(Unanswered) as caught:
        await ask(base, "n")
    assert "ssl:" not in str(caught.value)
    assert str(caught.value).endswith("; check that it runs")

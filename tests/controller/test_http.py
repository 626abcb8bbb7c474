"""The status server over a real socket."""

import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest

from controller.coalescer import Depth
from controller.http import StatusServer
from controller.metrics import Metrics


class State:
    """What the checks answer."""

    def __init__(self) -> None:
        self.live: str | None = None
        self.ready: str | None = None
        self.metrics = Metrics()
        self.base = ""
        self.server = StatusServer(lambda: self.live, lambda: self.ready, self.metrics)


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
    other = StatusServer(lambda: None, lambda: None, state.metrics)
    with pytest.raises(OSError, match="address already in use"):
        await other.start("127.0.0.1", int(state.base.rsplit(":", 1)[1]))
    await other.close()

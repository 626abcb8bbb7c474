"""The client port's contract on a real API server."""

import asyncio
import gc
import select
import socket
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol, Self
from urllib.parse import urlsplit

import msgspec
import pytest
import yaml

from kube.client import KubeClient, Selector
from kube.names import NODES
from kube.transport import connect
from tests.kube.contract import ClientContract

pytestmark = pytest.mark.integration


class ControlPlane(Protocol):
    """What is used of the control plane's fixture."""

    admin_kubeconfig: Path


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[KubeClient]:
    client = await connect(str(control_plane.admin_kubeconfig), None)
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
def watch_s() -> float:
    """A real server sends the bookmark 2 s before it ends a watch."""
    return 5.0


class TestRealApiServer(ClientContract):
    """The contract, on a real API server."""


class OneWayNetwork:
    """A relay on loopback for one connection; from `cut()` on it swallows what the server sends."""

    def __init__(self, server: tuple[str, int]) -> None:
        self._server = server
        self._cut = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._relay)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._listener.close()

    def cut(self) -> None:
        self._cut.set()

    def _relay(self) -> None:
        with self._listener.accept()[0] as client, socket.create_connection(self._server) as server:
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    if ready is client:
                        server.sendall(data)
                    elif not self._cut.is_set():
                        client.sendall(data)


async def _leave_a_watch(kubeconfig: Path, cut: Callable[[], None]) -> None:
    client = await connect(str(kubeconfig), None)
    page = msgspec.json.decode(await client.list(Selector(NODES)))
    lines = client.watch(Selector(NODES), resource_version=page["metadata"]["resourceVersion"], timeout_s=30)
    reading = asyncio.create_task(anext(lines))
    await asyncio.sleep(0.3)
    cut()
    reading.cancel()
    await asyncio.wait({reading})
    await client.close()


def test_a_loop_may_end_as_soon_as_the_client_is_closed(control_plane: ControlPlane, tmp_path: Path) -> None:
    """A watch left early has a TLS connection whose end the server must confirm; it must not outlive the loop."""
    config = control_plane.admin_kubeconfig.read_text()
    address = urlsplit(yaml.safe_load(config)["clusters"][0]["cluster"]["server"])
    assert address.hostname is not None
    assert address.port is not None
    through = tmp_path / "kubeconfig"
    with OneWayNetwork((address.hostname, address.port)) as network:
        through.write_text(config.replace(address.netloc, f"127.0.0.1:{network.port}"))
        asyncio.run(_leave_a_watch(through, network.cut))
        gc.collect()

"""The client port's contract on a real API server."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import pytest

from kube.client import KubeClient
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

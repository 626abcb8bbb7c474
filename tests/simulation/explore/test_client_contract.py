"""Without faults the client of the exploration is the client that it wraps."""

import asyncio

import pytest

from kube import names
from kube.client import KubeClient
from simulation.api import Api
from simulation.client import SimulatedClient
from simulation.explore.checkers.requests import CheckedClient
from simulation.explore.faulty_client import FaultyClient
from tests.kube.contract import ClientContract, nodes
from tests.kube.serving import api_of
from tests.simulation.explore.ports import latency, process


class TestFaultyClient(ClientContract):
    """The client port's contract."""

    @pytest.fixture
    def api(self) -> Api:
        kinds = (names.NODES, names.PODS, names.COMPUTE_DOMAINS, names.CDCS)
        return api_of(kinds, with_status={names.NODES, names.PODS, names.COMPUTE_DOMAINS})

    @pytest.fixture
    async def client(self, api: Api) -> KubeClient:
        alive = process()
        faulty = FaultyClient(SimulatedClient(api), alive, latency(), page=500)
        return CheckedClient(faulty, alive, asyncio.get_running_loop().time, [].append)

    @pytest.fixture
    def watch_s(self) -> float:
        return 1.0

    @pytest.fixture(autouse=True)
    async def history(self, api: Api, client: KubeClient) -> None:
        """Like a real server, it has lived before the test: version 1 is long gone."""
        await nodes(client, 1)
        api.compact()

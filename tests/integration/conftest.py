"""The control planes that the integration tests share, and each test's sandbox on them."""

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.integration import manifests
from tests.integration.api import Api
from tests.integration.broker import build as broker_build
from tests.integration.broker.broker import Broker
from tests.integration.broker.broker import running as running_broker
from tests.integration.controlplane.build import BuildError, Programs, find_programs
from tests.integration.controlplane.cluster import ControlPlane, running
from tests.integration.engines import engine
from tests.integration.sandbox import Sandbox

__all__ = ["engine"]


@pytest.fixture(scope="session")
def programs() -> Programs:
    """The built programs. Without them a test fails: a suite that skips what it is for proves nothing."""
    try:
        return find_programs()
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def control_plane(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane on which everybody may do everything."""
    with running(programs, tmp_path_factory.mktemp("control-plane"), "AlwaysAllow") as plane:
        manifests.install_cluster_scoped(plane)
        yield plane


@pytest.fixture(scope="session")
def rbac_control_plane(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with --authorization-mode=RBAC."""
    with running(programs, tmp_path_factory.mktemp("rbac-control-plane"), "RBAC") as plane:
        manifests.install_cluster_scoped(plane)
        yield plane


@pytest.fixture(scope="session")
def sandbox_names() -> Iterator[str]:
    """Names that are used once in a session."""
    return (f"t{number}" for number in itertools.count(1))


@pytest.fixture
def sandbox(control_plane: ControlPlane, sandbox_names: Iterator[str]) -> Iterator[Sandbox]:
    """A sandbox where everybody may do everything."""
    yield from _sandbox(control_plane, next(sandbox_names))


@pytest.fixture
def rbac_sandbox(rbac_control_plane: ControlPlane, sandbox_names: Iterator[str]) -> Iterator[Sandbox]:
    """A sandbox where the controller may do what deploy/rbac.yaml grants."""
    yield from _sandbox(rbac_control_plane, next(sandbox_names))


def _sandbox(plane: ControlPlane, name: str) -> Iterator[Sandbox]:
    sandbox = Sandbox(plane, name)
    sandbox.set_up()
    yield sandbox
    sandbox.tear_down()


@pytest.fixture
async def api(control_plane: ControlPlane) -> AsyncIterator[Api]:
    """The administrator's requests, and the fake kubelets'."""
    async with Api(control_plane.admin_kubeconfig) as client:
        yield client


@pytest.fixture
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of the test's own, to be killed and frozen: what is done to it would disturb the others."""
    try:
        with running_broker(tmp_path_factory.mktemp("own-broker")) as broker:
            yield broker
    except broker_build.BuildError as error:
        pytest.fail(str(error), pytrace=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let a connection that a test's end cut off in its TLS handshake be closed by the garbage collector.

    asyncio of Python 3.11 leaves the transport of a cancelled handshake open until then, whatever its user does.
    """
    cut_off = (
        "ignore:Exception ignored in. <(socket.socket|_SelectorSocketTransport):pytest.PytestUnraisableExceptionWarning"
    )
    for item in items:
        if item.get_closest_marker("integration"):
            item.add_marker(pytest.mark.filterwarnings(cut_off))

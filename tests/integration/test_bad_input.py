"""What is wrong with the cluster or the disk is said in one sentence; what can pass is waited out."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from controller.exits import API, CONFIGURATION
from tests.controller.bad_input import refused_run
from tests.integration import manifests
from tests.integration.api import Api
from tests.integration.controllers import Controller
from tests.integration.controlplane.build import Programs
from tests.integration.controlplane.cluster import ControlPlane, free_port, running
from tests.integration.domain_views import Domain
from tests.integration.fake_kubelet import FakeKubelet
from tests.integration.sandbox import Sandbox
from tests.integration.waiting import eventually
from tests.mounts import SMALL, mounted

pytestmark = pytest.mark.integration

FABRIC = "1c2a9f5b-7be0-4a53-9d0d-2f7f1f0e3a11.3"


@pytest.fixture(scope="module")
def bare_control_plane(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane on which nothing is installed."""
    with running(programs, tmp_path_factory.mktemp("bare-control-plane"), "AlwaysAllow") as plane:
        yield plane


def changed(kubeconfig: Path, target: Path, **cluster_or_user: str) -> Path:
    """Write a kubeconfig with another server or token."""
    config = yaml.safe_load(kubeconfig.read_text())
    for key, value in cluster_or_user.items():
        config["clusters" if key == "server" else "users"][0]["cluster" if key == "server" else "user"][key] = value
    target.write_text(yaml.safe_dump(config))
    return target


async def test_a_server_at_a_wrong_port_is_told(sandbox: Sandbox, tmp_path: Path) -> None:
    url = f"https://127.0.0.1:{free_port()}"
    kubeconfig = changed(sandbox.controller_kubeconfig(), tmp_path / "kubeconfig", server=url)
    said = await refused_run(tmp_path / "log.sqlite", kubeconfig, code=API)
    assert said.startswith("the API server cannot be reached: ")
    assert said.endswith("check the address in the kubeconfig, and that the server runs")


async def test_credentials_that_the_server_does_not_know_are_told(rbac_sandbox: Sandbox, tmp_path: Path) -> None:
    kubeconfig = changed(rbac_sandbox.controller_kubeconfig(), tmp_path / "kubeconfig", token="nobody's")  # noqa: S106
    said = await refused_run(tmp_path / "log.sqlite", kubeconfig, code=CONFIGURATION)
    assert said.startswith("the API server does not accept the credentials: ")
    assert "nobody's" not in said


async def test_a_service_account_without_roles_is_told_what_it_may_not(rbac_sandbox: Sandbox, tmp_path: Path) -> None:
    plane, namespace = rbac_sandbox.plane, rbac_sandbox.driver_namespace
    plane.kubectl("create", "serviceaccount", "powerless", "--namespace", namespace)
    kubeconfig = plane.service_account_kubeconfig(namespace, "powerless")
    said = await refused_run(tmp_path / "log.sqlite", kubeconfig, "--namespace", namespace, code=API)
    kind = "computedomaincliques.resource.nvidia.com"
    assert said.startswith(f"a permission is missing: to list {kind} in namespace {namespace} (")
    assert said.endswith("; apply the roles in deploy/rbac.yaml")


async def test_missing_crds_are_told_at_the_start_and_waited_for_when_they_go_later(
    bare_control_plane: ControlPlane, tmp_path: Path
) -> None:
    plane, log = bare_control_plane, tmp_path / "log.sqlite"
    said = await refused_run(log, plane.admin_kubeconfig, code=API)
    kind = "computedomaincliques.resource.nvidia.com"
    assert said == f"the API server does not serve {kind} v1beta1; install its CRD from deploy/crds/"

    manifests.install_cluster_scoped(plane)
    sandbox = Sandbox(plane, "bare")
    sandbox.set_up()
    specs = sandbox.nodes(2, FABRIC)
    first, second = [spec.name for spec in specs]
    async with (
        Api(plane.admin_kubeconfig) as api,
        Controller(sandbox, log) as controller,
        FakeKubelet(api, specs) as kubelet,
    ):
        await controller.ready()
        domain = await Domain.create(api, sandbox, "job")
        await kubelet.join(domain.uid, second)
        await domain.all_ready(FABRIC, second)
        await kubelet.join(domain.uid, first)
        before = await domain.all_ready(FABRIC, first, second)
        plane.kubectl("delete", "crd", kind, "--wait=true")

        async def warned() -> bool:
            return f"does not serve {kind}" in controller.output.read_text()

        await eventually(warned, bool, "the controller says which kind is not served")
        manifests.install_cluster_scoped(plane)
        after = await domain.all_ready(FABRIC, first, second)
        assert {node: row["index"] for node, row in after.items()} == {first: 1, second: 0}
        assert {node: row["index"] for node, row in before.items()} == {first: 1, second: 0}
        assert "Traceback" not in controller.output.read_text()
        assert await controller.stop() == 0


async def test_a_disk_that_fills_is_told_and_the_work_goes_on_once_there_is_space(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    place = tmp_path / "small"
    place.mkdir()
    prefix = mounted(SMALL.format(size="2m"), place)
    if not prefix:
        pytest.skip("no right to mount here; tests/eventlog shows that the adapter goes on")
    specs = sandbox.nodes(4, FABRIC)
    *early, late = [spec.name for spec in specs]
    async with (
        Controller(sandbox, place / "log.sqlite", prefix=prefix) as controller,
        FakeKubelet(api, specs) as kubelet,
    ):
        await controller.ready()
        domain = await Domain.create(api, sandbox, "job")
        await kubelet.join(domain.uid, *early)
        before = await domain.all_ready(FABRIC, *early)
        filler = Path(f"/proc/{controller.pid}/root{place}/filler")
        fill(filler)
        ready = True

        async def complaint() -> str:
            nonlocal ready
            ready = not ready
            await kubelet.set_ready(early[0], ready=ready)  # something to record
            return await controller.unready()

        said = await eventually(complaint, bool, "the controller is not ready")
        assert said.startswith("the log cannot be written: ")
        assert "disk is full" in said
        await kubelet.join(domain.uid, late)
        await kubelet.set_ready(early[0], ready=True)
        free(filler)
        after = await domain.all_ready(FABRIC, *early, late)
        assert {node: after[node]["index"] for node in early} == {node: before[node]["index"] for node in early}
        await controller.ready()
        assert "Traceback" not in controller.output.read_text()
        assert await controller.stop() == 0


def fill(path: Path) -> None:
    """Write until the file system is full."""
    with path.open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"\0" * 4096)
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017 - it is how the loop ends


def free(path: Path) -> None:
    """Give the space back."""
    path.unlink()

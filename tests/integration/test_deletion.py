"""The end of a ComputeDomain: whatever state it is in, everything of it goes, and then it goes itself."""

import random
from pathlib import Path

import pytest

from tests.integration.api import Api
from tests.integration.clique_watch import CliqueWatch
from tests.integration.controllers import Controller
from tests.integration.domains import PATIENCE_S, Domain, create_domain, machines, refusals, specs_of
from tests.integration.fake_kubelet import FakeKubelet, Step
from tests.integration.node_objects import NodeSpec
from tests.integration.replays import verify
from tests.integration.sandbox import Sandbox
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration

SIZES = (18, 5)

Nodes = dict[str, list[NodeSpec]]


@pytest.fixture
def nodes(sandbox: Sandbox) -> Nodes:
    return machines(sandbox, SIZES)


@pytest.fixture
def names(nodes: Nodes) -> list[str]:
    return [spec.name for spec in specs_of(nodes)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.sqlite"


async def kinds_left(domain: Domain) -> set[str]:
    """Give the kinds of which there is something of the domain."""
    return {one.split("/")[0] for one in await domain.leftovers()}


EVERYTHING = {
    "computedomains",
    "daemonsets",
    "resourceclaimtemplates",
    "pods",
    "nodes",
    "computedomaincliques",
}


async def sound(log: Path, sandbox: Sandbox, mark: int) -> None:
    """Check that the controller was allowed all that it did, was not throttled, and left a sound log."""
    assert refusals(sandbox, mark, 403, 429) == []
    code, output = await verify(log)
    assert code == 0, output


async def test_a_formed_domain_goes_with_all_that_was_made_for_it(
    api: Api, sandbox: Sandbox, nodes: Nodes, names: list[str], log: Path
) -> None:
    mark = sandbox.plane.audit.mark()
    async with Controller(sandbox, log) as controller, FakeKubelet(api, specs_of(nodes)) as kubelet:
        await controller.ready()
        domain = await create_domain(api, sandbox, "job")
        await kubelet.join(domain.uid, *names)
        await domain.formed(nodes)
        assert await kinds_left(domain) == EVERYTHING
        await domain.delete()
        await domain.gone()
        assert await controller.stop() == 0
    await sound(log, sandbox, mark)


def deletions(sandbox: Sandbox, mark: int) -> list[str]:
    """Name the CDCs that the controller asked to delete since the mark."""
    requests = sandbox.plane.audit.requests(
        mark, user=sandbox.controller_user, verbs={"delete"}, resource="computedomaincliques"
    )
    return [request.object_ref.name for request in requests]


async def test_the_controller_takes_no_rows_away_until_the_last_daemon_has_gone(
    api: Api, sandbox: Sandbox, nodes: Nodes, names: list[str], log: Path
) -> None:
    mark = sandbox.plane.audit.mark()
    async with (
        Controller(sandbox, log) as controller,
        FakeKubelet(api, specs_of(nodes)) as kubelet,
        CliqueWatch(api, sandbox) as watch,
    ):
        await controller.ready()
        domain = await create_domain(api, sandbox, "job")
        await kubelet.join(domain.uid, *names)
        rows = await domain.formed(nodes)
        last = names[0]
        kubelet.hold(Step.GONE, last)
        await domain.delete()

        async def pods() -> int:
            return sum(one.startswith("pods/") for one in await domain.leftovers())

        await eventually(pods, lambda count: count == 1, "one daemon is left")
        # The garbage collector may be quicker: a CDC is owned by the DaemonSet, which does not wait for its pods.
        assert deletions(sandbox, mark) == []
        assert "computedomains" in await kinds_left(domain)
        kubelet.release(Step.GONE, last)
        await domain.gone()
        assert await controller.stop() == 0
    assert {version.name for version in watch.versions if version.deleted} == {
        f"{domain.uid}.{clique}" for clique in rows
    }


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_controller_killed_in_the_middle_of_a_deletion_finishes_it_later(
    api: Api, sandbox: Sandbox, nodes: Nodes, names: list[str], log: Path, seed: int
) -> None:
    dice = random.Random(seed)
    mark = sandbox.plane.audit.mark()
    async with Controller(sandbox, log) as controller, FakeKubelet(api, specs_of(nodes)) as kubelet:
        await controller.ready()
        domain = await create_domain(api, sandbox, "job")
        await kubelet.join(domain.uid, *names)
        await domain.formed(nodes)
        slow = dice.sample(names, 6)
        kubelet.hold(Step.GONE, *slow)
        # What is held stays: these daemons, their two CDCs, the ComputeDomain. The kill comes somewhere before that.
        enough = dice.randint(len(slow) + 4, len(await domain.leftovers()) - 1)
        await domain.delete()

        async def left() -> int:
            return len(await domain.leftovers())

        await eventually(left, lambda count: count <= enough, "the deletion has got so far", PATIENCE_S)
        await controller.kill()
        kubelet.release(Step.GONE, *slow[:3])
        await controller.start()
        await controller.ready()
        await controller.kill()
        # The last daemons go while nobody looks: only the next complete list shows it.
        kubelet.release(Step.GONE, *slow)
        await controller.start()
        await domain.gone()
        assert await controller.stop() == 0
    await sound(log, sandbox, mark)


async def test_a_half_formed_domain_goes_and_a_node_that_joins_too_late_is_let_go(
    api: Api, sandbox: Sandbox, nodes: Nodes, names: list[str], log: Path
) -> None:
    mark = sandbox.plane.audit.mark()
    *early, late = names
    async with Controller(sandbox, log) as controller, FakeKubelet(api, specs_of(nodes)) as kubelet:
        kubelet.hold(Step.ADDRESS, *early[::2])
        kubelet.hold(Step.GONE, early[1])
        await controller.ready()
        domain = await create_domain(api, sandbox, "job")
        await kubelet.join(domain.uid, *early)

        async def ready_rows() -> int:
            rows = await domain.rows()
            return sum(row["status"] == "Ready" for found in rows.values() for row in found)

        await eventually(ready_rows, lambda count: count == len(early[1::2]), "half of the rows are Ready")
        await domain.delete()
        await eventually(lambda: kinds_left(domain), lambda kinds: "nodes" not in kinds, "no node has the label")
        await kubelet.join(domain.uid, late)
        await eventually(lambda: kinds_left(domain), lambda kinds: "nodes" not in kinds, "the late node is let go")
        assert "pods" in await kinds_left(domain)
        kubelet.release(Step.GONE, early[1])
        await domain.gone()
        assert await controller.stop() == 0
    await sound(log, sandbox, mark)


async def test_a_domain_that_is_deleted_while_no_controller_runs_goes_once_one_does(
    api: Api, sandbox: Sandbox, nodes: Nodes, names: list[str], log: Path
) -> None:
    async with Controller(sandbox, log) as controller, FakeKubelet(api, specs_of(nodes)) as kubelet:
        await controller.ready()
        domain = await create_domain(api, sandbox, "job")
        await kubelet.join(domain.uid, *names)
        await domain.formed(nodes)
        await controller.kill()
        await domain.delete()
        assert await kinds_left(domain) == EVERYTHING
        await controller.start()
        await domain.gone()
        assert await controller.stop() == 0

"""Two controllers on one log: at once without a Lease, and one after the other with it."""

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.api import Api, Object
from tests.integration.clique_watch import CliqueWatch, doubled, renumbered, shaken, vanished
from tests.integration.controllers import Controller
from tests.integration.domains import (
    Rows,
    allowed,
    clique_writes,
    create_domain,
    indices,
    machines,
    refusals,
    specs_of,
)
from tests.integration.fake_kubelet import FakeKubelet
from tests.integration.replays import verify
from tests.integration.sandbox import Sandbox

pytestmark = pytest.mark.integration

LEASE = "cliquelog-controller"


def row_of(rows: Rows, node: str) -> Object:
    """Give a node's row."""
    return next(row for row in itertools.chain(*rows.values()) if row["nodeName"] == node)


def moved(node: str, address: str) -> Callable[[Rows], bool]:
    """Give a check that the node's row shows another address."""
    return lambda rows: row_of(rows, node)["ipAddress"] != address


async def test_two_controllers_at_once_give_no_index_twice_and_let_no_row_flap(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    nodes = machines(sandbox)
    specs = specs_of(nodes)
    log = tmp_path / "log.sqlite"
    async with (
        FakeKubelet(api, specs) as kubelet,
        CliqueWatch(api, sandbox) as watch,
        Controller(sandbox, log) as one,
        Controller(sandbox, log) as other,
    ):
        await one.ready()
        await other.ready()
        mark = sandbox.plane.audit.mark()
        domain = await create_domain(api, sandbox, "job")
        await kubelet.join(domain.uid, *(spec.name for spec in specs))
        rows = await domain.formed(nodes)
        await watch.caught_up()
        writes = clique_writes(sandbox, mark)
        counts = {name[-1]: f"{len(times)} of {2 * allowed(times)}" for name, times in writes.items()}
        conflicts = Counter(one.split("/")[0] for one in refusals(sandbox, mark, 409))
        print(f"writes by clique: {counts}; conflicts: {dict(conflicts)}")
        assert shaken(watch.versions) == []
        for name, times in writes.items():
            assert len(times) <= 2 * allowed(times), f"{name}: {len(times)} writes"
        assert refusals(sandbox, mark, 403, 422, 429) == []

        await one.kill()
        again = specs[0].name
        await kubelet.restart(again)
        later = await domain.formed(nodes, moved(again, row_of(rows, again)["ipAddress"]))
        assert indices(later) == indices(rows)
        await watch.caught_up()
        assert await other.stop() == 0
    assert doubled(watch.versions) == []
    assert renumbered(watch.versions) == []
    assert vanished(watch.versions) == []
    code, output = await verify(log)
    assert code == 0, output


async def holder(api: Api, sandbox: Sandbox) -> str:
    """Give whom the Lease names."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{sandbox.driver_namespace}/leases/{LEASE}"
    return str((await api.get(path))["spec"].get("holderIdentity", ""))


async def test_with_a_lease_one_controller_acts_and_the_next_takes_over(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    nodes = machines(sandbox, (18, 5))
    specs = specs_of(nodes)
    log = tmp_path / "log.sqlite"

    def contender(name: str) -> Controller:
        return Controller(sandbox, log, "--leader-election-enabled", "--pod-name", name)

    async with (
        FakeKubelet(api, specs) as kubelet,
        CliqueWatch(api, sandbox) as watch,
        contender("first") as first,
    ):
        await first.ready()
        async with contender("second") as second:
            await second.answers(503, "Lease", "waits for the Lease")
            domain = await create_domain(api, sandbox, "job")
            await kubelet.join(domain.uid, *(spec.name for spec in specs))
            rows = await domain.formed(nodes)
            await second.answers(503, "Lease", "still waits")

            await first.kill()
            assert (await holder(api, sandbox)).startswith("first-"), "the dead cannot release"
            again = specs[0].name
            await kubelet.restart(again)
            await second.ready()
            rows_after_kill = await domain.formed(nodes, moved(again, row_of(rows, again)["ipAddress"]))
            assert indices(rows_after_kill) == indices(rows)

            await first.start()
            await first.answers(503, "Lease", "waits for the Lease")
            assert await second.stop() == 0
            assert not (await holder(api, sandbox)).startswith("second-"), "who stops releases"
            await first.ready()
            assert (await holder(api, sandbox)).startswith("first-")
            await kubelet.restart(again)
            rows_after_stop = await domain.formed(nodes, moved(again, row_of(rows_after_kill, again)["ipAddress"]))
            assert indices(rows_after_stop) == indices(rows)
        await watch.caught_up()
        assert await first.stop() == 0
    assert renumbered(watch.versions) == []
    assert vanished(watch.versions) == []
    code, output = await verify(log)
    assert code == 0, output

"""Two controllers on one log: at once without a Lease, and one after the other with it."""

import asyncio
import contextlib
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.exits import LEADERSHIP
from tests.integration.api import Api
from tests.integration.clique_watch import CliqueWatch, doubled, renumbered, shaken, vanished
from tests.integration.controllers import Controller
from tests.integration.domains import (
    Rows,
    allowed,
    by_name,
    clique_writes,
    create_domain,
    indices,
    machines,
    refusals,
    specs_of,
)
from tests.integration.fake_kubelet import FakeKubelet, Step, Timing
from tests.integration.replays import Replay, by_node, verify
from tests.integration.sandbox import Sandbox

pytestmark = pytest.mark.integration

LEASE = "cliquelog-controller"
SLOW: Timing = {Step.ADDRESS: (0.0, 2.0), Step.LABEL: (0.0, 0.5), Step.READY: (0.0, 3.0), Step.GONE: (0.0, 0.05)}
DEATHS = 8


def moved(node: str, address: str) -> Callable[[Rows], bool]:
    """Give a check that the node's row shows another address."""
    return lambda rows: by_name(rows)[node]["ipAddress"] != address


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
        later = await domain.formed(nodes, moved(again, by_name(rows)[again]["ipAddress"]))
        assert indices(later) == indices(rows)
        await watch.caught_up()
        assert await other.stop() == 0
    assert doubled(watch.versions) == []
    assert renumbered(watch.versions) == []
    assert vanished(watch.versions) == []
    code, output = await verify(log)
    assert code == 0, output


@pytest.mark.parametrize("seed", [1])
async def test_two_controllers_that_die_in_turns_leave_no_trace_in_the_rows(
    api: Api, sandbox: Sandbox, tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)
    nodes = machines(sandbox)
    names = dice.sample([spec.name for spec in specs_of(nodes)], sum(len(group) for group in nodes.values()))
    log = tmp_path / "log.sqlite"
    mark = sandbox.plane.audit.mark()
    domain = await create_domain(api, sandbox, "job")
    async with (
        FakeKubelet(api, specs_of(nodes), timing=SLOW, seed=seed) as kubelet,
        CliqueWatch(api, sandbox) as watch,
        Controller(sandbox, log) as one,
        Controller(sandbox, log) as other,
    ):
        for number in range(DEATHS):
            await kubelet.join(domain.uid, *names[number :: DEATHS + 1])
            dying, living = (one, other) if number % 2 else (other, one)
            await living.ready()
            await asyncio.sleep(dice.uniform(0.0, 1.5))
            await dying.kill()
            await dying.start()
        await kubelet.join(domain.uid, *names[DEATHS :: DEATHS + 1])
        rows = await domain.formed(nodes)
        await watch.caught_up()
        assert await one.stop() == 0
        assert await other.stop() == 0
    assert doubled(watch.versions) == []
    assert renumbered(watch.versions) == []
    assert vanished(watch.versions) == []
    assert shaken(watch.versions) == []
    assert refusals(sandbox, mark, 403, 422, 429) == []
    code, output = await verify(log)
    assert code == 0, output
    replay = await Replay.of(log)
    assert by_node(replay.rows(domain.uid)) == by_node(rows)


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
            rows_after_kill = await domain.formed(nodes, moved(again, by_name(rows)[again]["ipAddress"]))
            assert indices(rows_after_kill) == indices(rows)

            await first.start()
            await first.answers(503, "Lease", "waits for the Lease")
            assert await second.stop() == 0
            assert not (await holder(api, sandbox)).startswith("second-"), "who stops releases"
            await first.ready()
            assert (await holder(api, sandbox)).startswith("first-")
            await kubelet.restart(again)
            rows_after_stop = await domain.formed(nodes, moved(again, by_name(rows_after_kill)[again]["ipAddress"]))
            assert indices(rows_after_stop) == indices(rows)
        await watch.caught_up()
        assert await first.stop() == 0
    assert renumbered(watch.versions) == []
    assert vanished(watch.versions) == []
    code, output = await verify(log)
    assert code == 0, output


def is_locked(log: Path) -> bool:
    """Tell whether somebody is in the middle of a transaction on the log."""
    with contextlib.closing(sqlite3.connect(log, timeout=0.0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        connection.execute("ROLLBACK")
        return False


async def freeze(controller: Controller, log: Path) -> None:
    """Freeze the controller, but not in a transaction: nobody else could write the log until it goes on."""
    controller.freeze()
    while is_locked(log):
        controller.thaw()
        await asyncio.sleep(0.02)
        controller.freeze()


async def test_a_leader_that_stood_still_past_its_lease_ends_and_changes_nothing(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    nodes = machines(sandbox, (18, 5))
    specs = specs_of(nodes)
    log = tmp_path / "log.sqlite"
    early, late = [spec.name for spec in specs[::2]], [spec.name for spec in specs[1::2]]
    async with (
        FakeKubelet(api, specs) as kubelet,
        CliqueWatch(api, sandbox) as watch,
        Controller(sandbox, log, "--leader-election-enabled") as old,
        contextlib.AsyncExitStack() as stack,
    ):
        await old.ready()
        domain = await create_domain(api, sandbox, "job")
        await kubelet.join(domain.uid, *early)
        await watch.more_than(0)
        await freeze(old, log)
        new = await stack.enter_async_context(Controller(sandbox, log, "--leader-election-enabled"))
        await new.ready()
        await kubelet.join(domain.uid, *late)
        rows = await domain.formed(nodes)
        again = early[0]
        await kubelet.restart(again)
        rows = await domain.formed(nodes, moved(again, by_name(rows)[again]["ipAddress"]))
        await watch.caught_up()
        seen = len(watch.versions)
        old.thaw()
        assert await old.ended() == LEADERSHIP
        await watch.caught_up()
        assert watch.versions[seen:] == []
        assert await domain.rows() == rows
        assert await new.stop() == 0
    assert doubled(watch.versions) == []
    assert renumbered(watch.versions) == []
    assert vanished(watch.versions) == []
    code, output = await verify(log)
    assert code == 0, output

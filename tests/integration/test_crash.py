"""The controller killed without warning, again and again, in the middle of a formation: nobody should notice."""

import asyncio
import random
from pathlib import Path

import pytest

from eventlog.events import ControllerStarted
from tests.integration.api import Api
from tests.integration.clique_watch import CliqueWatch, doubled, renumbered, shaken, vanished
from tests.integration.controllers import Controller
from tests.integration.domains import (
    FABRICS,
    PATIENCE_S,
    Domain,
    Rows,
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
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration

SLOW: Timing = {Step.ADDRESS: (0.0, 3.0), Step.LABEL: (0.0, 0.5), Step.READY: (0.0, 5.0), Step.GONE: (0.0, 0.05)}
MOMENTS = ("starting",) * 3 + ("acting",) * 4 + ("writing",) * 3
"""When the controller is killed: before it acts, some time after, or just after a write of its was accepted."""


async def moment(kind: str, dice: random.Random, controller: Controller, watch: CliqueWatch) -> None:
    """Let the controller live until it is to be killed."""
    if kind == "starting":
        await asyncio.sleep(dice.uniform(0.2, 2.0))
    elif kind == "acting":
        await controller.ready()
        await asyncio.sleep(dice.uniform(0.1, 1.2))
    else:
        await watch.more_than(len(watch.versions))
        await asyncio.sleep(dice.uniform(0.0, 0.05))


@pytest.mark.parametrize("seed", [1])
async def test_ten_kills_in_the_middle_of_a_formation_leave_no_trace_in_the_rows(
    api: Api, sandbox: Sandbox, tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)
    nodes = machines(sandbox)
    specs = specs_of(nodes)
    names = dice.sample([spec.name for spec in specs], len(specs))
    moments = dice.sample(MOMENTS, len(MOMENTS))
    log = tmp_path / "log.sqlite"
    mark = sandbox.plane.audit.mark()
    domain = await create_domain(api, sandbox, "job")
    async with (
        FakeKubelet(api, specs, timing=SLOW, seed=seed) as kubelet,
        CliqueWatch(api, sandbox) as watch,
        Controller(sandbox, log) as controller,
    ):
        ready_rows = []
        for number, kind in enumerate(moments):
            await kubelet.join(domain.uid, *names[number :: len(moments) + 1])
            await moment(kind, dice, controller, watch)
            await controller.kill()
            rows = await domain.rows()
            ready_rows.append(sum(row["status"] == "Ready" for found in rows.values() for row in found))
            await controller.start()
        await kubelet.join(domain.uid, *names[len(moments) :: len(moments) + 1])
        await domain.formed(nodes)
        await watch.caught_up()
        assert await controller.stop() == 0
    rows = await domain.rows()
    conflicts = refusals(sandbox, mark, 409)
    counts = {fabric: len(clique_writes(sandbox, mark)[f"{domain.uid}.{fabric}"]) for fabric in FABRICS}
    print(f"Ready rows at each kill: {list(zip(moments, ready_rows, strict=True))}")
    print(f"writes: {sorted(counts.values())}; conflicts: {conflicts}")
    assert doubled(watch.versions) == []
    assert renumbered(watch.versions) == []
    assert vanished(watch.versions) == []
    assert shaken(watch.versions) == []
    assert refusals(sandbox, mark, 403, 422, 429) == []
    code, output = await verify(log)
    assert code == 0, output
    replay = await Replay.of(log)
    assert by_node(replay.rows(domain.uid)) == by_node(rows)
    starts = sum(isinstance(event, ControllerStarted) for events in replay.events.values() for event in events)
    assert starts > MOMENTS.count("acting") + MOMENTS.count("writing"), "the killed controllers had begun their work"
    seen = replay.indices_seen(domain.uid)
    assert {node: found for node, found in seen.items() if len(found) > 1} == {}
    assert sorted(seen) == sorted(names)


async def settled(domain: Domain, present: set[str], before: Rows, restarted: set[str]) -> Rows:
    """Wait until exactly these nodes have rows, all Ready, the restarted ones with new addresses."""

    def holds(rows: Rows) -> bool:
        now, then = by_name(rows), by_name(before)
        return (
            now.keys() == present
            and all(row["status"] == "Ready" for row in now.values())
            and all(now[name]["ipAddress"] != then[name]["ipAddress"] for name in restarted)
        )

    return await eventually(domain.rows, holds, "the rows are those of the daemons that live", PATIENCE_S)


@pytest.mark.parametrize("seed", [1])
async def test_daemons_that_come_and_go_while_no_controller_runs_keep_their_indices(
    api: Api, sandbox: Sandbox, tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)
    nodes = machines(sandbox, (18, 5))
    names = [spec.name for spec in specs_of(nodes)]
    log = tmp_path / "log.sqlite"
    async with (
        FakeKubelet(api, specs_of(nodes), seed=seed) as kubelet,
        CliqueWatch(api, sandbox) as watch,
        Controller(sandbox, log) as controller,
    ):
        domain = await create_domain(api, sandbox, "job")
        for name in dice.sample(names, len(names)):  # one by one: their indices are not in the order of their names
            await kubelet.join(domain.uid, name)
        first = rows = await domain.formed(nodes)
        away: list[str] = []
        for clean in (False, True, True, False):  # after a clean stop there is a snapshot to start from
            await (controller.stop() if clean else controller.kill())
            await kubelet.join(domain.uid, *away)
            away = dice.sample(sorted(by_name(rows)), 3)
            await kubelet.leave(*away)
            restarted = set(dice.sample(sorted(by_name(rows).keys() - set(away)), 5))
            for name in dice.sample(sorted(restarted), len(restarted)):
                await kubelet.restart(name)
            await controller.start()
            rows = await settled(domain, set(names) - set(away), rows, restarted)
            kept = indices(rows)
            assert kept == {name: index for name, index in indices(first).items() if name in kept}
        await kubelet.join(domain.uid, *away)
        await domain.formed(nodes)
        assert indices(await domain.rows()) == indices(first)
        await watch.caught_up()
        assert await controller.stop() == 0
    assert doubled(watch.versions) == []
    assert renumbered(watch.versions) == []
    code, output = await verify(log)
    assert code == 0, output
    replay = await Replay.of(log)
    assert by_node(replay.rows(domain.uid)) == by_node(await domain.rows())

"""Workers of one group: partitions that come and go, a rolling restart, an end in time, and a group too many."""

import asyncio
import re
import signal
from collections.abc import Callable
from pathlib import Path

import aiohttp
import msgspec
import pytest

from controller.exits import CONFIGURATION, LATE
from eventlog.kafka import KafkaPlace
from tests.integration.api import Api
from tests.integration.broker.broker import Broker
from tests.integration.clique_watch import CliqueWatch, doubled, renumbered, shaken, vanished
from tests.integration.controllers import Controller
from tests.integration.domains import PATIENCE_S, by_name, create_domain, indices, machines, refusals, specs_of
from tests.integration.engines import PARTITIONS, Engine, faust_on
from tests.integration.fake_kubelet import FakeKubelet
from tests.integration.replays import Replay, by_node, verify
from tests.integration.sandbox import Sandbox
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration


@pytest.fixture
async def faust(new_place: Callable[[], KafkaPlace]) -> Engine:
    return await faust_on(new_place())


async def assigned(worker: Controller) -> int:
    """Give how many partitions the worker says that it has; -1 if it says nothing yet."""
    try:
        return int(await figure(worker, "cliquelog_partitions_assigned"))
    except aiohttp.ClientError:
        return -1


async def figure(worker: Controller, name: str) -> float:
    """Give one of the worker's metrics, without labels."""
    (found,) = re.findall(rf"^{name} (\S+)$", await worker.metrics(), re.MULTILINE)
    return float(found)


async def share(workers: list[Controller]) -> None:
    """Wait until the workers have shared all partitions evenly, and act."""
    even = PARTITIONS // len(workers)
    for worker in workers:
        await eventually(lambda worker=worker: assigned(worker), lambda count: count == even, f"{even} partitions each")
        await worker.ready()


async def test_partitions_come_and_go_with_the_workers_and_the_rows_stay(
    api: Api, sandbox: Sandbox, faust: Engine, tmp_path: Path
) -> None:
    nodes = machines(sandbox)
    specs = specs_of(nodes)
    names = [spec.name for spec in specs]
    async with (
        FakeKubelet(api, specs) as kubelet,
        CliqueWatch(api, sandbox) as watch,
        faust.controller(sandbox, tmp_path / "one") as one,
    ):
        await one.ready()
        mark = sandbox.plane.audit.mark()
        domain = await create_domain(api, sandbox, "job")
        await kubelet.join(domain.uid, *names[0::4])
        async with faust.controller(sandbox, tmp_path / "two") as two:
            await kubelet.join(domain.uid, *names[1::4])
            await share([one, two])
            await kubelet.join(domain.uid, *names[2::4])
            await eventually(
                domain.rows,
                lambda rows: len(by_name(rows)) == len(names[0::4] + names[1::4] + names[2::4]),
                "rows come",
            )
            # The leader goes: the other one has to observe too.
            assert await one.stop() == 0
            await kubelet.join(domain.uid, *names[3::4])
            rows = await domain.formed(nodes)
            await share([two])
            await one.start()
            await share([one, two])
            await watch.caught_up()
            assert shaken(watch.versions) == []
            await kubelet.restart(names[0])
            again = await domain.formed(
                nodes, lambda now: by_name(now)[names[0]]["ipAddress"] != by_name(rows)[names[0]]["ipAddress"]
            )
            assert indices(again) == indices(rows)
            await watch.caught_up()
            assert await two.stop() == 0
            assert await one.stop() == 0
    assert doubled(watch.versions) == []
    assert renumbered(watch.versions) == []
    assert vanished(watch.versions) == []
    assert refusals(sandbox, mark, 403, 422, 429) == []
    code, output = await verify(faust.place)
    assert code == 0, output
    replay = await Replay.of(faust.place)
    assert by_node(replay.rows(domain.uid)) == by_node(await domain.rows())


async def test_a_worker_that_is_asked_to_end_in_a_rebalance_ends(
    sandbox: Sandbox, faust: Engine, tmp_path: Path
) -> None:
    """Three at once: each joins, and is asked to end while the group still makes room for it or for the others."""
    for turn in range(3):
        workers = [faust.controller(sandbox, tmp_path / f"{turn}-{number}") for number in range(3)]
        async with workers[0] as one, workers[1] as two, workers[2] as three:
            await eventually(lambda one=one: assigned(one), lambda count: count >= 0, "the first listens")
            await asyncio.sleep(turn * 0.7)
            codes = await asyncio.gather(*(worker.stop() for worker in (three, two, one)))
            # One so young that it takes no signals yet is ended by it.
            assert set(codes) <= {0, -signal.SIGTERM}, codes


async def test_a_worker_whose_broker_stands_still_ends_when_it_is_asked_to_and_lets_the_lease_go(
    api: Api, sandbox: Sandbox, own_broker: Broker, new_place: Callable[[], KafkaPlace], tmp_path: Path
) -> None:
    faust = await faust_on(msgspec.structs.replace(new_place(), servers=(own_broker.server,)))
    async with faust.controller(sandbox, tmp_path / "one") as worker:
        await worker.ready()
        own_broker.freeze()
        try:
            assert await worker.stop() in (0, LATE)
        finally:
            own_broker.thaw()
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{sandbox.driver_namespace}/leases"
    lease = await api.get(f"{leases}/cliquelog-controller")
    assert lease["spec"]["holderIdentity"] == ""


async def test_a_second_group_gives_no_index_twice_and_both_are_told_of_each_other(
    api: Api, sandbox: Sandbox, faust: Engine, tmp_path: Path
) -> None:
    nodes = machines(sandbox, (18, 5))
    specs = specs_of(nodes)
    async with (
        FakeKubelet(api, specs) as kubelet,
        CliqueWatch(api, sandbox) as watch,
        faust.controller(sandbox, tmp_path / "one") as one,
        faust.controller(sandbox, tmp_path / "two", "--group", f"{faust.name}-by-mistake") as two,
    ):
        await one.ready()
        await two.ready()
        domain = await create_domain(api, sandbox, "job")
        await kubelet.join(domain.uid, *(spec.name for spec in specs))
        await domain.formed(nodes)
        for worker in (one, two):
            await eventually(
                lambda worker=worker: figure(worker, "cliquelog_other_groups"), lambda count: count == 1, "it is told"
            )
            warnings = [line for line in worker.output.read_text().splitlines() if "another controller works" in line]
            assert len(warnings) == 1, warnings
        await watch.caught_up()
        assert await two.stop() == 0
        assert await one.stop() == 0
    assert doubled(watch.versions) == []
    assert renumbered(watch.versions) == []
    assert vanished(watch.versions) == []
    assert shaken(watch.versions) == []
    code, output = await verify(faust.place)
    assert code == 0, output


async def test_the_partitions_of_a_static_member_wait_for_it_over_a_restart(
    sandbox: Sandbox, faust: Engine, tmp_path: Path
) -> None:
    config = tmp_path / "client.properties"
    # A busy machine takes long to start a process.
    config.write_text("session.timeout.ms=120000\n")
    options = ("--kafka-config", str(config), "--group-instance-id")
    async with (
        faust.controller(sandbox, tmp_path / "one", *options, "one") as one,
        faust.controller(sandbox, tmp_path / "two", *options, "two") as two,
    ):
        await share([one, two])
        before = await figure(one, "cliquelog_rebalances_total")
        assert await two.stop() == 0
        await two.start()
        await share([one, two])
        assert await figure(one, "cliquelog_rebalances_total") == before


async def test_of_two_workers_of_one_name_the_first_one_ends_and_the_other_works_on(
    sandbox: Sandbox, faust: Engine, tmp_path: Path
) -> None:
    name = ("--group-instance-id", "worker-0")
    async with (
        faust.controller(sandbox, tmp_path / "one", *name) as one,
        faust.controller(sandbox, tmp_path / "two", *name) as two,
    ):
        # Which of them joined first, the brokers know.
        first, second = await the_first_to_end(one, two)
        assert await first.ended() == CONFIGURATION
        (told,) = [line for line in first.output.read_text().splitlines() if line.startswith("Error:")]
        assert "as worker-0" in told
        assert "give each process a --group-instance-id (GROUP_INSTANCE_ID) of its own" in told
        await share([second])
        assert await second.stop() == 0


async def the_first_to_end(*workers: Controller) -> tuple[Controller, ...]:
    """Wait until one of the workers has ended; give it, and then the others."""
    await eventually(
        lambda: asyncio.sleep(0, [worker for worker in workers if not worker.is_running]), bool, "a worker ends"
    )
    return tuple(sorted(workers, key=lambda worker: worker.is_running))


async def test_a_static_member_that_stood_still_for_longer_than_a_session_joins_again(
    sandbox: Sandbox, faust: Engine, tmp_path: Path
) -> None:
    config = tmp_path / "client.properties"
    config.write_text("session.timeout.ms=6000\n")
    options = ("--kafka-config", str(config), "--group-instance-id")
    async with (
        faust.controller(sandbox, tmp_path / "one", *options, "one") as one,
        faust.controller(sandbox, tmp_path / "two", *options, "two") as two,
    ):
        await share([one, two])
        two.freeze()
        try:
            await share([one])
        finally:
            two.thaw()
        await share([one, two])


async def test_workers_go_on_or_end_after_a_broker_that_was_frozen_and_one_that_was_killed(
    api: Api, sandbox: Sandbox, own_broker: Broker, new_place: Callable[[], KafkaPlace], tmp_path: Path
) -> None:
    faust = await faust_on(msgspec.structs.replace(new_place(), servers=(own_broker.server,)))
    nodes = machines(sandbox, (18, 5))
    specs = specs_of(nodes)
    names = [spec.name for spec in specs]
    config = tmp_path / "client.properties"
    config.write_text("request.timeout.ms=2000\ndelivery.timeout.ms=5000\n")
    options = ("--kafka-config", str(config))
    async with (
        FakeKubelet(api, specs) as kubelet,
        CliqueWatch(api, sandbox) as watch,
        faust.controller(sandbox, tmp_path / "one", *options) as one,
        faust.controller(sandbox, tmp_path / "two", *options) as two,
    ):
        await share([one, two])
        domain = await create_domain(api, sandbox, "job")
        await kubelet.join(domain.uid, *names[:8])
        own_broker.freeze()
        await asyncio.sleep(15)  # Longer than a session.
        own_broker.thaw()
        await kubelet.join(domain.uid, *names[8:16])
        await eventually(domain.rows, lambda rows: len(by_name(rows)) == 16, "rows come", PATIENCE_S)
        await asyncio.to_thread(own_broker.kill)
        await asyncio.to_thread(own_broker.start)
        await kubelet.join(domain.uid, *names[16:])
        rows = await domain.formed(nodes)
        await watch.caught_up()
        assert await one.stop() == 0
        assert await two.stop() == 0
    assert doubled(watch.versions) == []
    assert renumbered(watch.versions) == []
    assert vanished(watch.versions) == []
    replay = await Replay.of(faust.place)
    assert by_node(replay.rows(domain.uid)) == by_node(rows)

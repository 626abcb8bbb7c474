"""The whole controller in this process, against a simulated API server over HTTP."""

import asyncio
import errno
import json
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from controller.app import Controller
from controller.config import RunConfig
from controller.exits import CONFIGURATION, Failure, explain
from controller.lease import LeaseConfig
from controller.writing.manifests import DaemonDeployment
from controller.writing.pacing import Pace
from eventlog import codec
from eventlog.codec import NewerSchema
from eventlog.events import (
    AnyEvent,
    ClaimTemplateGone,
    ClaimTemplateSeen,
    ControllerStarted,
    DaemonPodGone,
    IndexAssigned,
    NodeGone,
    WatchGap,
)
from eventlog.log import EventLog, SnapshotStore
from eventlog.memory import MemoryLog, MemorySnapshots
from eventlog.record import Entry, Headers
from eventlog.sqlite import SqliteLog, SqliteSnapshots
from kube import names
from kube.client import KubeClient, NotFound, Resource, Selector
from kube.clock import SystemClock
from kube.objects import ObjectMeta
from kube.transport import Timeouts
from projections.settings import Settings
from simulation.api import Api
from simulation.apiserver import application
from tests.kube.serving import api_of, client_of, served

DRIVER, CLIQUE = "driver", "4d1f3a9e-8a64-4d0a-9f0e-1c35f0c6b001.7"
KINDS = (
    *(names.NODES, names.PODS, names.COMPUTE_DOMAINS, names.CDCS, names.DAEMON_SETS, names.CLAIM_TEMPLATES),
    *(names.LEASES, names.EVENTS),
)
WITH_STATUS = {names.NODES, names.PODS, names.COMPUTE_DOMAINS, names.DAEMON_SETS}
QUICK = Pace(early_gather_s=0.05, quiet_s=0.2, first_wait_s=0.05, max_wait_s=0.1, complete_gap_s=0.02, status_gap_s=0.1)
PARTITIONS = 4

Rows = dict[str, tuple[int, str, str]]


class Cluster:
    """The API server with one domain, and the hands of kubelets and DaemonSet controllers."""

    def __init__(self, server: Api, client: KubeClient) -> None:
        self.server = server
        self.client = client
        self.domain = ""
        self._addresses = 0

    async def create_domain(self, name: str) -> None:
        spec = {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": f"{name}-channel"}}}
        self.domain = (await self.create(names.COMPUTE_DOMAINS, "team", name, {}, {"spec": spec})).uid

    async def create(
        self, kind: Resource, namespace: str, name: str, labels: dict[str, str], body: dict[str, Any]
    ) -> ObjectMeta:
        content = {"metadata": {"name": name, "labels": labels}, **body}
        made = json.loads(await self.client.create(kind, namespace, json.dumps(content).encode()))
        return ObjectMeta(made["metadata"]["name"], made["metadata"]["uid"], made["metadata"]["resourceVersion"])

    async def join(self, *nodes: str) -> None:
        """Let the domain's workload come to the nodes: labels, and daemon pods that get an address and get Ready."""
        for node in nodes:
            try:
                await self.label(node, self.domain)
            except NotFound:
                labels = {names.NODE_CLIQUE_LABEL: CLIQUE, names.DOMAIN_LABEL: self.domain}
                await self.create(names.NODES, "", node, labels, {})
        for node in nodes:
            await self.start_daemon(node)

    async def label(self, node: str, domain: str | None) -> None:
        await self.patch(names.NODES, "", node, {"metadata": {"labels": {names.DOMAIN_LABEL: domain}}})

    async def start_daemon(self, node: str) -> None:
        labels = {names.DOMAIN_LABEL: self.domain, names.CLIQUE_LABEL: CLIQUE, names.READER_LABEL: "reader"}
        await self.create(names.PODS, DRIVER, f"daemon-{node}", labels, {"spec": {"nodeName": node}})
        self._addresses += 1
        conditions = [{"type": "Ready", "status": "True"}]
        status = {"phase": "Running", "podIP": f"10.0.0.{self._addresses}", "conditions": conditions}
        await self.patch(names.PODS, DRIVER, f"daemon-{node}", {"status": status}, subresource="status")

    async def leave(self, node: str) -> None:
        """Let the workload end on a node: the label goes, and the daemon with it."""
        await self.label(node, None)
        await self.delete(names.PODS, DRIVER, f"daemon-{node}")

    async def patch(
        self, kind: Resource, namespace: str, name: str, patch: dict[str, Any], *, subresource: str = ""
    ) -> None:
        body = json.dumps(patch).encode()
        await self.client.patch(kind, namespace, name, body, kind="merge", subresource=subresource)

    async def delete(self, kind: Resource, namespace: str, name: str) -> None:
        found = json.loads(await self.client.get(kind, namespace, name))
        await self.client.delete(kind, namespace, name, uid=found["metadata"]["uid"])

    async def told_ready(self) -> bool:
        """Say whether the ComputeDomain's status is Ready."""
        found = json.loads(await self.client.get(names.COMPUTE_DOMAINS, "team", "job"))
        return found.get("status", {}).get("status") == "Ready"

    async def rows(self) -> Rows:
        """Give index, address and status by node, of the domain's clique."""
        try:
            found = json.loads(await self.client.get(names.CDCS, DRIVER, f"{self.domain}.{CLIQUE}"))
        except NotFound:
            return {}
        rows = found.get("daemons", [])
        return {row["nodeName"]: (row.get("index"), row.get("ipAddress", ""), row["status"]) for row in rows}

    async def ready(self, *nodes: str) -> Rows:
        """Wait until exactly these nodes have Ready rows, and give them."""

        async def there() -> bool:
            rows = await self.rows()
            return rows.keys() == set(nodes) and all(status == "Ready" for _, _, status in rows.values())

        await eventually(there)
        return await self.rows()


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await holds():  # noqa: ASYNC110 - the API server announces nothing to a test
            await asyncio.sleep(0.02)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    server = api_of(KINDS, WITH_STATUS)
    async with served(application(server)) as url, client_of(url, Timeouts()) as client:
        cluster = Cluster(server, client)
        await cluster.create_domain("job")
        yield cluster


def controller_of(
    cluster: Cluster,
    log: EventLog,
    snapshots: SnapshotStore,
    identity: str,
    *,
    elect: bool,
    listen: tuple[str, int] | None = None,
) -> Controller:
    config = RunConfig(
        identity=identity,
        version="1",
        log="memory",
        partitions=None,
        settings=Settings(DRIVER),
        deployment=DaemonDeployment(DRIVER, "example.invalid/daemon", 18, 2, reader=True),
        lease=LeaseConfig(DRIVER, "cliquelog", identity) if elect else None,
        listen=listen,
        everywhere=False,
        workers=4,
        pace=QUICK,
    )
    return Controller(
        config,
        log=log,
        snapshots=snapshots,
        client=cluster.client,
        clock=SystemClock(),
        rng=random.Random(1),
        logger=structlog.get_logger(),
    )


@asynccontextmanager
async def running(
    cluster: Cluster, log: EventLog, snapshots: SnapshotStore, identity: str = "a", *, elect: bool = False
) -> AsyncIterator[asyncio.Task[None]]:
    """Run a controller; at the end of the block stop it cleanly, unless it has ended by itself."""
    stop = asyncio.Event()
    life = asyncio.create_task(controller_of(cluster, log, snapshots, identity, elect=elect).run(stop))
    try:
        yield life
    finally:
        stop.set()
        async with asyncio.timeout(60):
            await asyncio.wait({life})
    await life


async def records(log: EventLog, *kinds: type[AnyEvent]) -> Sequence[Any]:
    """Give all events of these kinds."""
    found = []
    for partition in range(log.partitions):
        for record in await log.read(partition, 0, limit=100_000, timeout_s=0):
            event = codec.decode(record)
            if isinstance(event, kinds):
                found.append(event)
    return found


async def test_a_domain_forms(cluster: Cluster) -> None:
    log = MemoryLog(partitions=PARTITIONS)
    async with running(cluster, log, MemorySnapshots()):
        await cluster.join("n0", "n1", "n2")
        rows = await cluster.ready("n0", "n1", "n2")

        async def has_daemons() -> bool:
            # The rows do not wait for it: its steps, one after the other, may take longer.
            found = json.loads(await cluster.client.list(Selector(names.DAEMON_SETS)))["items"]
            return [one["metadata"]["labels"][names.DOMAIN_LABEL] for one in found] == [cluster.domain]

        await eventually(has_daemons)
    assert sorted(index for index, _, _ in rows.values()) == [0, 1, 2]
    assert {address for _, address, _ in rows.values()} == {"10.0.0.1", "10.0.0.2", "10.0.0.3"}
    assert len(await records(log, IndexAssigned)) == 3


async def test_a_restart_keeps_indices_and_tells_what_went_meanwhile(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    log = await SqliteLog.open(path, partitions=PARTITIONS)
    async with running(cluster, log, SqliteSnapshots(log)):
        await cluster.join("n0", "n1", "n2")
        before = await cluster.ready("n0", "n1", "n2")
    await log.close()

    await cluster.leave("n1")
    log = await SqliteLog.open(path, partitions=PARTITIONS)
    async with running(cluster, log, SqliteSnapshots(log), "b"):
        after = await cluster.ready("n0", "n2")
        assert after == {node: before[node] for node in ("n0", "n2")}
        await cluster.join("n1")
        rows = await cluster.ready("n0", "n1", "n2")
        assert rows["n1"][0] == before["n1"][0]
    assert {event.node for event in await records(log, DaemonPodGone) if event.inferred} == {"n1"}
    assert {event.name for event in await records(log, NodeGone) if event.inferred} == {"n1"}
    assert sorted(event.identity for event in await records(log, ControllerStarted)) == ["a", "b"]
    await log.close()


async def test_a_restart_without_changes_writes_nothing(cluster: Cluster) -> None:
    log, snapshots = MemoryLog(partitions=PARTITIONS), MemorySnapshots()
    async with running(cluster, log, snapshots):
        await cluster.join("n0", "n1")
        await cluster.ready("n0", "n1")
        await eventually(cluster.told_ready)
        await quiet(cluster)
    version = cluster.server.store.version
    decided = len(await records(log, IndexAssigned))

    starts = len(await records(log, ControllerStarted))
    async with running(cluster, log, snapshots):

        async def started() -> bool:
            return len(await records(log, ControllerStarted)) > starts

        await eventually(started)
        await quiet(cluster)
    assert cluster.server.store.version == version
    assert len(await records(log, IndexAssigned)) == decided


async def quiet(cluster: Cluster) -> None:
    """Return once nothing was written for a while that is long beside the waits of `QUICK`."""
    version, since = cluster.server.store.version, 0
    while since < 30:
        await asyncio.sleep(0.05)
        since = since + 1 if cluster.server.store.version == version else 0
        version = cluster.server.store.version


async def test_a_deletion_that_the_watch_lost_is_told_by_the_relist(cluster: Cluster) -> None:
    log = MemoryLog(partitions=PARTITIONS)
    async with running(cluster, log, MemorySnapshots()):
        await cluster.join("n0", "n1")
        before = await cluster.ready("n0", "n1")
        await quiet(cluster)
        # Others' writes move the version on; then the history that the watches of pods and nodes need is forgotten.
        await cluster.create(names.EVENTS, "team", "something", {}, {})
        cluster.server.compact()
        await cluster.leave("n1")
        after = await cluster.ready("n0")
    assert after == {"n0": before["n0"]}
    assert {event.resource for event in await records(log, WatchGap)} >= {"pods", "nodes"}
    assert {event.node for event in await records(log, DaemonPodGone) if event.inferred} == {"n1"}


async def test_two_domains_that_want_one_template_leave_it_to_the_first(cluster: Cluster) -> None:
    log = MemoryLog(partitions=PARTITIONS)
    async with running(cluster, log, MemorySnapshots()):
        await cluster.join("n0")
        await cluster.ready("n0")
        first = cluster.domain
        spec = {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "job-channel"}}}
        second = (await cluster.create(names.COMPUTE_DOMAINS, "team", "rival", {}, {"spec": spec})).uid

        async def told() -> bool:
            seen = await records(log, ClaimTemplateSeen)
            return any(not event.owned and event.domain == second for event in seen)

        await eventually(told)
        await quiet(cluster)
    template = json.loads(await cluster.client.get(names.CLAIM_TEMPLATES, "team", "job-channel"))
    assert template["metadata"]["labels"][names.DOMAIN_LABEL] == first
    assert await records(log, ClaimTemplateGone) == []


async def test_a_clean_stop_releases_the_lease_and_saves_snapshots(cluster: Cluster) -> None:
    log, snapshots = MemoryLog(partitions=PARTITIONS), MemorySnapshots()
    async with running(cluster, log, snapshots, elect=True):
        await cluster.join("n0")
        await cluster.ready("n0")
    lease = json.loads(await cluster.client.get(names.LEASES, DRIVER, "cliquelog"))
    assert lease["spec"]["holderIdentity"] == ""
    for partition in range(PARTITIONS):
        end = await log.end_offset(partition)
        saved = await snapshots.load(partition)
        assert (0 if saved is None else saved.next_offset) == end


async def test_a_leader_that_is_stopped_before_it_acts_releases_the_lease_too(cluster: Cluster) -> None:
    log, snapshots = MemoryLog(partitions=PARTITIONS), MemorySnapshots()
    del cluster.server.store._objects[names.PODS]  # So no list of pods completes.

    async def held() -> bool:
        try:
            lease = json.loads(await cluster.client.get(names.LEASES, DRIVER, "cliquelog"))
        except NotFound:
            return False
        return lease["spec"]["holderIdentity"] == "a"

    async with running(cluster, log, snapshots, elect=True):
        await eventually(held)
    assert not await held()


async def test_the_second_takes_over_where_the_first_was(cluster: Cluster) -> None:
    log, snapshots = MemoryLog(partitions=PARTITIONS), MemorySnapshots()
    async with running(cluster, log, snapshots, "a", elect=True):
        await cluster.join("n0", "n1")
        before = await cluster.ready("n0", "n1")
    async with running(cluster, log, snapshots, "b", elect=True):
        await cluster.join("n2")
        after = await cluster.ready("n0", "n1", "n2")
    assert {node: after[node] for node in before} == before
    assert after["n2"][0] == 2


async def test_two_that_both_act_on_one_log_give_each_node_one_index(cluster: Cluster) -> None:
    log = MemoryLog(partitions=PARTITIONS)
    async with running(cluster, log, MemorySnapshots(), "a"), running(cluster, log, MemorySnapshots(), "b"):
        seen: dict[str, int] = {}
        for number in range(6):
            await cluster.join(f"n{number}")
            rows = await cluster.ready(*(f"n{one}" for one in range(number + 1)))
            indices = {node: index for node, (index, _, _) in rows.items()}
            assert {node: indices[node] for node in seen} == seen
            seen = indices
    assert sorted(seen.values()) == list(range(6))


async def test_a_part_that_dies_ends_the_controller_with_its_error(cluster: Cluster) -> None:
    log = MemoryLog(partitions=PARTITIONS)
    newer = Headers("node-seen", codec.SCHEMA_VERSION + 1, "newer")
    controller = controller_of(cluster, log, MemorySnapshots(), "a", elect=True)
    life = asyncio.create_task(controller.run(asyncio.Event()))
    await cluster.join("n0")
    await cluster.ready("n0")
    await log.append([Entry(CLIQUE, 1, newer, b"{}")])
    with pytest.raises(ExceptionGroup) as raised:
        await asyncio.wait_for(life, 60)
    assert raised.group_contains(NewerSchema, match="use a newer cliquelog")
    lease = json.loads(await cluster.client.get(names.LEASES, DRIVER, "cliquelog"))
    assert lease["spec"]["holderIdentity"] == ""


class BrokenSnapshots(MemorySnapshots):
    """Snapshots that cannot be saved, for a reason that is no part of the port."""

    async def save(self, *_: object) -> None:
        raise OSError(errno.EIO, "of the snapshots")


async def test_an_error_of_the_system_in_another_part_is_not_taken_for_one_of_the_address(cluster: Cluster) -> None:
    log, stop = MemoryLog(partitions=PARTITIONS), asyncio.Event()
    controller = controller_of(cluster, log, BrokenSnapshots(), "a", elect=False, listen=("127.0.0.1", 0))
    life = asyncio.create_task(controller.run(stop))
    await cluster.join("n0")
    await cluster.ready("n0")
    stop.set()
    with pytest.raises(OSError, match="of the snapshots") as raised:
        await asyncio.wait_for(life, 60)
    assert explain(raised.value) is None


async def test_an_address_that_is_taken_is_said_in_one_sentence(cluster: Cluster) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = other.getsockname()
        controller = controller_of(
            cluster, MemoryLog(partitions=PARTITIONS), MemorySnapshots(), "a", elect=False, listen=address
        )
        with pytest.raises(Failure) as raised:
            await controller.run(asyncio.Event())
    assert raised.value.exit_code == CONFIGURATION
    assert raised.value.message == (
        f"cannot listen on 127.0.0.1:{address[1]}: Address already in use; give another --http-endpoint"
    )


async def test_a_cancelled_controller_leaves_no_part_running(cluster: Cluster) -> None:
    log = MemoryLog(partitions=PARTITIONS)
    before = asyncio.all_tasks()
    controller = controller_of(cluster, log, MemorySnapshots(), "a", elect=False)
    life = asyncio.create_task(controller.run(asyncio.Event()))
    await cluster.join("n0")
    await cluster.ready("n0")
    life.cancel()
    with pytest.raises(asyncio.CancelledError):
        await life
    named = {"life", "stop", "consumer", "ingest", "applier", "names"}
    assert [task for task in asyncio.all_tasks() - before if task.get_name() in named] == []

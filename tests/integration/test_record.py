"""`cliquelog record` beside a controller on the real API server: its capture tells what the controller's log tells."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controller import exits, places
from controller.history.auditing import audit
from eventlog.kafka import KafkaPlace
from eventlog.log import EventLog
from eventlog.memory import MemoryLog
from eventlog.record import Entry, Record
from eventlog.sqlite import SqliteLog
from projections.audit.holdings import Holding
from projections.partition import PartitionFold, digest
from tests.controller.bad_input import answer
from tests.history.histories import Complaints, import_into
from tests.integration import manifests, side_by_side
from tests.integration.api import Api, Object
from tests.integration.controllers import Controller
from tests.integration.domains import create_domain, machines, refusals, specs_of
from tests.integration.fake_kubelet import FakeKubelet
from tests.integration.sandbox import Sandbox
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration

SIZES = (6, 3)
ENDS_S = 30.0


class Recorder:
    """`cliquelog record` as a process."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path) -> None:
        self._process = process
        self.folder = folder

    def lines(self) -> list[Object]:
        paths = sorted(self.folder.iterdir()) if self.folder.exists() else []
        return [
            json.loads(line)
            for path in paths
            for line in path.read_bytes().splitlines(keepends=True)
            if line[-1:] == b"\n"
        ]

    async def complete(self) -> None:
        """Wait until every kind was listed."""

        async def kinds() -> set[str]:
            assert self._process.returncode is None
            return {line["resource"] for line in self.lines() if line["told"] == "list-completed"}

        await eventually(kinds, lambda found: len(found) == 6, "the capture has a complete list of each kind")

    async def has(self, version: int) -> None:
        """Wait until it was told a CDC of this version."""

        async def versions() -> set[str]:
            events: list[Object] = [line["event"] for line in self.lines() if line["told"] == "watch"]
            return {str(event["object"]["metadata"]["resourceVersion"]) for event in events}

        await eventually(versions, lambda found: str(version) in found, f"version {version} was captured")

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> str:
        """End it, and give what it said."""
        self._process.send_signal(number)
        async with asyncio.timeout(ENDS_S):
            said, _ = await self._process.communicate()
        assert self._process.returncode == 0, said.decode()
        return said.decode()


@asynccontextmanager
async def recording(kubeconfig: Path, folder: Path, *options: str) -> AsyncIterator[Recorder]:
    command = [
        sys.executable,
        "-m",
        "controller",
        "record",
        "-o",
        str(folder),
        "--kubeconfig",
        str(kubeconfig),
        *options,
    ]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        yield Recorder(process, folder)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def recorder_kubeconfig(sandbox: Sandbox) -> Path:
    """Give the kubeconfig of a service account with the role for recording alone."""
    manifests.apply(sandbox.plane, "record-rbac.yaml", sandbox.driver_namespace)
    return sandbox.plane.service_account_kubeconfig(sandbox.driver_namespace, "cliquelog-recorder")


def paths_in(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.iterdir())


async def imported(folder: Path, log: EventLog) -> EventLog:
    await import_into(log, paths_in(folder), observer=Complaints())
    return log


async def entries_of(log: EventLog) -> list[Entry]:
    """Give what a log of one partition holds."""
    records: list[Record] = []
    while len(records) < await log.end_offset(0):
        records += await log.read(0, len(records), limit=1000, timeout_s=0)
    return [Entry(one.key, one.timestamp_ms, one.headers, one.value) for one in records]


async def digest_of(log: EventLog) -> str:
    folds = []
    for partition in range(log.partitions):
        fold = PartitionFold()
        end = await log.end_offset(partition)
        while fold.next_offset < end:
            for record in await log.read(partition, fold.next_offset, limit=1000, timeout_s=0):
                fold.apply(record)
        folds.append(fold)
    return digest(folds)


def facts(holdings: tuple[Holding, ...], domain: str) -> list[tuple[object, ...]]:
    """Give who held what, from the version that first showed it to the one that no longer did."""
    return sorted(
        (one.clique, one.node, one.index, one.first_version, one.end_version)
        for one in holdings
        if one.domain == domain
    )


async def test_a_capture_of_a_formation_gives_the_index_history_of_the_controllers_own_log(
    rbac_sandbox: Sandbox, new_place: Callable[[], KafkaPlace], tmp_path: Path
) -> None:
    sandbox, log_at = rbac_sandbox, tmp_path / "log.sqlite"
    nodes = machines(sandbox, SIZES)
    specs = specs_of(nodes)
    leaver = specs[0].name
    mark = sandbox.plane.audit.mark()
    async with (
        Api(sandbox.plane.admin_kubeconfig) as api,
        recording(recorder_kubeconfig(sandbox), tmp_path / "capture", "--max-file-mib", "1") as recorder,
        Controller(sandbox, log_at) as controller,
        FakeKubelet(api, specs) as kubelet,
    ):
        await recorder.complete()
        await controller.ready()
        domain = await create_domain(api, sandbox, "job")
        await kubelet.join(domain.uid, *(spec.name for spec in specs))
        await domain.formed(nodes)
        await kubelet.restart(specs[1].name)
        await kubelet.leave(leaver)

        async def nodes_with_rows() -> set[str]:
            return {
                row["nodeName"] for found in (await domain.rows()).values() for row in found if row["status"] == "Ready"
            }

        rest = {spec.name for spec in specs} - {leaver}
        await eventually(nodes_with_rows, lambda found: found == rest, "one node has left, the others are Ready")
        assert await controller.stop() == 0
        for cdc in await api.items(sandbox.cliques()):
            await recorder.has(int(cdc["metadata"]["resourceVersion"]))
        said = await recorder.stop()
        assert f"lines, {sum(path.stat().st_size for path in (tmp_path / 'capture').iterdir())} bytes in" in said

    own, _ = await places.open_readonly(f"sqlite:{log_at}")
    expected = await audit(own)
    await own.close()
    found = await audit(await imported(tmp_path / "capture", MemoryLog(partitions=6)))
    assert facts(found.holdings, domain.uid) == facts(expected.holdings, domain.uid)
    assert len(facts(found.holdings, domain.uid)) == len(specs)
    assert not any(one.inferred for one in found.holdings if one.domain == domain.uid)

    digests = {await digest_of(await imported(tmp_path / "capture", MemoryLog(partitions=n))) for n in (1, 3, 24)}
    on_disk = await SqliteLog.open(tmp_path / "imported.sqlite", partitions=5)
    digests.add(await digest_of(await imported(tmp_path / "capture", on_disk)))
    await on_disk.close()
    entries = await entries_of(await imported(tmp_path / "capture", MemoryLog(partitions=1)))
    half = len(entries) // 2
    embedded = await side_by_side.embedded(tmp_path, entries[:half], entries[half:])
    assert await side_by_side.faust(new_place(), entries[:half], entries[half:]) == embedded
    digests.add(embedded.folded)
    assert len(digests) == 1

    user = f"system:serviceaccount:{sandbox.driver_namespace}:cliquelog-recorder"
    requests = sandbox.plane.audit.requests(mark, user=user)
    granted = {
        (resource, verb)
        for document in manifests.read("record-rbac.yaml", sandbox.driver_namespace)
        for rule in document.get("rules", [])
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {(one.object_ref.resource, one.verb) for one in requests} == granted
    assert {verb for _, verb in granted} == {"list", "watch"}
    assert refusals(sandbox, mark, 403) == []


async def test_a_killed_recorder_goes_on_in_the_same_folder_and_the_list_proves_what_it_missed(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    folder = tmp_path / "capture"
    kubeconfig = sandbox.plane.admin_kubeconfig
    options = ("--namespace", sandbox.driver_namespace)
    domain = await create_domain(api, sandbox, "short")
    async with recording(kubeconfig, folder, *options) as recorder:
        await recorder.complete()
    await domain.delete()
    await domain.gone()
    async with recording(kubeconfig, folder, *options) as recorder:

        async def complete_lists() -> int:
            return sum(line["told"] == "list-completed" for line in recorder.lines())

        await eventually(complete_lists, lambda count: count >= 12, "both recordings have complete lists of 6 kinds")
        await recorder.stop(signal.SIGINT)
    log = await imported(folder, MemoryLog(partitions=2))
    gone = [
        record
        for partition in range(2)
        for record in await log.read(partition, 0, limit=10_000, timeout_s=0)
        if record.headers.event_type == "domain-gone" and record.key == domain.uid
    ]
    assert len(gone) == 1
    assert b"a complete list does not hold it" in gone[0].value


async def test_a_right_that_is_missing_is_told_and_leaves_no_file(rbac_sandbox: Sandbox, tmp_path: Path) -> None:
    plane, namespace = rbac_sandbox.plane, rbac_sandbox.driver_namespace
    plane.kubectl("create", "serviceaccount", "blind", "--namespace", namespace)
    kubeconfig = plane.service_account_kubeconfig(namespace, "blind")
    said = await answer("record", "-o", tmp_path / "capture", "--kubeconfig", kubeconfig, code=exits.API)
    assert said.endswith("apply the roles in deploy/record-rbac.yaml")
    assert not (tmp_path / "capture").exists()

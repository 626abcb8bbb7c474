"""The control plane and the CRDs are what the other integration tests take them for."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration import driver_objects
from tests.integration.api import Api, Refused
from tests.integration.controlplane.build import Programs
from tests.integration.controlplane.process import Server, StartError
from tests.integration.sandbox import Sandbox
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration

FABRIC = "b8a2f1de-5c1f-4f6e-9d1e-3f0f5a3c7e11.1"


# The CRDs of deploy/


async def test_a_compute_domain_gets_the_defaults_of_its_crd(api: Api, sandbox: Sandbox) -> None:
    stored = await api.create(sandbox.domains(), driver_objects.compute_domain("job"))
    assert stored["spec"] == {
        "numNodes": 0,
        "channel": {"allocationMode": "Single", "resourceClaimTemplate": {"name": "job-channel"}},
    }


async def test_the_spec_of_a_compute_domain_cannot_be_changed(api: Api, sandbox: Sandbox) -> None:
    await api.create(sandbox.domains(), driver_objects.compute_domain("job"))
    with pytest.raises(Refused, match="spec is immutable") as refused:
        await api.patch(sandbox.domains("job"), {"spec": {"numNodes": 4}})
    assert refused.value.status == 422


async def test_the_status_of_a_compute_domain_is_ready_or_not_ready_and_nothing_else(
    api: Api, sandbox: Sandbox
) -> None:
    await api.create(sandbox.domains(), driver_objects.compute_domain("job"))
    status = sandbox.domains("job") + "/status"
    for wrong in ("", "Maybe"):
        with pytest.raises(Refused, match="Unsupported value"):
            await api.patch(status, {"status": {"status": wrong}})
    condition = {
        "type": "Full",
        "status": "True",
        "reason": "CliqueFull",
        "message": "18 of 18",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    stored = await api.patch(status, {"status": {"status": "Ready", "conditions": [condition]}})
    assert stored["status"] == {"status": "Ready", "conditions": [condition]}


async def test_a_compute_domain_without_a_spec_is_accepted_as_it_is_upstream(api: Api, sandbox: Sandbox) -> None:
    body = driver_objects.compute_domain("job")
    del body["spec"]
    stored = await api.create(sandbox.domains(), body)
    assert "spec" not in stored


async def test_the_rows_of_a_clique_are_kept_apart_by_node_name_and_default_to_not_ready(
    api: Api, sandbox: Sandbox
) -> None:
    cliques = sandbox.cliques()
    row = {"nodeName": "n0", "ipAddress": "10.0.0.1", "cliqueID": FABRIC, "index": 0}
    with pytest.raises(Refused, match="Duplicate value"):
        await api.create(cliques, driver_objects.clique("twice", [row, row]))
    stored = await api.create(cliques, driver_objects.clique("once", [row]))
    assert stored["daemons"] == [{**row, "status": "NotReady"}]


# Who asked for what


async def test_the_audit_log_counts_each_request_by_user_verb_resource_and_answer(api: Api, sandbox: Sandbox) -> None:
    sandbox.controller_kubeconfig()
    mark = sandbox.plane.audit.mark()
    async with Api(sandbox.controller_kubeconfig()) as controller:
        await controller.create(sandbox.domains(), driver_objects.compute_domain("job"))
        with pytest.raises(Refused, match="already exists"):
            await controller.create(sandbox.domains(), driver_objects.compute_domain("job"))
    await api.patch(sandbox.domains("job"), {"metadata": {"labels": {"by": "admin"}}})

    audit = sandbox.plane.audit
    by_controller = audit.requests(mark, user=sandbox.controller_user, resource="computedomains")
    assert [(request.verb, request.response_status.code) for request in by_controller] == [
        ("create", 201),
        ("create", 409),
    ]
    [patch] = audit.requests(mark, user="admin", verbs={"patch"}, resource="computedomains", name="job")
    assert b'"by":"admin"' in bytes(patch.request_object)
    assert audit.requests(mark, namespace=sandbox.jobs_namespace, codes={409}, verbs={"create"}) == [by_controller[1]]


# No server outlives the tests

STARTER = """
import pathlib, sys, time
from tests.integration.controlplane.cluster import free_port
from tests.integration.controlplane.process import Server
program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
urls = [f"--client-url=http://127.0.0.1:{free_port()}", f"--peer-url=http://127.0.0.1:{free_port()}"]
server = Server("etcd", [program, "etcd", f"--data-dir={folder / 'etcd'}", *urls], folder / "log")
server.start()
server.wait_ready((folder / "etcd" / "member" / "snap" / "db").exists, 30)
print(server.pid, flush=True)
time.sleep(600)
"""


def test_a_server_that_does_not_come_up_names_its_log_and_says_what_is_in_it(
    programs: Programs, tmp_path: Path
) -> None:
    (tmp_path / "data").write_text("not a folder")
    command = [str(programs.controlplane), "etcd", f"--data-dir={tmp_path / 'data'}"]
    server = Server("etcd", command, tmp_path / "etcd.log")
    server.start()
    with pytest.raises(StartError, match=r"etcd ended before it was ready; its log is .*etcd\.log") as failed:
        server.wait_ready(lambda: False, 30)
    server.stop()
    assert "not a directory" in str(failed.value)


async def test_a_test_run_that_is_killed_leaves_no_server(programs: Programs, tmp_path: Path) -> None:
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-c", STARTER, str(programs.controlplane), str(tmp_path), stdout=subprocess.PIPE
    )
    assert run.stdout is not None
    server = int(await run.stdout.readline())

    async def command_line() -> bytes:
        return await asyncio.to_thread(read_or_empty, Path(f"/proc/{server}/cmdline"))

    assert (await command_line()).startswith(bytes(programs.controlplane))
    run.kill()
    await run.communicate()
    await eventually(command_line, lambda line: line == b"", "the server ends with the run that started it")


def read_or_empty(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""

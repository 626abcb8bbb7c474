"""The reflector and the credentials on a real API server."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import msgspec
import pytest
import yaml

from kube import names
from kube.client import KubeClient, Selector, Unauthorized, Unreachable
from kube.clock import SystemClock
from kube.reflector import Reflector, ReflectorEvent, ReflectorSettings
from kube.retry import Backoff, BackoffPolicy
from kube.transport import connect
from tests.kube.contract import LABEL, NAMESPACE, as_clique, clique, new_name
from tests.kube.scripted import HANG_S, Noted, short

pytestmark = pytest.mark.integration


class ControlPlane(Protocol):
    """What is used of the control plane's fixture."""

    admin_kubeconfig: Path


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[KubeClient]:
    client = await connect(str(control_plane.admin_kubeconfig), None)
    try:
        yield client
    finally:
        await client.close()


async def test_a_reflector_tells_the_whole_life_of_an_object(client: KubeClient) -> None:
    run = new_name()
    first, second = f"{run}-1", f"{run}-2"
    told: list[ReflectorEvent] = []
    noted = Noted()

    async def sink(event: ReflectorEvent) -> None:
        told.append(event)

    async def until_told(count: int) -> None:
        async with asyncio.timeout(HANG_S):
            while len(told) < count and not task.done():  # noqa: ASYNC110 - the events are a plain list
                await asyncio.sleep(0.01)

    async def patch(name: str, metadata: dict[str, object]) -> int:
        body = msgspec.json.encode({"metadata": metadata})
        patched = await client.patch(names.CDCS, NAMESPACE, name, body, kind="merge")
        return as_clique(patched).metadata.resource_version

    one = as_clique(await client.create(names.CDCS, NAMESPACE, clique(first, labels={LABEL: run})))
    reflector = Reflector(
        client,
        Selector(names.CDCS, labels=f"{LABEL}={run}"),
        sink,
        clock=SystemClock(),
        backoff=Backoff(BackoffPolicy(), lambda: 0.5),
        random=lambda: 0.0,
        observer=noted,
        # The server ends each watch after a second, so that the changes come in several watches.
        settings=ReflectorSettings(watch_s=1.0, short_s=0.5),
    )
    task = asyncio.create_task(reflector.run())
    await until_told(3)
    two = as_clique(await client.create(names.CDCS, NAMESPACE, clique(second, labels={LABEL: run})))
    await until_told(4)
    await asyncio.sleep(1.5)
    changed = await patch(first, {"annotations": {"a": "b"}})
    await until_told(5)
    unlabelled = await patch(second, {"labels": {LABEL: None}})
    await until_told(6)
    await client.delete(names.CDCS, NAMESPACE, first, uid=one.metadata.uid)
    await until_told(7)
    task.cancel()
    (result,) = await asyncio.gather(task, return_exceptions=True)

    assert isinstance(result, asyncio.CancelledError), result
    shortened = [short(event) for event in told]
    assert shortened[0] == ("began",)
    assert shortened[1] == ("listed", first, one.metadata.resource_version)
    assert shortened[2][::2] == ("completed", 1)
    assert shortened[3:6] == [
        ("changed", second, two.metadata.resource_version),
        ("changed", first, changed),
        ("deleted", second, unlabelled),
    ]
    assert shortened[6][:2] == ("deleted", first)
    assert noted.failures == []


async def test_a_token_that_the_server_does_not_know_is_unauthorized(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    content = yaml.safe_load(control_plane.admin_kubeconfig.read_text())
    content["users"][0]["user"] = {"token": "unknown"}
    path = tmp_path / "unknown-token.kubeconfig"
    path.write_text(yaml.safe_dump(content))
    client = await connect(str(path), None)
    try:
        with pytest.raises(Unauthorized):
            await client.list(Selector(names.NODES))
    finally:
        await client.close()


async def test_a_server_that_the_authority_does_not_vouch_for_is_not_spoken_to(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    content = yaml.safe_load(control_plane.admin_kubeconfig.read_text())
    cluster = content["clusters"][0]["cluster"]
    cluster.pop("certificate-authority", None)
    cluster.pop("certificate-authority-data", None)
    path = tmp_path / "no-authority.kubeconfig"
    path.write_text(yaml.safe_dump(content))
    client = await connect(str(path), None)
    try:
        with pytest.raises(Unreachable, match="is not trusted"):
            await client.list(Selector(names.NODES))
    finally:
        await client.close()

"""The main job on a real API server, scheduler and DaemonSet controller: a ComputeDomain forms."""

import asyncio
from pathlib import Path

import pytest

from tests.integration.api import Api
from tests.integration.domains import allowed, clique_writes, create_domain, machines, refusals, specs_of
from tests.integration.engines import Engine
from tests.integration.fake_kubelet import FakeKubelet
from tests.integration.sandbox import Sandbox

pytestmark = pytest.mark.integration

QUIET_S = 3.0
"""Longer than any wait of the coalescer (2 s): what is still to be written would be written in it."""


async def test_a_domain_of_four_cliques_forms_with_few_writes(
    api: Api, sandbox: Sandbox, engine: Engine, tmp_path: Path
) -> None:
    nodes = machines(sandbox)
    specs = specs_of(nodes)
    async with engine.controller(sandbox, tmp_path / "output") as controller, FakeKubelet(api, specs) as kubelet:
        await controller.ready()
        mark = sandbox.plane.audit.mark()
        domain = await create_domain(api, sandbox, "job")
        await kubelet.join(domain.uid, *(spec.name for spec in specs))
        await domain.formed(nodes)
        writes = clique_writes(sandbox, mark)
        assert writes.keys() == {f"{domain.uid}.{fabric}" for fabric in nodes}
        for name, times in writes.items():
            assert len(times) <= allowed(times), (
                f"{name}: {len(times)} writes, the last {times[-1] - times[0]} after the first"
            )
        await asyncio.sleep(QUIET_S)
        assert clique_writes(sandbox, mark) == writes, "writes go on although nothing changes"
        assert refusals(sandbox, mark, 409, 429) == []
        assert await controller.stop() == 0

"""`cliquelog why` beside a controller on the real API server: its log and the controller itself give one answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from controller import exits
from controller.http import ask
from tests.controller.bad_input import output
from tests.integration.api import Api
from tests.integration.domain_views import Domain
from tests.integration.engines import Engine
from tests.integration.fake_kubelet import FakeKubelet, Step
from tests.integration.sandbox import Sandbox
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration

FABRIC = "5d0c1c52-6a0e-4b1c-8f43-8f7b2a1f2d10.2"


async def why(node: str, *where: str, code: int) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(await output("why", node, *where, "--json", code=code))
    return answer


async def test_each_missing_step_is_named_by_the_log_and_by_the_controller(
    api: Api, sandbox: Sandbox, engine: Engine, tmp_path: Path
) -> None:
    specs = sandbox.nodes(4, FABRIC)
    addressless, unready, well, elsewhere = [spec.name for spec in specs]
    async with engine.controller(sandbox, tmp_path / "output") as controller, FakeKubelet(api, specs) as kubelet:
        await controller.ready()
        kubelet.hold(Step.ADDRESS, addressless)
        kubelet.hold(Step.READY, unready)
        domain = await Domain.create(api, sandbox, "job")
        await kubelet.join(domain.uid, addressless, unready, well)

        async def statuses() -> dict[str, str]:
            return {
                name: row["status"] if row["ipAddress"] else "" for name, row in (await domain.rows(FABRIC)).items()
            }

        wanted = {addressless: "", unready: "NotReady", well: "Ready"}
        await eventually(statuses, lambda found: found == wanted, "one row is Ready, and two are held")
        for where in (("--log", engine.place), ("--url", controller.url)):
            missing = {}
            for node in (addressless, unready, elsewhere):
                answer = await why(node, *where, code=exits.FOUND)
                missing[node] = answer["missing"]
                assert answer["look_at"].startswith("kubectl ")
            assert missing == {addressless: "no-address", unready: "imex-not-ready", elsewhere: "unknown"}
            answer = await why(well, *where, code=0)
            assert [step["step"] for step in answer["steps"] if not step["done"]] == []
            assert sorted(step["time"] for step in answer["steps"]) == [step["time"] for step in answer["steps"]]
            assert answer["index"] == (await domain.indices(FABRIC))[well]
            pods = await domain.pods()
            name = pods[well]["metadata"]["name"]
            assert (await why(name, *where, code=0))["pod"] == f"{sandbox.driver_namespace}/{name}"

        kubelet.release(Step.ADDRESS, addressless)
        kubelet.release(Step.READY, unready)
        await domain.all_ready(FABRIC, addressless, unready, well)
        for node in (addressless, unready, well):

            async def is_ready(node: str = node) -> bool:
                return bool(json.loads(await ask(controller.url, node))["ready"])

            # The API shows a row a moment before it is in the log.
            await eventually(is_ready, bool, f"{node} is told to be ready")
        assert await controller.stop() == 0

"""A clique that is full says so, names who waits, and gives the next in line the slot that frees (failure case A18)."""

from pathlib import Path

import pytest

from tests.integration.api import Api
from tests.integration.controllers import Controller
from tests.integration.domain_views import Domain
from tests.integration.fake_kubelet import FakeKubelet
from tests.integration.sandbox import Sandbox
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration

FABRIC = "5f0e6a52-93c1-4a35-a9b5-6b0c2a40ce77.2"


async def line_is(domain: Domain, expected: str) -> None:
    async def look() -> str:
        return await domain.line(FABRIC)

    await eventually(look, lambda line: line == expected, f"the waiting annotation is {expected!r}")


async def slot_is(domain: Domain, node: str, index: int | None) -> None:
    async def look() -> dict[str, int | None]:
        return await domain.indices(FABRIC)

    await eventually(look, lambda indices: indices.get(node) == index, f"{node} has the freed index {index}")


async def test_the_nineteenth_node_is_named_in_an_event_and_a_condition_and_gets_the_slot_that_frees(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    specs = sandbox.nodes(19, FABRIC)
    nodes = [spec.name for spec in specs]
    nineteenth = nodes[18]
    async with Controller(sandbox, tmp_path / "log.sqlite") as controller, FakeKubelet(api, specs) as kubelet:
        await controller.ready()
        domain = await Domain.create(api, sandbox, "crowded")
        await kubelet.join(domain.uid, *nodes[:18])
        first = await domain.all_ready(FABRIC, *nodes[:18])
        await kubelet.join(domain.uid, nineteenth)
        await line_is(domain, nineteenth)
        await tells_of(domain, nineteenth)
        described = sandbox.plane.kubectl(
            "describe", "computedomain", domain.name, "--namespace", sandbox.jobs_namespace
        )
        conditions, _, events = described.partition("Events:")
        assert "CliqueFull" in conditions
        assert f"{FABRIC}/{nineteenth}" in conditions
        assert f"Node {nineteenth} waits for a slot in clique {FABRIC}" in events

        leaver = nodes[11]
        await kubelet.leave(leaver)
        after = await domain.all_ready(FABRIC, *(node for node in nodes if node != leaver))
        assert after[nineteenth]["index"] == first[leaver]["index"]
        stayed = [node for node in nodes[:18] if node != leaver]
        assert {node: after[node]["index"] for node in stayed} == {node: first[node]["index"] for node in stayed}
        await line_is(domain, "")
        await nobody_waits(domain)
        assert await controller.stop() == 0


async def test_two_that_wait_get_the_freed_slots_in_the_order_in_which_they_came(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    specs = sandbox.nodes(5, FABRIC)
    # The last by name comes fourth: it is the order of arrival that counts.
    *held, fifth, fourth = [spec.name for spec in specs]
    async with (
        Controller(sandbox, tmp_path / "log.sqlite", "--max-nodes-per-imex-domain", "3") as controller,
        FakeKubelet(api, specs) as kubelet,
    ):
        await controller.ready()
        domain = await Domain.create(api, sandbox, "small")
        await kubelet.join(domain.uid, *held)
        first = await domain.all_ready(FABRIC, *held)
        await kubelet.join(domain.uid, fourth)
        await line_is(domain, fourth)
        await kubelet.join(domain.uid, fifth)
        await line_is(domain, f"{fourth},{fifth}")
        await tells_of(domain, fourth, fifth)

        await kubelet.leave(held[1])
        await slot_is(domain, fourth, first[held[1]]["index"])
        await line_is(domain, fifth)
        await kubelet.leave(held[2])
        await slot_is(domain, fifth, first[held[2]]["index"])
        await domain.all_ready(FABRIC, held[0], fourth, fifth)
        await line_is(domain, "")
        await nobody_waits(domain)
        assert await controller.stop() == 0


async def test_who_waits_still_waits_after_a_restart_and_one_that_leaves_the_line_is_forgotten(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    specs = sandbox.nodes(3, FABRIC)
    holder, fickle, patient = [spec.name for spec in specs]
    log, options = tmp_path / "log.sqlite", ("--max-nodes-per-imex-domain", "1")
    async with FakeKubelet(api, specs) as kubelet:
        async with Controller(sandbox, log, *options) as earlier:
            await earlier.ready()
            domain = await Domain.create(api, sandbox, "single")
            await kubelet.join(domain.uid, holder)
            await domain.all_ready(FABRIC, holder)
            await kubelet.join(domain.uid, fickle)
            await line_is(domain, fickle)
            await kubelet.join(domain.uid, patient)
            await line_is(domain, f"{fickle},{patient}")
            await earlier.kill()
        await kubelet.leave(fickle)
        async with Controller(sandbox, log, *options) as controller:
            await controller.ready()
            await line_is(domain, patient)
            await kubelet.leave(holder)
            rows = await domain.all_ready(FABRIC, patient)
            assert rows[patient]["index"] == 0
            assert await controller.stop() == 0


async def tells_of(domain: Domain, *nodes: str) -> None:
    """Wait until the condition and one Event for each node tell people who waits for which clique."""

    async def look() -> tuple[str, list[str]]:
        condition = await domain.condition("CliqueFull")
        return "" if condition is None else condition["message"], await domain.events("CliqueFull")

    def holds(told: tuple[str, list[str]]) -> bool:
        message, events = told
        return all(f"{FABRIC}/{node}" in message for node in nodes) and all(
            any(f"Node {node} waits for a slot in clique {FABRIC}" in event for event in events) for node in nodes
        )

    await eventually(look, holds, f"{nodes} are named")


async def nobody_waits(domain: Domain) -> None:
    """Wait until the condition is gone."""

    async def look() -> object:
        return await domain.condition("CliqueFull")

    await eventually(look, lambda condition: condition is None, "the condition goes")

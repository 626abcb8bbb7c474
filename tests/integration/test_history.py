"""What a real API server logged of a formation, imported, against the controller's own log of it."""

import random
from pathlib import Path

import pytest

from controller import places
from controller.history.auditing import audit
from projections.audit.holdings import Holding
from tests.history.histories import audited
from tests.integration.api import Api
from tests.integration.controllers import Controller
from tests.integration.domains import create_domain, machines, specs_of
from tests.integration.fake_kubelet import FakeKubelet
from tests.integration.sandbox import Sandbox

pytestmark = pytest.mark.integration

Fact = tuple[str, str, int, int | None, int | None]


def facts(holdings: tuple[Holding, ...], domain: str, *, observed: bool = False) -> set[Fact]:
    return {
        (one.clique, one.node, one.index, one.first_version, one.end_version)
        for one in holdings
        if one.domain == domain and not (observed and one.inferred)
    }


async def own(path: Path, domain: str) -> set[Fact]:
    log, _ = await places.open_readonly(f"sqlite:{path}")
    try:
        return facts((await audit(log)).holdings, domain)
    finally:
        await log.close()


async def test_the_audit_log_of_a_formation_gives_the_index_history_of_the_controllers_own_log(
    api: Api, sandbox: Sandbox, tmp_path: Path
) -> None:
    """And with one line in twenty missing, nothing that is said to be observed is wrong, and holes are marked."""
    nodes = machines(sandbox)
    specs = specs_of(nodes)
    mark = sandbox.plane.audit.mark()
    async with Controller(sandbox, tmp_path / "log.sqlite") as controller, FakeKubelet(api, specs) as kubelet:
        await controller.ready()
        domain = await create_domain(api, sandbox, "job")
        await kubelet.join(domain.uid, *(spec.name for spec in specs))
        await domain.formed(nodes)
        await kubelet.leave(*(spec.name for spec in specs[:3]))
        await kubelet.join(domain.uid, *(spec.name for spec in specs[:3]))
        await domain.formed(nodes)
        assert await controller.stop() == 0
    lines = sandbox.plane.audit.lines(mark)
    truth = await own(controller.log, domain.uid)
    assert len({fact[:2] for fact in truth}) == len(specs)

    whole = tmp_path / "audit.log"
    whole.write_bytes(b"".join(lines))
    found = await audited([whole])
    assert facts(found.holdings, domain.uid) == facts(found.holdings, domain.uid, observed=True) == truth

    for seed in range(5):
        rng = random.Random(seed)
        thinned = tmp_path / f"audit-{seed}.log"
        thinned.write_bytes(b"".join(line for line in lines if rng.random() >= 0.05))
        less = await audited([thinned])
        assert facts(less.holdings, domain.uid, observed=True) <= truth, seed

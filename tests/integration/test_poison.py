"""Records in a log that give no event: a controller at work passes over those that nobody can read, on each engine.

One of a newer schema ends it instead, with its one sentence, at the start and in the middle of its work.
"""

import re
from pathlib import Path

import pytest

from controller import places
from controller.exits import FOUND, LOG
from eventlog import codec
from eventlog.record import Entry, Headers, Position
from tests.integration.api import Api
from tests.integration.broker.logs import make_log
from tests.integration.controllers import Controller
from tests.integration.domains import create_domain, machines, specs_of
from tests.integration.fake_kubelet import FakeKubelet
from tests.integration.replays import verify
from tests.integration.sandbox import Sandbox
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration
PASSED_OVER = re.compile(r'^cliquelog_records_undecodable_total\{partition="\d+"\} ([0-9.]+)$', re.MULTILINE)


@pytest.fixture(params=["sqlite", "kafka"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The place of an empty log, once on each engine."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'log.sqlite'}"
    kafka = request.getfixturevalue("new_place")()
    await make_log(kafka, 24)
    return f"kafka://{','.join(kafka.servers)}/{kafka.topic}"


async def put(place: str, key: str, version: int, value: bytes) -> Position:
    """Append a record as a program would that has a defect."""
    log, _ = await places.open_for_writing(place, None)
    try:
        (position,) = await log.append([Entry(key, 1, Headers("node-seen", version, "defect"), value)])
        return position
    finally:
        await log.close()


async def test_a_domain_forms_though_records_in_its_cliques_are_no_events(
    api: Api, sandbox: Sandbox, place: str, tmp_path: Path
) -> None:
    nodes = machines(sandbox, (4, 2))
    specs = specs_of(nodes)
    names = [spec.name for spec in specs]
    async with (
        FakeKubelet(api, specs) as kubelet,
        Controller(sandbox, tmp_path / "output", place=place) as controller,
    ):
        await controller.ready()
        domain = await create_domain(api, sandbox, "job")
        await kubelet.join(domain.uid, *names[:3])
        put_at = [await put(place, clique, codec.SCHEMA_VERSION, b"{not json") for clique in nodes]
        await kubelet.join(domain.uid, *names[3:])
        await domain.formed(nodes)

        async def passed_over() -> float:
            return sum(map(float, PASSED_OVER.findall(await controller.metrics())))

        await eventually(passed_over, lambda count: count == len(put_at), "each is counted")
        assert await controller.stop() == 0
        said = controller.output.read_text()
        for position in put_at:
            assert said.count(f'"position": "{position}"') == 1
        await controller.start()
        await controller.ready()
        assert await controller.stop() == 0
    code, told = await verify(place)
    assert code == FOUND
    told = " ".join(told.split())
    for position in put_at:
        assert f"{position} undecodable: record" in told
    assert f"integrity {len(put_at)} findings" in told
    assert "invariants ok" in told
    assert "determinism ok" in told


async def test_a_record_of_a_newer_schema_ends_a_controller_at_work_and_at_its_start(
    sandbox: Sandbox, place: str, tmp_path: Path
) -> None:
    async with Controller(sandbox, tmp_path / "output", place=place) as controller:
        await controller.ready()
        position = await put(place, "fabric.1", codec.SCHEMA_VERSION + 1, b"{}")
        for _ in range(2):
            assert await controller.ended() == LOG
            said = controller.output.read_text()
            assert "Traceback" not in said
            (sentence,) = set(re.findall(r"^Error: (.+)$", said, re.MULTILINE))
            assert f" {position} has schema version {codec.SCHEMA_VERSION + 1} and this program reads up to" in sentence
            assert sentence.endswith("; use a newer cliquelog")
            await controller.start()

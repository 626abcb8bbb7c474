"""`cliquelog import` into a log on a real broker gives the log that it gives in a file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.history import write_capture
from bench.workload import Shape
from controller import exits
from controller.importing.importer import BATCH
from eventlog.kafka import KafkaPlace
from tests.controller.bad_input import answer, output
from tests.integration.broker.logs import make_log

pytestmark = pytest.mark.integration
LINES = 2 * BATCH


async def said(*arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await output(*arguments, "--json", code=0))
    return found


async def test_a_capture_becomes_the_same_log_on_a_broker_as_in_a_file(
    new_place: Callable[[], KafkaPlace], tmp_path: Path
) -> None:
    capture = tmp_path / "capture.jsonl"
    write_capture(capture, Shape(20, 18), LINES)
    place = new_place()
    await make_log(place, 24)
    kafka, sqlite = f"kafka://{','.join(place.servers)}/{place.topic}", f"sqlite:{tmp_path / 'log.sqlite'}"

    on_broker, in_file = [await said("import", capture, "--to", one) for one in (kafka, sqlite)]

    assert on_broker == in_file
    assert on_broker["records"] > LINES > on_broker["inputs"][0]["not_understood"] == 0
    verdicts = [await said("verify", one) for one in (kafka, sqlite)]
    assert verdicts[0] == verdicts[1]
    replays = [await said("replay", one, "--summary") for one in (kafka, sqlite)]
    assert replays[0]["digest"] == replays[1]["digest"]
    again = await answer("import", capture, "--to", kafka, code=exits.LOG)
    assert "holds records already" in again

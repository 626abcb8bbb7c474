"""`cliquelog copy` between a file and a real broker: killed, interrupted and cut off midway, then run again."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.workload import Shape, entries
from controller import places
from controller.exits import FOUND, LOG
from eventlog.kafka import KafkaPlace
from eventlog.log import LogError
from tests.controller.bad_input import DEADLINE_S, answer, output, sentence_of
from tests.integration.broker.broker import Broker
from tests.integration.broker.logs import make_log, make_topic, put
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration
RECORDS = 30_000
"""As many as take seconds to copy, so that a copy can be met midway."""
SHAPE = Shape(100, 18)
ONE_REPLICA = ("--replication-factor", "1")


def replicas(target: str) -> tuple[str, ...]:
    """Give the option for new topics on a single broker, where topics are made."""
    return ONE_REPLICA if target.startswith("kafka:") else ()


def url(place: KafkaPlace) -> str:
    return f"kafka://{','.join(place.servers)}/{place.topic}"


@pytest.fixture
def new(new_place: Callable[[], KafkaPlace], tmp_path: Path) -> Callable[[str], str]:
    """Give a maker of places of an engine where no log is yet."""
    numbers = iter(range(9))

    def make(engine: str) -> str:
        return f"sqlite:{tmp_path / f'{next(numbers)}.sqlite'}" if engine == "sqlite" else url(new_place())

    return make


async def fill(place: str, records: int) -> str:
    """Make a log with a formation's records."""
    log = await places.open_or_make(place, 24, places.Making(None, 1, 1))
    try:
        supply = list(entries(SHAPE, records))
        for first in range(0, records, 2_000):
            await log.append(supply[first : first + 2_000])
    finally:
        await log.close()
    return place


async def length(place: str) -> int:
    """Count the records of a log that is perhaps not there yet, by its offsets."""
    try:
        log, _ = await places.open_readonly(place)
    except LogError:
        return 0
    try:
        return sum([await log.end_offset(partition) for partition in range(log.partitions)])
    finally:
        await log.close()


@asynccontextmanager
async def copying(source: str, target: str, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a copy for the time of the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "controller", "copy", source, target, *replicas(target), *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def met_midway(process: asyncio.subprocess.Process, target: str) -> int:
    """Stop the process where the target has some records and not all, and give how many it has."""

    async def there() -> int:
        assert process.returncode is None, await process.stdout.read() if process.stdout else b""
        return await length(target)

    await eventually(there, lambda count: count > 0, "the copy has begun")
    process.send_signal(signal.SIGSTOP)
    count = await length(target)
    assert 0 < count < RECORDS, "the copy was not met midway: copy more records"
    return count


async def result(source: str, target: str, *options: str) -> dict[str, Any]:
    """Copy to the end and give what `--json` says."""
    said = await output("copy", source, target, *replicas(target), *options, "--json", code=0)
    found: dict[str, Any] = json.loads(said)
    return found


async def verdict(place: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await output("verify", place, "--json", code=0))
    return found


DIRECTIONS = [("sqlite", "kafka"), ("kafka", "sqlite"), ("kafka", "kafka")]


@pytest.mark.parametrize(("origin", "aim"), DIRECTIONS)
async def test_a_copy_that_is_killed_midway_goes_on_where_it_was(
    new: Callable[[str], str], origin: str, aim: str
) -> None:
    source, target = await fill(new(origin), RECORDS), new(aim)
    async with copying(source, target) as process:
        there = await met_midway(process, target)
        process.kill()
        assert await process.wait() == -signal.SIGKILL
    done = await result(source, target)
    # Kafka may have taken in what the process had sent when it was killed.
    assert there <= done["there_already"] < RECORDS
    assert (done["records"], done["differences"]) == (RECORDS, [])
    before, after = await verdict(source), await verdict(target)
    assert before == after
    assert {str(one["partition"]): one["head"] for one in done["partitions"] if one["records"]} == after["heads"]


async def test_a_log_that_went_to_kafka_and_back_is_the_log_that_it_was(new: Callable[[str], str]) -> None:
    source = await fill(new("sqlite"), 5_000)
    there, back = new("kafka"), new("sqlite")
    await result(source, there)
    await result(there, back)
    assert await verdict(source) == await verdict(there) == await verdict(back)
    await fill_more(source)
    assert (await result(source, there))["there_already"] == 5_000
    assert (await result(there, back))["there_already"] == 5_000
    assert await verdict(source) == await verdict(back)


async def fill_more(place: str) -> None:
    log, _ = await places.open_for_writing(place, None)
    await log.append(list(entries(SHAPE, 100)))
    await log.close()


async def test_a_copy_that_is_asked_to_end_says_how_to_go_on(new: Callable[[str], str]) -> None:
    source, target = await fill(new("sqlite"), RECORDS), new("kafka")
    async with copying(source, target) as process:
        await met_midway(process, target)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        said, _ = await asyncio.wait_for(process.communicate(), DEADLINE_S)
        assert process.returncode == 128 + signal.SIGTERM
        assert said.decode().strip() == "Interrupted. The same command goes on from there."
    done = await result(source, target)
    assert 0 < done["there_already"] < RECORDS
    assert await verdict(source) == await verdict(target)


@pytest.mark.parametrize(("origin", "aim"), [("sqlite", "kafka"), ("kafka", "sqlite")])
async def test_a_copy_whose_broker_dies_is_one_sentence_and_goes_on_when_it_is_back(
    own_broker: Broker, new_place: Callable[[], KafkaPlace], tmp_path: Path, origin: str, aim: str
) -> None:
    kafka = url(msgspec.structs.replace(new_place(), servers=(own_broker.server,)))
    file = f"sqlite:{tmp_path / 'log.sqlite'}"
    source, target = (file, kafka) if origin == "sqlite" else (kafka, file)
    config = tmp_path / "client.properties"
    config.write_text("request.timeout.ms=2000\ndelivery.timeout.ms=3000\n")
    options = ("--kafka-config", str(config))
    await fill(source, RECORDS)
    async with copying(source, target, *options) as process:
        await met_midway(process, target)
        await asyncio.to_thread(own_broker.kill)
        process.send_signal(signal.SIGCONT)
        said, _ = await asyncio.wait_for(process.communicate(), DEADLINE_S)
        sentence = sentence_of(said.decode(), process.returncode, LOG)
        assert ("ended midway, the same command goes on" in sentence) == (aim == "kafka")
    await asyncio.to_thread(own_broker.start)
    done = await result(source, target, *options)
    assert 0 < done["there_already"] < RECORDS
    assert await verdict(source) == await verdict(target)


async def test_records_of_others_in_the_source_are_left_out_and_counted(
    new_place: Callable[[], KafkaPlace], new: Callable[[str], str]
) -> None:
    place = new_place()
    await make_log(place, 24)
    await put(place, place.topic, 3, b"order", b"42", {})
    await fill(url(place), 2_000)
    await put(place, place.topic, 3, None, b"no key", {})
    target = new("sqlite")
    done = await result(url(place), target)
    assert (done["not_ours"], done["first_not_ours"], done["records"]) == (2, "3/0", 2_000)
    assert (await verdict(target))["records"] == 2_000
    again = await output("copy", url(place), target, code=0)
    assert "left out    2 records that are not the log's, first at 3/0 (it has no header event-type): another" in again


async def test_a_topic_that_cannot_be_the_copy_is_one_sentence(
    new_place: Callable[[], KafkaPlace], new: Callable[[str], str]
) -> None:
    source = await fill(new("sqlite"), 100)
    taken = new_place()
    await make_topic(taken, taken.topic, 24, {})
    await put(taken, taken.topic, 0, b"order", b"42", {})
    said = await answer("copy", source, url(taken), *ONE_REPLICA, code=LOG)
    assert said == f"topic {taken.topic} holds records of something else; give another topic"
    smaller = new_place()
    await make_log(smaller, 4)
    said = await answer("copy", source, url(smaller), *ONE_REPLICA, code=LOG)
    assert said.endswith("holds a log already, of 4 partitions, and 24 were asked for; give another topic")
    other = await fill(new("kafka"), 100)
    await fill_more(other)
    before = await verdict(other)
    said = await answer("copy", source, other, *ONE_REPLICA, code=LOG)
    assert said.startswith(f"{other} holds records that are no copy of {source}: at ")
    assert await verdict(other) == before


async def test_heads_that_were_noted_of_a_log_hold_for_its_copy_on_another_engine(
    new: Callable[[str], str], tmp_path: Path
) -> None:
    source, note = await fill(new("sqlite"), 2_000), tmp_path / "heads.json"
    target = new("kafka")
    await output("verify", source, "--note", note, code=0)
    await output("copy", source, target, *ONE_REPLICA, code=0)
    await output("verify", target, "--against", note, code=0)

    foreign = new("kafka")
    await output("copy", await fill(new("sqlite"), 1_500), foreign, *ONE_REPLICA, code=0)
    said = json.loads(await output("verify", foreign, "--against", note, "--json", code=FOUND))
    assert said["integrity"]
    assert all(" missing-since: the log ends here" in one for one in said["integrity"])

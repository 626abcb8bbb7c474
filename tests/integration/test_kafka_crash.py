"""The broker killed, frozen and restarted: what was acknowledged is there, what is not known is said, and work goes on.

Each test has a broker of its own: what is done to it would disturb the others.
"""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from eventlog.codec import entry as entry_of
from eventlog.events import RelistBegan
from eventlog.integrity import check
from eventlog.kafka import KafkaLog, KafkaPlace, KafkaSettings, KafkaSnapshots
from eventlog.log import AppendOutcomeUnknown, LogUnavailable
from eventlog.partitioner import partition_for
from eventlog.record import Entry, Position, Record
from tests.integration.api import Api
from tests.integration.broker.broker import Broker
from tests.integration.broker.logs import make_log, opened
from tests.integration.clique_watch import CliqueWatch, doubled, renumbered, vanished
from tests.integration.controllers import Controller
from tests.integration.domains import by_name, create_domain, machines, specs_of
from tests.integration.fake_kubelet import FakeKubelet
from tests.integration.replays import Replay, by_node, verify
from tests.integration.sandbox import Sandbox
from tests.integration.waiting import eventually

pytestmark = pytest.mark.integration
IMPATIENT = KafkaSettings(request_ms=2_000, delivery_ms=3_000)
PARTITIONS = 4
APPENDERS = 6
KILLS = 4
WAIT_S = 60.0


@pytest.fixture
async def place(own_broker: Broker, new_place: Callable[[], KafkaPlace]) -> KafkaPlace:
    place = msgspec.structs.replace(new_place(), servers=(own_broker.server,))
    await make_log(place, PARTITIONS)
    return place


def entry(key: str, cause: str) -> Entry:
    return entry_of(f"watch/{key}", RelistBegan("nodes", cause), timestamp_ms=1, controller="one")


async def everything(log: KafkaLog, partition: int) -> list[Record]:
    found: list[Record] = []
    offset, end = 0, await log.end_offset(partition)
    while offset < end:
        records = await log.read(partition, offset, limit=1000, timeout_s=WAIT_S)
        found += records
        offset = records[-1].offset + 1
    return found


class Appenders:
    """Tasks that append as the controller does: the same again, until it is acknowledged."""

    def __init__(self, log: KafkaLog) -> None:
        self.acknowledged: dict[Position, bytes] = {}
        self.refused: list[str] = []
        self._log = log
        self._stop = asyncio.Event()

    async def run(self, number: int) -> None:
        chance = random.Random(number)
        step = 0
        while not self._stop.is_set():
            size = chance.randint(1, 5)
            entries = [entry(str(chance.randrange(20)), f"{number}/{step}/{place}") for place in range(size)]
            try:
                positions = await self._log.append(entries)
            except (LogUnavailable, AppendOutcomeUnknown) as error:
                self.refused.append(type(error).__name__)
                await asyncio.sleep(0.1)
                continue
            self.acknowledged.update(zip(positions, (one.value for one in entries), strict=True))
            step += 1
            await asyncio.sleep(0)

    async def more(self, count: int) -> None:
        """Wait until so many more records are acknowledged."""
        wanted = len(self.acknowledged) + count

        async def look() -> int:
            return len(self.acknowledged)

        await eventually(look, lambda there: there >= wanted, f"{wanted} records are acknowledged")

    def stop(self) -> None:
        self._stop.set()


async def test_what_is_given_up_at_the_end_comes_no_more_when_the_broker_is_back(
    own_broker: Broker, place: KafkaPlace
) -> None:
    """Who ends lets the next leader in: what came after that, the next one would not know of."""
    async with opened(place, IMPATIENT) as log:
        (last,) = await log.append([entry("0", "before")])
        await asyncio.to_thread(own_broker.kill)
        appending = asyncio.create_task(log.append([entry("0", "given up")]))
        await asyncio.sleep(1)
        appending.cancel()
        await asyncio.gather(appending, return_exceptions=True)
        await log.settle(0.1)
        await asyncio.to_thread(own_broker.start)
        (after,) = await log.append([entry("0", "after")])
        records = await everything(log, after.partition)
    assert [record.offset for record in records if record.offset >= last.offset] == [last.offset, after.offset]


async def test_a_broker_that_is_killed_again_and_again_loses_no_acknowledged_record(
    own_broker: Broker, place: KafkaPlace
) -> None:
    async with opened(place, IMPATIENT) as log, asyncio.TaskGroup() as group:
        appenders = Appenders(log)
        for number in range(APPENDERS):
            group.create_task(appenders.run(number))
        for turn in range(KILLS):
            await appenders.more(200 + 50 * turn)
            await asyncio.to_thread(own_broker.kill)
            await asyncio.to_thread(own_broker.start)
        await appenders.more(200)
        appenders.stop()
    async with opened(place, IMPATIENT) as log:
        found = {
            Position(record.partition, record.offset): record.value
            for partition in range(PARTITIONS)
            for record in await everything(log, partition)
        }
        assert {position: found[position] for position in appenders.acknowledged} == appenders.acknowledged
        assert [finding for report in await check(log, {}, dense=False) for finding in report.findings] == []
    print(f"{len(appenders.acknowledged)} acknowledged, {len(found)} there, refused: {len(appenders.refused)}")


async def test_an_append_to_a_frozen_broker_is_uncertain_and_the_next_is_refused_until_it_is_settled(
    own_broker: Broker, place: KafkaPlace
) -> None:
    async with opened(place, IMPATIENT) as log:
        await log.append([entry("a", "before")])
        own_broker.freeze()
        with pytest.raises(AppendOutcomeUnknown, match="no acknowledgement in 3 s; append them again"):
            await log.append([entry("a", "uncertain")])
        for _ in range(2):
            with pytest.raises(LogUnavailable, match="have not taken 1 earlier records"):
                await log.append([entry("a", "refused")])
        own_broker.thaw()
        async with asyncio.timeout(WAIT_S):
            while True:
                try:
                    await log.append([entry("a", "after")])
                    break
                except (LogUnavailable, AppendOutcomeUnknown):
                    continue
        records = await everything(log, partition_for("watch/a", PARTITIONS))
        causes = [msgspec.json.decode(record.value)["cause"] for record in records]
        assert causes[0] == "before"
        assert causes[-1] == "after"
        assert set(causes) - {"after"} == {"before", "uncertain"}, "a refused append is not there"
        assert causes.count("uncertain") == 1, "the producer is idempotent"


async def read_on(log: KafkaLog, after: Position) -> Record:
    """Wait for the next record as the controller does: again, while the brokers are away."""
    while True:
        try:
            records = await log.read(after.partition, after.offset + 1, limit=10, timeout_s=5)
        except LogUnavailable:
            await asyncio.sleep(0.1)
            continue
        if records:
            (record,) = records
            return record


async def test_a_reader_goes_on_after_the_brokers_restart(own_broker: Broker, place: KafkaPlace) -> None:
    async with opened(place, IMPATIENT) as log, asyncio.timeout(WAIT_S):
        (position,) = await log.append([entry("a", "before")])
        waiting = asyncio.create_task(read_on(log, position))
        await asyncio.sleep(2)
        await asyncio.to_thread(own_broker.kill)
        await asyncio.to_thread(own_broker.start)
        async with opened(place, IMPATIENT) as other:
            await other.append([entry("a", "after")])
        assert msgspec.json.decode((await waiting).value)["cause"] == "after"


async def test_a_log_whose_broker_is_away_says_so_and_closes(own_broker: Broker, place: KafkaPlace) -> None:
    async with opened(place, IMPATIENT) as log:
        snapshots = KafkaSnapshots(log)
        await asyncio.to_thread(own_broker.kill)
        with pytest.raises(LogUnavailable, match="cannot be used"):
            await log.append([entry("a", "never")])
        with pytest.raises(LogUnavailable, match="to ask for offsets"):
            await log.end_offset(0)
        with pytest.raises(LogUnavailable):
            await snapshots.save(0, 5, b"state")
    with pytest.raises(LogUnavailable, match="cannot be reached"):
        async with opened(place, IMPATIENT):
            pass


async def test_a_domain_forms_on_kafka_though_the_broker_dies_twice(
    api: Api, sandbox: Sandbox, own_broker: Broker, place: KafkaPlace, tmp_path: Path
) -> None:
    nodes = machines(sandbox, (18, 5))
    specs = specs_of(nodes)
    names = [spec.name for spec in specs]
    url = f"kafka://{own_broker.server}/{place.topic}"
    config = tmp_path / "client.properties"
    config.write_text("request.timeout.ms=2000\ndelivery.timeout.ms=5000\n")
    async with (
        FakeKubelet(api, specs) as kubelet,
        CliqueWatch(api, sandbox) as watch,
        Controller(sandbox, tmp_path / "output", "--kafka-config", str(config), place=url) as controller,
    ):
        await controller.ready()
        domain = await create_domain(api, sandbox, "job")
        for part in (names[:8], names[8:16]):
            before = len(by_name(await domain.rows()))
            await kubelet.join(domain.uid, *part)
            await eventually(domain.rows, lambda rows, before=before: len(by_name(rows)) > before, "rows come")
            await asyncio.to_thread(own_broker.kill)
            await asyncio.to_thread(own_broker.start)
        await kubelet.join(domain.uid, *names[16:])
        await domain.formed(nodes)
        await watch.caught_up()
        rows = await domain.rows()
        assert await controller.stop() == 0
        await controller.start()
        await controller.ready()
        assert await controller.stop() == 0
    assert doubled(watch.versions) == []
    assert renumbered(watch.versions) == []
    assert vanished(watch.versions) == []
    code, output = await verify(url)
    assert code == 0, output
    replay = await Replay.of(url)
    assert by_node(replay.rows(domain.uid)) == by_node(rows)
    assert by_node(await domain.rows()) == by_node(rows)

"""What others do to the topics of a log, and what a user gets wrong: each has its one sentence and exit code."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from controller.exits import FOUND, LOG
from eventlog.codec import entry as entry_of
from eventlog.events import RelistBegan
from eventlog.kafka import KafkaPlace, KafkaSettings
from eventlog.log import LogUnreadable, OffsetOutOfRange
from eventlog.partitioner import partition_for
from eventlog.record import Entry
from tests.controller.bad_input import answer, output
from tests.integration.broker.logs import (
    add_partitions,
    delete_records,
    delete_topic,
    make_log,
    make_topic,
    opened,
    put,
    set_config,
)

pytestmark = pytest.mark.integration
Make = Callable[[], KafkaPlace]
PARTITIONS = 4


def url(place: KafkaPlace) -> str:
    return f"kafka://{','.join(place.servers)}/{place.topic}"


def entry(number: int) -> Entry:
    return entry_of(f"watch/{number}", RelistBegan("nodes", f"{number}"), timestamp_ms=number, controller="one")


@pytest.fixture
async def place(new_place: Make) -> KafkaPlace:
    """A log of four partitions with two records in each, or so."""
    place = new_place()
    await make_log(place, PARTITIONS)
    async with opened(place) as log:
        await log.append([entry(number) for number in range(20)])
    return place


# --- making and checking ---


async def test_a_log_is_made_once_and_found_sound(new_place: Make) -> None:
    place = new_place()
    made = await output("topics", "create", url(place), "--partitions", "3", "--replication-factor", "1", code=0)
    assert made.startswith(f"made\ntopic {place.topic}\n")
    again = await output("topics", "create", url(place), "--partitions", "3", "--replication-factor", "1", code=0)
    assert again.splitlines()[0] == "there already"
    assert again.splitlines()[1:] == made.splitlines()[1:]
    checked = await output("topics", "check", url(place), code=0)
    assert checked.splitlines() == made.splitlines()[1:]
    for line in (
        "partitions                      3",
        "cleanup.policy                  delete",
        "retention.ms                    -1",
    ):
        assert f"  {line}" in checked.splitlines()
    assert "  cleanup.policy                  compact" in checked.splitlines()


async def test_a_log_of_another_number_of_partitions_is_not_made_over_one(place: KafkaPlace) -> None:
    said = await answer("topics", "create", url(place), "--partitions", "5", "--replication-factor", "1", code=LOG)
    assert said.endswith("holds a log already, of 4 partitions, and 5 were asked for; give another topic")


async def test_more_replicas_than_brokers_are_told(new_place: Make) -> None:
    said = await answer("topics", "create", url(new_place()), "--replication-factor", "3", code=LOG)
    assert said.startswith("the brokers did not make topic ")
    assert "only 1 broker" in said
    assert said.endswith("; give a --replication-factor of no more than the brokers, or start more")


async def test_a_name_that_collides_with_another_topic_is_told_and_nothing_is_made(new_place: Make) -> None:
    """Kafka takes `a.b` and `a_b` for one name in its metrics."""
    place = new_place()
    wanted = msgspec.structs.replace(place, topic=f"{place.topic}_log", snapshots=f"{place.topic}_log.snapshots")
    await make_topic(place, f"{place.topic}.log", 1, {})
    said = await answer("topics", "create", url(wanted), "--replication-factor", "1", code=LOG)
    assert said.startswith(f"the brokers did not make topic {wanted.topic}: ")
    assert "collides" in said
    assert said.endswith("; give another topic")
    said = await answer("topics", "check", url(wanted), code=LOG)
    assert said.startswith("there is no topic ")


@pytest.mark.parametrize("which", ["topic", "snapshots"])
async def test_what_an_interrupted_call_left_behind_is_completed(new_place: Make, which: str) -> None:
    place = new_place()
    await make_topic(place, getattr(place, which), PARTITIONS, {})
    await make_log(place, PARTITIONS)
    assert (await output("verify", url(place), code=0)).startswith("records     0 in 4 partitions\n")


async def test_a_topic_that_holds_something_else_is_not_made_a_log(new_place: Make) -> None:
    place = new_place()
    await make_topic(place, place.topic, PARTITIONS, {})
    await put(place, place.topic, 1, b"order", b"42", {})
    said = await answer("topics", "create", url(place), "--partitions", "4", "--replication-factor", "1", code=LOG)
    assert said == f"topic {place.topic} holds records of something else; give another topic"


@pytest.mark.parametrize(
    ("which", "config", "said"),
    [
        ("topic", {"cleanup.policy": "compact"}, "has cleanup.policy=compact, so that it forgets records of the log"),
        ("topic", {"retention.ms": "86400000"}, "has retention.ms=86400000, so that it forgets records of the log"),
        ("topic", {"message.timestamp.type": "LogAppendTime"}, "has message.timestamp.type=LogAppendTime"),
        ("topic", {"min.insync.replicas": "2"}, "has min.insync.replicas=2 and 1 replicas"),
        ("snapshots", {"cleanup.policy": "delete"}, "has cleanup.policy=delete, so that it keeps every snapshot"),
        ("snapshots", {"max.message.bytes": "1000000"}, "so that large records are refused; set max.message.bytes="),
    ],
)
async def test_a_topic_that_is_not_set_up_as_a_log_needs_it_is_refused_with_the_mend(
    place: KafkaPlace, which: str, config: dict[str, str], said: str
) -> None:
    right = {"topic": {"retention.ms": "-1", "retention.bytes": "-1"}, "snapshots": {"cleanup.policy": "compact"}}
    size = {"max.message.bytes": str(8 << 20)}
    name = getattr(place, which)
    await set_config(place, name, {**right[which], **size, **config})
    assert said in await answer("topics", "check", url(place), code=LOG)
    with pytest.raises(LogUnreadable, match=f"topic {name} ") as refused:
        async with opened(place):
            pass
    assert said in str(refused.value)


async def test_more_partitions_than_the_log_was_made_with_are_refused(place: KafkaPlace) -> None:
    await add_partitions(place, place.topic, 6)
    said = await answer("verify", url(place), code=LOG)
    assert said.startswith(
        f"topic {place.topic} has 6 partitions and the log in it was made with 4, so that keys would"
    )
    assert said.endswith("`cliquelog copy FROM TO` reads the 4; copy the log to another topic, and go on with the copy")


@pytest.mark.parametrize("which", ["topic", "snapshots"])
async def test_a_log_whose_topic_was_given_more_partitions_is_rescued_by_a_copy(
    place: KafkaPlace, new_place: Make, which: str
) -> None:
    before = await output("verify", url(place), code=0)
    await add_partitions(place, getattr(place, which), 6)
    if which == "topic":
        await put(place, place.topic, 5, b"watch/1", b"{}", {})
    new = new_place()
    said = await output("copy", url(place), url(new), "--replication-factor", "1", code=0)
    assert said.startswith("copied      20 records; 0 were there already\npartitions  4\n")
    assert said.endswith("verified    equal hash chains and states\n")
    stray = "left out    1 record that is not the log's, first at 5/0 (its partition was added to the topic)"
    assert (stray in said) == (which == "topic")
    assert await output("verify", url(new), code=0) == before


async def test_partitions_that_are_added_while_the_log_is_open_end_its_appends(place: KafkaPlace) -> None:
    async def append_on() -> None:
        for _ in range(300):
            await log.append([entry(2)])
            await asyncio.sleep(0.1)

    async with opened(place, KafkaSettings(metadata_age_ms=300)) as log:
        await log.append([entry(1)])
        await add_partitions(place, place.topic, 6)
        with pytest.raises(LogUnreadable, match="has 6 partitions and the log in it was made with 4"):
            await append_on()


# --- logs that are not there, or not ours ---


async def test_a_topic_that_is_not_there_is_told_with_the_command_that_makes_it(new_place: Make) -> None:
    place = new_place()
    said = await answer("verify", url(place), code=LOG)
    assert said == (
        f"there is no topic {place.topic} at {place.servers[0]}, or this user may not see it; make it with "
        "`cliquelog topics create`"
    )


async def test_the_topic_of_somebody_else_is_told(new_place: Make) -> None:
    place = new_place()
    await make_topic(place, place.topic, 2, {})
    await put(place, place.topic, 0, b"order", b"42", {})
    for _ in range(2):
        said = await answer("verify", url(place), code=LOG)
        assert said.startswith(f"topic {place.topic} at {place.servers[0]} is not a log of cliquelog: ")
        assert said.endswith("give another topic, or make one with `cliquelog topics create`")
        await make_topic(place, place.snapshots, 2, {"cleanup.policy": "compact"})
        await put(place, place.snapshots, 0, b"mine", b"too", {})


async def test_a_log_whose_topic_was_deleted_is_told_from_one_that_never_was(place: KafkaPlace) -> None:
    await delete_topic(place, place.topic)
    said = await answer("verify", url(place), code=LOG)
    assert said.startswith(f"topic {place.topic} is gone, and the snapshots of its log in {place.snapshots} are there")


# --- records ---


async def test_a_record_of_somebody_else_is_passed_over_by_every_reader_and_named_by_verify(place: KafkaPlace) -> None:
    offset = await put(place, place.topic, 0, b"order", b"42", {})
    await put(place, place.topic, 0, None, b"no key", {})
    async with opened(place) as log:
        key = next(f"watch/{number}" for number in range(99) if partition_for(f"watch/{number}", PARTITIONS) == 0)
        event = RelistBegan("pods", "after")
        (position,) = await log.append([entry_of(key, event, timestamp_ms=7, controller="one")])
        assert position.offset > offset + 1
        records = await log.read(0, offset, limit=10, timeout_s=10)
        assert [record.offset for record in records] == [position.offset]
        assert await log.read(0, position.offset + 1, limit=10, timeout_s=0) == []
    told = await output("verify", url(place), code=FOUND)
    assert f"0/{offset} not-ours: it has no header event-type; it was passed over" in " ".join(told.split())
    assert f"0/{offset + 1} not-ours: it has no key" in " ".join(told.split())
    assert "determinism ok" in told


async def test_every_command_that_reads_tells_what_it_passed_over(place: KafkaPlace, tmp_path: Path) -> None:
    """A topic that is full of somebody else's records would look like an empty log."""
    first = f"1/{await put(place, place.topic, 1, b'order', b'42', {})}"
    await put(place, place.topic, 1, None, b"no key", {})
    warning = (
        f"Warning: {url(place)} holds 2 records that are not the log's, first at {first} (it has no header "
        "event-type): another program has written to the topic; allow Write to the controller alone, and see "
        "`cliquelog verify`\n"
    )
    for command in (
        ("audit", url(place)),
        ("audit", url(place), "--json"),
        ("replay", url(place), "--against", url(place)),
        ("report", url(place), "-o", str(tmp_path / "page.html")),
    ):
        said = await output(*command, code=0)
        assert said.count(warning) == 2 if "--against" in command else said.count(warning) == 1, said
    assert warning in await output("why", "node-1", "--log", url(place), code=FOUND)


async def test_a_record_of_a_newer_version_is_never_passed_over(place: KafkaPlace) -> None:
    headers = {"event-type": b"node-seen", "schema-version": b"99", "controller": b"newer"}
    partition = partition_for("watch/1", PARTITIONS)
    offset = await put(place, place.topic, partition, b"watch/1", b'{"type":"node-seen"}', headers)
    told = " ".join((await output("verify", url(place), code=FOUND)).split())
    assert f"{partition}/{offset} newer-schema:" in told
    assert "has schema version 99 and this program reads up to 1; use a newer cliquelog" in told
    assert f"partition {partition} was not folded" in told


async def test_a_record_in_the_form_of_ours_that_no_log_of_ours_stores_is_a_strangers(place: KafkaPlace) -> None:
    headers = {"event-type": b"node-seen", "schema-version": b"1", "controller": b"one"}
    right = partition_for("watch/1", PARTITIONS)
    wrong = (right + 1) % PARTITIONS
    misplaced = await put(place, place.topic, wrong, b"watch/1", b"{}", headers)
    unfit = await put(place, place.topic, right, b"watch/1", b"{}", {**headers, "controller": b"o\0e"})
    told = " ".join((await output("verify", url(place), code=FOUND)).split())
    assert f"{wrong}/{misplaced} not-ours: its key 'watch/1' belongs to partition {right}" in told
    assert f"{right}/{unfit} not-ours: the controller 'o\\x00e' contains a NUL character" in told
    assert "integrity 2 findings" in told


async def test_records_below_a_truncated_head_are_told_as_gone(place: KafkaPlace) -> None:
    async with opened(place) as log:
        ends = [await log.end_offset(number) for number in range(PARTITIONS)]
        partition = ends.index(max(ends))
        assert len(await log.read(partition, 0, limit=1, timeout_s=10)) == 1
    await delete_records(place, partition, 2)
    async with opened(place) as log:
        assert await log.beginning_offset(partition) == 2
        with pytest.raises(OffsetOutOfRange, match="begins at offset 2, and 1 was asked for: the records between"):
            await log.read(partition, 1, limit=1, timeout_s=10)
        (record,) = await log.read(partition, 2, limit=1, timeout_s=10)
        assert record.offset == 2


async def test_a_reader_past_the_end_says_that_the_topic_is_not_what_it_was(place: KafkaPlace) -> None:
    async with opened(place) as log:
        end = await log.end_offset(0)
        with pytest.raises(LogUnreadable, match=f"ends at offset {end}, and records up to {end + 5} were there before"):
            await log.read(0, end + 5, limit=1, timeout_s=10)


async def test_a_read_without_a_wait_gives_what_is_there_however_far_its_reader_has_to_leap(place: KafkaPlace) -> None:
    async with opened(place) as log:
        first = entry(0)
        partition = partition_for(first.key, PARTITIONS)
        end = await log.end_offset(partition)
        assert len(await log.read(partition, 0, limit=end, timeout_s=10)) == end
        for _ in range(4):
            # One by one: the reader fetches the first ahead, and no more before that is read.
            await log.append([first])
            await asyncio.sleep(0.1)
        (record, _) = await log.read(partition, end + 2, limit=10, timeout_s=0.0)
        assert record.offset == end + 2

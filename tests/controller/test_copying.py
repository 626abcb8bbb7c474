"""Copying a log: what stands in the target decides what is left to do, and the end proves the whole."""

import asyncio
import io
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from controller import exits, places
from controller.commands import copy as copy_command
from controller.commands.cli import main
from controller.copying import LIMIT, Copied, Side, accept, copy
from eventlog import codec
from eventlog.events import NodeSeen, RelistBegan
from eventlog.integrity import check
from eventlog.log import AppendOutcomeUnknown, EventLog, LogUnavailable, LogUnreadable
from eventlog.memory import MemoryLog
from eventlog.record import Entry, Headers, Position, Record
from eventlog.sqlite import SqliteLog

PARTITIONS = 3


def entries(count: int, first: int = 0) -> list[Entry]:
    return [
        codec.entry(
            f"fabric.{number % 7}",
            NodeSeen(f"n{number}", "u", number),
            timestamp_ms=number,
            controller=f"c{number % 2}",
        )
        for number in range(first, count)
    ]


async def log_of(found: Sequence[Entry]) -> MemoryLog:
    log = MemoryLog(partitions=PARTITIONS)
    await log.append(found)
    return log


async def contents(log: EventLog) -> list[list[Entry]]:
    """What the log holds, by partition."""
    return [
        [
            Entry(record.key, record.timestamp_ms, record.headers, record.value)
            for record in await log.read(partition, 0, limit=1 << 20, timeout_s=0)
        ]
        for partition in range(log.partitions)
    ]


def unseen(_phase: str, _done: int, _total: int) -> None:
    """Show nothing."""


async def copied(source: EventLog, target: EventLog) -> Copied:
    one, other = Side("one", source), Side("other", target)
    return await copy(one, await accept(one, unseen), other, unseen)


EVENTS = st.builds(
    lambda key, cause, by: codec.entry(f"watch/{key}", RelistBegan("nodes", cause), timestamp_ms=1, controller=by),
    st.integers(0, 9),
    st.text(max_size=3),
    st.sampled_from("ab"),
)


@given(st.lists(EVENTS, max_size=30), st.lists(st.integers(0, 30), min_size=PARTITIONS, max_size=PARTITIONS))
def test_whatever_of_the_source_is_there_already_the_copy_is_the_source(found: list[Entry], there: list[int]) -> None:
    async def run() -> None:
        source, target = await log_of(found), MemoryLog(partitions=PARTITIONS)
        began = [some[:count] for some, count in zip(await contents(source), there, strict=True)]
        for some in began:
            await target.append(some)
        result = await copied(source, target)
        assert await contents(target) == await contents(source)
        already = sum(map(len, began))
        assert (result.records, result.there_already, result.copied) == (len(found), already, len(found) - already)
        assert result.differences == ()
        reports = await check(source, {}, dense=True)
        assert [(one.records, one.head) for one in result.partitions] == [
            (report.records, report.head.hex()) for report in reports
        ]

    asyncio.run(run())


async def test_a_second_call_copies_what_has_come_since() -> None:
    source, target = await log_of(entries(20)), MemoryLog(partitions=PARTITIONS)
    first = await copied(source, target)
    await source.append(entries(50, first=20))
    second = await copied(source, target)
    third = await copied(source, target)
    assert [(one.there_already, one.copied) for one in (first, second, third)] == [(0, 20), (20, 30), (50, 0)]
    assert [one.records for one in (first, second, third)] == [20, 50, 50]
    assert third.partitions == second.partitions
    assert await contents(target) == await contents(source)


@pytest.mark.parametrize("change", ["another record", "one more record", "another order"])
async def test_a_target_that_holds_anything_else_is_refused_and_left_as_it_is(change: str) -> None:
    found = entries(20)
    there = {
        "another record": [*found[:18], *entries(22, first=21)],
        "one more record": [*found, *entries(22, first=21)],
        "another order": [found[7], *found[:7]],
    }[change]
    source, target = await log_of(found), await log_of(there)
    before = await contents(target)
    with pytest.raises(
        LogUnreadable, match=r"other holds records that are no copy of one: at .* in one .*; it was left as it is, give"
    ):
        await copied(source, target)
    assert await contents(target) == before


async def test_all_partitions_are_compared_before_anything_is_appended() -> None:
    found = entries(40)
    source = await log_of(found)
    last = [entry for entry in found if entry in (await contents(source))[PARTITIONS - 1]]
    assert len(last) > 2
    target = await log_of(last[1:])
    before = await contents(target)
    with pytest.raises(LogUnreadable, match="no copy of"):
        await copied(source, target)
    assert await contents(target) == before


async def test_a_target_with_another_number_of_partitions_is_refused() -> None:
    with pytest.raises(LogUnreadable, match="other has 4 partitions and one has 3, so that keys would change theirs"):
        await copied(await log_of(entries(5)), MemoryLog(partitions=4))


async def test_a_record_that_is_no_event_is_copied_as_it_is() -> None:
    poison = Entry("fabric.1", 1, Headers("node-seen", 1, "defect"), b"{not json")
    source, target = await log_of([*entries(5), poison, *entries(9, first=5)]), MemoryLog(partitions=PARTITIONS)
    assert (await copied(source, target)).differences == ()
    assert await contents(target) == await contents(source)


async def test_a_log_with_a_record_of_a_newer_schema_is_refused_since_its_state_cannot_be_compared() -> None:
    newer = Entry("fabric.1", 1, Headers("node-seen", codec.SCHEMA_VERSION + 1, "newer"), b"{}")
    with pytest.raises(codec.NewerSchema, match="use a newer cliquelog"):
        await copied(await log_of([newer]), MemoryLog(partitions=PARTITIONS))


class Gappy(MemoryLog):
    """A log as Kafka gives it: every third offset is none of its records, and a read may give few."""

    async def read(self, partition: int, offset: int, *, limit: int, timeout_s: float) -> Sequence[Record]:
        records = await super().read(partition, offset, limit=1 << 20, timeout_s=timeout_s)
        return [record for record in records if record.offset % 3][: min(limit, 5)]


async def test_gaps_in_the_source_are_no_records() -> None:
    source = Gappy(partitions=PARTITIONS)
    await source.append(entries(100))
    target = MemoryLog(partitions=PARTITIONS)
    for part in (await contents(source))[:2]:
        await target.append(part[:4])
    result = await copied(source, target)
    assert result.differences == ()
    assert result.records == sum([await _count(source, part) for part in range(PARTITIONS)])
    assert result.there_already == 8


async def _count(log: EventLog, partition: int) -> int:
    offset, count = 0, 0
    while records := await log.read(partition, offset, limit=100, timeout_s=0):
        offset, count = records[-1].offset + 1, count + len(records)
    return count


class Beheaded(MemoryLog):
    """A log whose first records are gone in one partition."""

    async def beginning_offset(self, partition: int) -> int:
        return 2 if partition == 1 else 0


async def test_a_log_whose_first_records_are_gone_is_refused() -> None:
    for name, source, target in (
        ("one", Beheaded(partitions=PARTITIONS), MemoryLog(partitions=PARTITIONS)),
        ("other", MemoryLog(partitions=PARTITIONS), Beheaded(partitions=PARTITIONS)),
    ):
        with pytest.raises(LogUnreadable, match=f"partition 1 of {name} begins at offset 2: the records before are"):
            await copied(source, target)


async def test_a_record_in_the_wrong_partition_is_refused_since_it_would_not_stay_there(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    source = await SqliteLog.open(path, partitions=2)
    (position,) = await source.append(entries(1))
    await source.close()
    with closing(sqlite3.connect(path)) as tool:
        tool.execute("UPDATE record SET position = ?", ((1 - position.partition) << 40,))
        tool.commit()
    source = await SqliteLog.open_readonly(path)
    try:
        with pytest.raises(LogUnreadable, match=f"in the wrong partition: its key belongs to {position.partition}"):
            await copied(source, MemoryLog(partitions=2))
    finally:
        await source.close()


class Meddled(MemoryLog):
    """A target that does not store what it is given."""

    def __init__(self, meddle: str) -> None:
        super().__init__(partitions=PARTITIONS)
        self._meddle = meddle
        self.largest = 0

    async def append(self, entries: Sequence[Entry]) -> Sequence[Position]:
        self.largest = max(self.largest, len(entries))
        one = entries[0]
        match self._meddle:
            case "lost":
                return await super().append(entries[1:])
            case "twice":
                await super().append(entries[:1])
            case "changed":
                changed = Entry(one.key, one.timestamp_ms + 1, one.headers, one.value)
                return await super().append([changed, *entries[1:]])
        return await super().append(entries)


@pytest.mark.parametrize(
    ("meddle", "told"),
    [("lost", "records where"), ("twice", "records where"), ("changed", "another hash chain")],
)
async def test_a_copy_that_is_not_equal_is_told(meddle: str, told: str) -> None:
    result = await copied(await log_of(entries(60)), Meddled(meddle))
    assert len(result.differences) == PARTITIONS
    assert all(told in difference for difference in result.differences)


async def test_no_more_records_are_held_at_once_than_the_limit() -> None:
    target = Meddled("nothing")
    source = await log_of(entries(LIMIT * 12))
    assert (await copied(source, target)).differences == ()
    assert target.largest == LIMIT


class Failing(MemoryLog):
    """A target whose second append fails, with or without an effect."""

    def __init__(self, error: Exception, *, effect: bool) -> None:
        super().__init__(partitions=PARTITIONS)
        self._error = error
        self._effect = effect
        self._appends = 0

    async def append(self, entries: Sequence[Entry]) -> Sequence[Position]:
        self._appends += 1
        if self._appends != 2:
            return await super().append(entries)
        if self._effect:
            await super().append(entries)
        raise self._error


@pytest.mark.parametrize("error", [LogUnavailable("the disk is full"), AppendOutcomeUnknown("no answer")])
@pytest.mark.parametrize("effect", [True, False])
async def test_an_append_that_fails_ends_the_copy_and_the_next_call_goes_on(error: Exception, effect: bool) -> None:
    source, target = await log_of(entries(60)), Failing(error, effect=effect)
    with pytest.raises(LogUnavailable, match="ended midway, the same command goes on from there: "):
        await copied(source, target)
    result = await copied(source, target)
    assert 0 < result.there_already < 60
    assert result.differences == ()
    assert await contents(target) == await contents(source)


# --- as a command ---


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["copy", *map(str, arguments)])


def sentence(result: Result) -> str:
    assert result.output.startswith("Error: "), result.output
    assert result.output.count("\n") == 1
    return result.output


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A log of forty records in a file."""

    async def make() -> None:
        log = await SqliteLog.open(tmp_path / "from.sqlite", partitions=PARTITIONS)
        await log.append(entries(40))
        await log.close()

    asyncio.run(make())
    return tmp_path / "from.sqlite"


def test_a_log_is_copied_into_a_new_file_and_told_in_numbers(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "to.sqlite"
    first = json.loads(run(f"sqlite:{source}", f"sqlite:{target}", "--json").output)
    assert (first["source"], first["target"], first["not_ours"]) == (f"sqlite:{source}", f"sqlite:{target}", 0)
    assert (first["copied"], first["there_already"], first["records"]) == (40, 0, 40)
    assert (first["first_not_ours"], first["differences"]) == (None, [])
    assert first["seconds"] == round(first["seconds"], 3)
    second = run(f"sqlite:{source}", f"sqlite:{target}")
    assert second.exit_code == 0
    assert second.output.splitlines()[0] == "copied      0 records; 40 were there already"
    assert second.output.splitlines()[-1] == "verified    equal hash chains and states"
    heads, others = (
        json.loads(CliRunner().invoke(main, ["verify", f"sqlite:{path}", "--json"]).output) for path in (source, target)
    )
    assert heads == others
    assert {str(one["partition"]): one["head"] for one in first["partitions"] if one["records"]} == heads["heads"]


def test_what_cannot_be_copied_is_one_sentence_and_nothing_is_made(source: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere.sqlite"
    result = run(f"sqlite:{nowhere}", f"sqlite:{tmp_path / 'to.sqlite'}")
    assert result.exit_code == exits.LOG
    assert str(nowhere) in sentence(result)
    assert [path.name for path in tmp_path.iterdir()] == [source.name]
    for target in (f"sqlite:{tmp_path}", f"sqlite:{tmp_path / 'no' / 'folder'}", "elsewhere", f"sqlite:/{'x' * 300}"):
        result = run(f"sqlite:{source}", target)
        assert result.exit_code == exits.LOG
        assert sentence(result)


@pytest.mark.parametrize("flaw", ["a newer schema", "a head cut off", "in the wrong partition"])
def test_a_source_that_is_refused_leaves_nothing_behind(source: Path, tmp_path: Path, flaw: str) -> None:
    change = {
        "a newer schema": "UPDATE headers SET schema_version = 99 WHERE controller = 'c1'",
        "a head cut off": "DELETE FROM record WHERE position = (SELECT min(position) FROM record)",
        "in the wrong partition": "UPDATE record SET key = iif(key = 'fabric.0', 'fabric.1', 'fabric.0')",
    }[flaw]
    with closing(sqlite3.connect(source)) as tool:
        tool.execute(change)
        tool.commit()
    result = run(f"sqlite:{source}", f"sqlite:{tmp_path / 'to.sqlite'}")
    assert result.exit_code == exits.LOG
    assert f"sqlite:{source}" in sentence(result)
    assert [path.name for path in tmp_path.glob("to*")] == []


@pytest.mark.parametrize(
    ("options", "target", "told"),
    [
        (("--kafka-config", "x"), "sqlite:to", "--kafka-config is for a log on Kafka, and neither FROM nor TO is one"),
        (("--replication-factor", "3"), "sqlite:to", "--replication-factor is for a log on Kafka, and TO is not one"),
        (("--min-insync-replicas", "1"), "sqlite:to", "--min-insync-replicas is for a log on Kafka, and TO is not one"),
        (
            ("--from-kafka-config", "x"),
            "kafka://b:9/t",
            "--from-kafka-config is for a log on Kafka, and FROM is not one",
        ),
    ],
    ids=str,
)
def test_options_for_kafka_that_would_have_no_effect_are_refused(
    source: Path, options: tuple[str, str], target: str, told: str
) -> None:
    result = run(f"sqlite:{source}", target, *options)
    assert result.exit_code == 2
    assert f"{told}: leave it out" in result.output


def test_settings_for_kafka_in_the_environment_are_for_other_commands(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLIQUELOG_KAFKA_CONFIG", "elsewhere")
    assert run(f"sqlite:{source}", f"sqlite:{tmp_path / 'to.sqlite'}").exit_code == 0


def test_a_file_with_another_number_of_partitions_is_one_sentence(source: Path, tmp_path: Path) -> None:
    async def make() -> None:
        await (await SqliteLog.open(tmp_path / "to.sqlite", partitions=5)).close()

    asyncio.run(make())
    result = run(f"sqlite:{source}", f"sqlite:{tmp_path / 'to.sqlite'}")
    assert result.exit_code == exits.LOG
    assert (
        f"to.sqlite has 5 partitions and sqlite:{source} has 3, so that keys would change theirs; give another"
        in sentence(result)
    )


def test_a_copy_that_is_not_equal_ends_with_its_own_code(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def meddled(_place: str, _partitions: int, _making: places.Making) -> EventLog:
        return Meddled("lost")

    monkeypatch.setattr(places, "open_or_make", meddled)
    result = run(f"sqlite:{source}", f"sqlite:{tmp_path / 'to.sqlite'}")
    assert result.exit_code == exits.FOUND
    assert "verified    NOT EQUAL" in result.output
    assert result.output.count("records where") == PARTITIONS


def test_a_terminal_is_shown_each_phase_with_its_rate() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with copy_command._progress(console) as show:
        for phase in ("check", "compare", "copy", "verify"):
            show(phase, 0, 1000)
            show(phase, 500, 1000)
            show(phase, 1000, 1000)
    shown = console.file.getvalue()
    for part in ("check", "compare", "copy", "verify", "1000/1000", "/s"):
        assert part in shown

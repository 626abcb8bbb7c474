import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from eventlog.codec import entry as event_entry
from eventlog.events import IndexReleased, NodeSeen
from eventlog.integrity import MAX_FINDINGS, PartitionReport, check, check_partition
from eventlog.log import EventLog
from eventlog.memory import MemoryLog
from eventlog.record import GENESIS, Entry, Record, chain
from eventlog.sqlite import SqliteLog


def entries(count: int) -> list[Entry]:
    return [
        event_entry(f"clique.{number % 9}", NodeSeen("n", "u", number), timestamp_ms=number, controller="one")
        for number in range(count)
    ]


async def report_after(path: Path, *statements: str) -> list[tuple[str, str]]:
    """Write a log, change its file behind its back, and give the findings' codes and messages."""
    log = await SqliteLog.open(path, partitions=1)
    await log.append(entries(20))
    await log.append([event_entry("clique.0", IndexReleased("d", "n", 0), timestamp_ms=20, controller="one")])
    await log.close()
    with closing(sqlite3.connect(path)) as tool:
        for statement in statements:
            assert tool.execute(statement).rowcount > 0
        tool.commit()
    log = await SqliteLog.open_readonly(path)
    (report,) = await check(log, {}, dense=True)
    await log.close()
    assert report.findings_count == len(report.findings)
    return [(finding.code, f"{finding.partition}/{finding.offset} {finding.message}") for finding in report.findings]


async def test_a_sound_log_gives_no_findings_and_the_heads_of_its_chains(log: EventLog) -> None:
    written = entries(5_000)
    positions = await log.append(written)
    heads = [GENESIS] * log.partitions
    for one, position in zip(written, positions, strict=True):
        heads[position.partition] = chain(heads[position.partition], one)
    reports = await check(log, {}, dense=True)
    assert [report.partition for report in reports] == list(range(log.partitions))
    assert [report.head for report in reports] == heads
    assert [report.findings_count for report in reports] == [0] * log.partitions
    assert sum(report.records for report in reports) == 5_000
    for report in reports:
        assert (report.beginning, report.next_offset) == (0, await log.end_offset(report.partition))


async def test_an_empty_partition_has_the_head_of_an_empty_chain(log: EventLog) -> None:
    assert await check_partition(log, 2, 0, dense=True) == PartitionReport(2, 0, 0, 0, GENESIS, [], 0, b"", GENESIS)


async def test_a_missing_record_is_found(tmp_path: Path) -> None:
    found = await report_after(tmp_path / "log.sqlite", "DELETE FROM record WHERE position IN (5, 6)")
    assert found == [("offset-gap", "0/7 the records from offset 5 to 6 are missing")]


async def test_records_cut_from_the_beginning_move_the_beginning(tmp_path: Path) -> None:
    assert await report_after(tmp_path / "log.sqlite", "DELETE FROM record WHERE position < 5") == []


async def test_bytes_that_are_no_event_are_found(tmp_path: Path) -> None:
    found = await report_after(
        tmp_path / "log.sqlite", 'UPDATE record SET value = CAST(\'{"type":"no\' AS BLOB) WHERE position = 3'
    )
    assert [code for code, _ in found] == ["undecodable"]
    assert found[0][1].startswith("0/3 record cliquelog 0/3 cannot be decoded")


async def test_headers_that_name_another_event_are_found(tmp_path: Path) -> None:
    found = await report_after(tmp_path / "log.sqlite", "UPDATE record SET headers = 2 WHERE position = 3")
    assert found == [("type-mismatch", "0/3 the headers say 'index-released' and the event is 'node-seen'")]


async def test_a_key_with_a_nul_is_found(tmp_path: Path) -> None:
    found = await report_after(tmp_path / "log.sqlite", "UPDATE record SET key = 'a' || char(0) WHERE position = 3")
    assert found == [("unfit-record", "0/3 the key 'a\\x00' contains a NUL character; leave it out")]


async def test_a_record_in_the_wrong_partition_is_found(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    log = await SqliteLog.open(path, partitions=2)
    (position,) = await log.append(entries(1))
    await log.close()
    other = 1 - position.partition
    with closing(sqlite3.connect(path)) as tool:
        tool.execute("UPDATE record SET position = ?", (other << 40,))
        tool.commit()
    log = await SqliteLog.open_readonly(path)
    reports = await check(log, {}, dense=True)
    await log.close()
    (finding,) = [finding for report in reports for finding in report.findings]
    assert (finding.partition, finding.offset, finding.code) == (other, 0, "wrong-partition")
    assert finding.message == f"key 'clique.0' belongs to partition {position.partition}"


async def test_a_changed_record_changes_the_head_though_nothing_else_shows_it(tmp_path: Path) -> None:
    heads = []
    for name, change in (
        ("log", "UPDATE record SET timestamp_ms = timestamp_ms WHERE position = 3"),
        ("copy", "UPDATE record SET timestamp_ms = timestamp_ms WHERE position = 4"),
        ("changed", "UPDATE record SET timestamp_ms = timestamp_ms + 1 WHERE position = 3"),
    ):
        assert await report_after(tmp_path / name, change) == []
        log = await SqliteLog.open_readonly(tmp_path / name)
        heads.append((await check_partition(log, 0, 0, dense=True)).head)
        await log.close()
    assert heads[0] == heads[1] != heads[2]


class Disordered(MemoryLog):
    """A log of an engine that breaks its promise: two records changed places, and one is missing."""

    async def read(self, partition: int, offset: int, *, limit: int, timeout_s: float) -> Sequence[Record]:
        records = list(await super().read(partition, offset, limit=limit, timeout_s=timeout_s))
        if len(records) > 5:
            records[1], records[2] = records[2], records[1]
            del records[4]
        return records


@pytest.mark.parametrize(("dense", "gaps"), [(True, ["offset-gap"]), (False, [])])
async def test_gaps_are_a_finding_only_on_an_engine_that_gives_none_and_disorder_always(
    dense: bool, gaps: list[str]
) -> None:
    log = Disordered(partitions=1)
    await log.append(entries(10))
    report = await check_partition(log, 0, 0, dense=dense)
    codes = [(finding.offset, finding.code) for finding in report.findings]
    assert (1, "offset-order") in codes
    assert [code for offset, code in codes if offset == 5] == gaps


async def test_a_ruined_log_gives_a_report_that_can_be_read() -> None:
    log = MemoryLog(partitions=1)
    await log.append([Entry("k", 1, one.headers, b"junk") for one in entries(5_000)])
    report = await check_partition(log, 0, 0, dense=True)
    assert len(report.findings) == MAX_FINDINGS
    assert report.findings_count == report.records == 5_000

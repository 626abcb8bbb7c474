"""Writers killed with SIGKILL at random moments, 200 times: what was acknowledged is there, whole and in order.

Each log goes through eight rounds, so that later writers work on what killed ones left behind; in every other round
two writers share the file. The moments cover the creation of the file as well as full work.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from eventlog.codec import decode
from eventlog.events import IndexAssigned
from eventlog.integrity import PartitionReport, check
from eventlog.log import LogUnreadable
from eventlog.record import GENESIS, Record, chain
from eventlog.sqlite import SqliteLog

ROUNDS = 8
LOGS = 17
SEEDS = range(20_261_129, 20_261_129 + LOGS)


class Writers:
    """The program that forks writers."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "writers.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, seed: int, log: Path, acks: Path) -> int:
        return self._ask({"start": seed, "log": str(log), "acks": str(acks)})

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        assert os.WTERMSIG(self._ask({"wait": pid})) == signal.SIGKILL, "the writer worked until it was killed"

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()

    def _ask(self, request: dict[str, object]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@pytest.fixture(scope="module")
def writers() -> Iterator[Writers]:
    writers = Writers()
    yield writers
    writers.end()


class Found(msgspec.Struct):
    """What is in a log: its records' texts by place, and the reports on its partitions."""

    causes: dict[tuple[int, int], str]
    records: dict[int, Sequence[Record]]
    reports: Sequence[PartitionReport]


async def look(path: Path) -> Found:
    log = await SqliteLog.open_readonly(path)
    try:
        records = {number: await log.read(number, 0, limit=1 << 20, timeout_s=0) for number in range(log.partitions)}
        causes = {}
        for record in (record for partition in records.values() for record in partition):
            event = decode(record)
            assert isinstance(event, IndexAssigned)
            causes[record.partition, record.offset] = event.cause
        assert await log.damage() == []
        return Found(causes, records, await check(log, {}, dense=True))
    finally:
        await log.close()


def acknowledged(acks: Path) -> dict[tuple[int, int], str]:
    """Give what the writers noted, each in a file of its own, as its last line may be torn by the kill."""
    lines = [line for file in acks.iterdir() for line in file.read_text().rpartition("\n")[0].splitlines()]
    return {(partition, offset): cause for line in lines for partition, offset, cause in json.loads(line)}


def assert_no_append_is_there_in_part(causes: Sequence[str]) -> None:
    places = defaultdict(list)
    for cause in causes:
        seed, task, number, place, size, _ = cause.split("/")
        places[seed, task, number, size].append(int(place))
    for (_, _, _, size), there in places.items():
        assert sorted(there) == list(range(int(size)))


def assert_heads_recompute(found: Found, before: Sequence[PartitionReport]) -> None:
    """The head that was noted after the round before is the one that today's records give at that offset."""
    for report in before:
        head = GENESIS
        for record in found.records[report.partition][: report.next_offset]:
            head = chain(head, record)
        assert head == report.head


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_killed_writer_loses_nothing_that_was_acknowledged(seed: int, writers: Writers, tmp_path: Path) -> None:
    chance = random.Random(seed)
    path, acks = tmp_path / "log.sqlite", tmp_path / "acks"
    os.mkdir(acks)  # noqa: PTH102 - pathlib's is taken for blocking
    before: Sequence[PartitionReport] = []
    for turn in range(ROUNDS):
        pids = [writers.start(seed * 100 + turn * 10 + one, path, acks) for one in range(1 + turn % 2)]
        for pid in pids:
            await asyncio.sleep(chance.uniform(0.0, 0.08))
            writers.kill(pid)
        promised = acknowledged(acks)
        try:
            found = await look(path)
        except LogUnreadable:
            assert not promised, "a log that was not yet created cannot have acknowledged anything"
            continue
        assert {place: found.causes[place] for place in promised} == promised
        assert [finding for report in found.reports for finding in report.findings] == []
        assert_no_append_is_there_in_part(list(found.causes.values()))
        assert_heads_recompute(found, before)
        before = found.reports
    assert before
    assert sum(report.records for report in before) > 0
    verify = await asyncio.create_subprocess_exec(sys.executable, "-m", "controller", "verify", f"sqlite:{path}")
    assert await verify.wait() == 0, "what a user would run finds the log sound"


@pytest.mark.parametrize("seed", range(10))
async def test_writers_that_create_one_log_at_the_same_moment_all_append_to_it(
    seed: int, writers: Writers, tmp_path: Path
) -> None:
    path, acks = tmp_path / "log.sqlite", tmp_path / "acks"
    os.mkdir(acks)  # noqa: PTH102 - pathlib's is taken for blocking
    seeds = range(seed * 10, seed * 10 + 3)
    pids = [writers.start(one, path, acks) for one in seeds]
    deadline = asyncio.get_running_loop().time() + 20
    while len({cause.split("/")[0] for cause in acknowledged(acks).values()}) < len(seeds):
        assert asyncio.get_running_loop().time() < deadline, "every writer gets its turn"
        await asyncio.sleep(0.02)
    for pid in pids:
        writers.kill(pid)
    found = await look(path)
    promised = acknowledged(acks)
    assert {place: found.causes[place] for place in promised} == promised
    assert [finding for report in found.reports for finding in report.findings] == []

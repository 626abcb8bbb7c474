"""Why a node is not ready, asked of a controller that runs."""

import asyncio
import json
from collections.abc import Sequence

import pytest
from click.testing import CliRunner, Result

from controller import exits
from controller.commands.cli import main
from controller.history.live_why import LiveWhy
from controller.http import StatusServer, Unanswered
from controller.metrics import Metrics
from eventlog import codec
from eventlog.memory import MemoryLog
from eventlog.record import Record
from kube.clock import SystemClock
from projections.audit.situation import Pending
from projections.effects import Target
from projections.settings import Settings
from tests.history.test_why import CDC, INDEXED, READY, Keyed


class LastingLog(MemoryLog):
    """A log that outlives those who open and close it."""

    async def close(self) -> None:
        pass


class SlowLog(LastingLog):
    """One whose reads wait."""

    def __init__(self) -> None:
        super().__init__(partitions=1)
        self.may_read = asyncio.Event()

    async def read(self, partition: int, offset: int, *, limit: int, timeout_s: float) -> Sequence[Record]:
        await self.may_read.wait()
        return await super().read(partition, offset, limit=limit, timeout_s=timeout_s)


class Writes:
    """What the next writes wait for."""

    def __init__(self) -> None:
        self.asked: list[Target] = []

    def __call__(self, target: Target) -> Pending | None:
        self.asked.append(target)
        return Pending("paced", 1.25)


async def filled(log: MemoryLog, history: Sequence[Keyed]) -> MemoryLog:
    for key, event in history:
        await log.append([codec.entry(key, event, timestamp_ms=1000, controller="test")])
    return log


def live(log: MemoryLog, writes: Writes) -> LiveWhy:
    async def open_log() -> MemoryLog:
        return log

    return LiveWhy(open_log, writes, SystemClock(), Settings("driver"))


async def test_the_answer_says_what_the_next_write_waits_for() -> None:
    writes = Writes()
    answer = json.loads(await live(await filled(LastingLog(partitions=3), READY), writes).answer("n0"))
    assert (answer["missing"], answer["ready"]) == ("write-paced", False)
    assert "waits 1.2 s for company" in answer["sentence"]
    assert writes.asked == [Target("computedomaincliques", "driver", CDC)]
    assert answer["at"] > "2026"


async def test_the_object_is_named_also_before_it_is_there() -> None:
    writes = Writes()
    answer = json.loads(await live(await filled(LastingLog(partitions=3), INDEXED), writes).answer("n0"))
    assert answer["missing"] == "no-pod"
    assert writes.asked == [Target("computedomaincliques", "driver", CDC)]


async def test_one_question_is_answered_at_a_time() -> None:
    log = SlowLog()
    await filled(log, READY)
    asked = live(log, Writes())
    first = asyncio.create_task(asked.answer("n0"))
    await asyncio.sleep(0)
    with pytest.raises(Unanswered, match="another question"):
        await asked.answer("n0")
    log.may_read.set()
    assert b"write-paced" in await first
    assert b"write-paced" in await asked.answer("n0")


async def test_a_log_that_cannot_be_read_is_told() -> None:
    log = await filled(MemoryLog(partitions=1), READY)
    await log.close()
    with pytest.raises(Unanswered, match="the log cannot be read: the log is closed"):
        await live(log, Writes()).answer("n0")


def why(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["why", *arguments], catch_exceptions=False)


async def command_against(body: bytes) -> Result:
    """Run the command against a server that answers so."""

    async def explain(_name: str) -> bytes:
        return body

    server = StatusServer(lambda: None, lambda: None, Metrics(), explain)
    port = await server.start("127.0.0.1", 0)
    try:
        return await asyncio.to_thread(why, "n0", "--url", f"http://127.0.0.1:{port}")
    finally:
        await server.close()


async def test_the_command_shows_what_a_controller_answers() -> None:
    body = await live(await filled(LastingLog(partitions=3), READY), Writes()).answer("n0")
    done = await command_against(body)
    assert done.exit_code == exits.FOUND
    assert done.stdout.startswith("the row of node n0 is not Ready: its write waits 1.2 s for company.")


@pytest.mark.parametrize("change", [b"", b"[]", b"not json", b'{"node": 7}', b"unknown field", b"no time"])
async def test_the_command_takes_nothing_for_an_answer_that_is_none(change: bytes) -> None:
    body = await live(await filled(LastingLog(partitions=3), READY), Writes()).answer("n0")
    if change == b"unknown field":
        change = body[:-1] + b',"more":1}'
    elif change == b"no time":
        change = body.replace(b'"time":"1970', b'"time":"x', 1)
    done = await command_against(change)
    assert done.exit_code == exits.API
    assert "is no controller of this version" in done.stderr


def test_a_controller_is_asked_about_now_only() -> None:
    done = why("n0", "--url", "http://127.0.0.1:1", "--at", "+1s")
    assert done.exit_code == 2


def test_a_controller_that_is_not_there_is_told() -> None:
    done = why("n0", "--url", "http://127.0.0.1:1")
    assert done.exit_code == exits.API
    assert "does not answer" in done.stderr

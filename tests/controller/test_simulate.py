"""`cliquelog simulate` forms its domain with a real controller, says so, and ends cleanly however it ends."""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from controller.commands import simulate as simulate_command
from controller.commands.cli import main
from controller.commands.verify import verify
from controller.exits import CONFIGURATION, FOUND, LOG
from controller.history.replaying import Replay
from controller.simulating.child import Usage
from controller.simulating.run import Job, Outcome, Show
from kube.clock import SystemClock
from simulation.capacity import Limits
from simulation.timing import Timing
from simulation.world import World
from tests.controller.bad_input import answer, sentence_of
from tests.integration.waiting import eventually

FIELDS = {
    "nodes", "cliques", "rows_ready", "formation_seconds", "clique_writes", "clique_writes_max", "status_writes",
    "conflicts_409", "throttled_429", "row_visible_ms", "last_row_visible_ms", "records", "log_bytes", "replay",
}  # fmt: skip


def hears_signals() -> None:
    """Take signals as under a terminal, even where the tests themselves run under `nohup` or in the background."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@asynccontextmanager
async def simulating(folder: Path, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run it as a terminal does, in a process group of its own, with its temporary files in `folder`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "controller", "simulate", *options),
        env={**os.environ, "TMPDIR": str(folder), "NAMESPACE": "of-somebody-else", "CLIQUELOG_LOG": "sqlite:/nowhere"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        process_group=0,
        preexec_fn=hears_signals,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def said(process: asyncio.subprocess.Process) -> tuple[str, str]:
    output, errors = await process.communicate()
    return output.decode(), errors.decode()


async def is_sound(place: str) -> bool:
    return (await asyncio.to_thread(CliRunner().invoke, verify, [place])).exit_code == 0


def list_folders(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir() if each.is_dir()]


def controllers_words(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.glob("cliquelog-simulate-*/controller.log"))


async def test_it_forms_a_domain_and_prints_one_object(tmp_path: Path) -> None:
    place = f"sqlite:{tmp_path / 'log.sqlite'}"
    options = ("--nodes", "40", "--window", "0.5", "--json", "--log", place)
    async with simulating(tmp_path, *options) as process:
        output, errors = await said(process)
    assert process.returncode == 0, errors
    result = msgspec.json.decode(output)
    assert result.keys() >= FIELDS
    assert (result["nodes"], result["cliques"], result["rows_ready"]) == (40, 3, 40)
    assert (result["conflicts_409"], result["throttled_429"]) == (0, 0)
    assert result["replay"]["digest_equal"] is True
    assert result["clique_writes"] >= 2 * result["cliques"]
    assert result["records"] > 40 * 5
    single = result["single_changes"]
    assert (single["changes"], single["writes"]) == (6, 6), "an address and a readiness in each clique"
    assert "40 of 40 rows Ready" in errors, "people are told on standard error"
    assert await is_sound(place)
    assert not list_folders(tmp_path), "nothing else is left"


async def test_it_prints_a_table_and_keeps_the_log_where_none_is_named(tmp_path: Path) -> None:
    async with simulating(tmp_path, "--nodes", "3", "--clique-size", "2", "--window", "0") as process:
        output, errors = await said(process)
    assert process.returncode == 0, output + errors
    assert "3 of 3, in 2 cliques" in output
    assert "equal to what was saved" in output
    (place,) = [line.split()[-1] for line in output.splitlines() if "cliquelog verify" in line]
    assert place.startswith(f"sqlite:{tmp_path}")
    assert await is_sound(place)
    own = (str(tmp_path), sys.prefix)  # a path is as long as it is
    assert all(len(line) <= 80 for line in output.splitlines() if not any(path in line for path in own)), output


async def test_a_strategy_to_compare_with_has_no_log_and_the_same_figures(tmp_path: Path) -> None:
    options = ("--nodes", "6", "--clique-size", "3", "--window", "0", "--strategy", "negotiate", "--json")
    async with simulating(tmp_path, *options) as process:
        output, errors = await said(process)
    assert process.returncode == 0, errors
    result = msgspec.json.decode(output)
    assert result.keys() >= FIELDS
    assert (result["rows_ready"], result["replay"], result["records"]) == (6, None, 0)
    assert result["clique_writes"] == 2 * (1 + 3 + 3), "each clique's creation, and two writes for each daemon"
    assert list_folders(tmp_path) == []


def test_only_our_strategy_takes_a_log() -> None:
    done = CliRunner().invoke(main, ["simulate", "--strategy", "negotiate", "--log", "sqlite:/tmp/x"])
    assert "leave --log out" in sentence_of(done.output, done.exit_code, 2)


def place_in(folder: Path) -> str:
    """Give the place of a log that nobody named."""
    (path,) = folder.glob("cliquelog-simulate-*/log.sqlite")
    return f"sqlite:{path}"


def is_started(folder: Path) -> bool:
    return any(folder.glob("cliquelog-simulate-*/controller.log"))


def children(number: int) -> list[int]:
    """Give the processes that the process has started."""
    return [int(word) for word in Path(f"/proc/{number}/task/{number}/children").read_text().split()]


async def controller_acts(folder: Path) -> None:
    async def told() -> str:
        return controllers_words(folder)

    await eventually(told, lambda text: "acting" in text, "the controller acts")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_ends_both_processes_and_leaves_a_sound_log(tmp_path: Path, number: int) -> None:
    async with simulating(tmp_path, "--nodes", "36", "--window", "600") as process:
        await controller_acts(tmp_path)
        process.send_signal(number)
        output, errors = await said(process)
    assert process.returncode == 128 + number, output + errors
    place = place_in(tmp_path)
    assert f"is kept: {place}" in output
    assert "Traceback" not in output + errors
    assert '"event": "stopped"' in controllers_words(tmp_path), "the controller has ended cleanly"
    assert await is_sound(place)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_while_the_controller_starts_is_no_failure_of_it(tmp_path: Path, number: int) -> None:
    place = f"sqlite:{tmp_path / 'log.sqlite'}"

    async def begun() -> bool:
        return is_started(tmp_path)

    async with simulating(tmp_path, "--nodes", "36", "--window", "600", "--log", place) as process:
        await eventually(begun, lambda yes: yes, "the controller is started")
        process.send_signal(number)
        output, errors = await said(process)
    assert process.returncode == 128 + number, output + errors
    assert f"is kept: {place}" in output
    assert errors == ""
    assert await is_sound(place)
    assert list_folders(tmp_path) == [], "the log is elsewhere, so nothing else is left"


async def test_a_second_ctrl_c_in_a_terminal_does_not_reach_the_controller(tmp_path: Path) -> None:
    async with simulating(tmp_path, "--nodes", "36", "--window", "600") as process:
        await controller_acts(tmp_path)
        (child,) = children(process.pid)
        assert os.getpgid(child) != process.pid
        os.killpg(process.pid, signal.SIGINT)
        os.killpg(process.pid, signal.SIGINT)
        output, errors = await said(process)
    assert process.returncode == 128 + signal.SIGINT, output + errors
    assert '"event": "stopped"' in controllers_words(tmp_path)
    assert await is_sound(place_in(tmp_path))


@pytest.mark.parametrize(
    ("target", "strategy", "expected"),
    [
        ("&-", "cliquelog", "standard output is closed; send it to /dev/null"),
        ("/dev/full", "cliquelog", "cannot be written: No space left on device; make room"),
        ("/dev/full", "negotiate", "cannot be written: No space left on device; make room"),
    ],
)
async def test_output_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, target: str, strategy: str, expected: str
) -> None:
    place = f"sqlite:{tmp_path / 'log.sqlite'}"
    redirected = ("sh", "-c", f'exec "$@" >{target}', "sh")
    logged = ("--log", place) if strategy == "cliquelog" else ("--json",)
    arguments = ("simulate", "--nodes", "1", "--window", "0", "--strategy", strategy, *logged)
    assert expected in await answer(*arguments, code=CONFIGURATION, prefix=redirected)


def test_no_temporary_folder_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "no"))
    done = CliRunner().invoke(main, ["simulate"])
    assert "set TMPDIR to a folder" in sentence_of(done.output, done.exit_code, CONFIGURATION)


@pytest.mark.parametrize(
    ("rows_ready", "digest_equal", "why"),
    [
        (2, False, "the replay of the log gave another state than the controller saved when it ended"),
        (1, True, "only 1 of 2 rows became Ready"),
    ],
)
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_what_is_not_as_it_should_be_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rows_ready: int, digest_equal: bool, why: str, options: list[str]
) -> None:
    async def carry_out(job: Job, _show: Show) -> Outcome:
        world = World(job.plan, Limits(), SystemClock(), Timing())
        world.meter.rows_ready = rows_ready
        return Outcome(job, world, 1.0, Usage(1.0, 1), 1.0, Replay(10, 1.0, "d" * 64, digest_equal), 1)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(simulate_command, "carry_out", carry_out)
    done = CliRunner().invoke(main, ["simulate", "--nodes", "2", *options])
    assert done.exit_code == FOUND
    assert f"This is not as it should be: {why}" in done.output
    assert "Next, " not in done.output
    assert options or "in 1 clique " in done.output


async def test_a_log_of_another_run_is_left_alone(tmp_path: Path) -> None:
    place = f"sqlite:{tmp_path / 'log.sqlite'}"
    async with simulating(tmp_path, "--nodes", "1", "--window", "0", "--log", place) as process:
        await said(process)
    before = (tmp_path / "log.sqlite").read_bytes()
    sentence = await answer("simulate", "--log", place, code=LOG)
    assert "of another run" in sentence
    assert "give the path of a new file" in sentence
    assert (tmp_path / "log.sqlite").read_bytes() == before


async def test_a_log_that_cannot_be_made_is_refused_before_anything_runs(tmp_path: Path) -> None:
    sentence = await answer("simulate", "--log", f"sqlite:{tmp_path / 'no' / 'log.sqlite'}", code=LOG)
    assert f"there is no folder {tmp_path / 'no'}" in sentence


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--nodes", "0", "0 is not in the range"),
        ("--nodes", "many", "not a valid integer"),
        ("--clique-size", "19", "a clique of GB200 or GB300 has 1 to 18 nodes"),
        ("--clique-size", "0", "a clique of GB200 or GB300 has 1 to 18 nodes"),
        ("--window", "-1", "-1.0 is not in the range"),
        ("--window", "nan", "is not a number of seconds"),
        ("--window", "1e30", "1e+30 is not in the range 0<=x<=86400"),
        ("--seed", "x", "not a valid integer"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(option: str, value: str, expected: str) -> None:
    done = CliRunner().invoke(main, ["simulate", option, value])
    assert expected in sentence_of(done.output, done.exit_code, 2)


async def test_a_place_that_is_no_log_is_refused() -> None:
    assert "write sqlite:PATH" in await answer("simulate", "--log", "log.sqlite", code=LOG)


async def test_an_empty_place_is_refused() -> None:
    assert "write sqlite:PATH" in await answer("simulate", "--log", "", code=LOG)
    done = CliRunner().invoke(main, ["simulate", "--strategy", "negotiate", "--log", ""])
    assert "leave --log out" in sentence_of(done.output, done.exit_code, 2)

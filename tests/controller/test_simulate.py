"""`cliquelog simulate` forms its domain with a real controller, says so, and ends cleanly however it ends."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from controller.cli import main
from controller.exits import LOG
from controller.verify_command import verify
from tests.controller.bad_input import answer, sentence_of
from tests.integration.waiting import eventually

FIELDS = {
    "nodes", "cliques", "rows_ready", "formation_seconds", "clique_writes", "clique_writes_max", "status_writes",
    "conflicts_409", "throttled_429", "row_visible_ms", "last_row_visible_ms", "records", "log_bytes", "replay",
}  # fmt: skip


@asynccontextmanager
async def simulating(folder: Path, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run it with its temporary files in `folder`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "controller", "simulate", *options),
        env={**os.environ, "TMPDIR": str(folder), "NAMESPACE": "of-somebody-else", "CLIQUELOG_LOG": "sqlite:/nowhere"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_both_processes_and_leaves_a_sound_log(tmp_path: Path, number: int) -> None:
    place = f"sqlite:{tmp_path / 'log.sqlite'}"
    async with simulating(tmp_path, "--nodes", "36", "--window", "600", "--log", place) as process:

        async def told() -> str:
            return controllers_words(tmp_path)

        await eventually(told, lambda text: "acting" in text, "the controller acts")
        process.send_signal(number)
        output, errors = await said(process)
        stopped = await told()
    assert process.returncode == 128 + number, output + errors
    assert f"is kept: {place}" in output
    assert "Traceback" not in output + errors
    assert '"event": "stopped"' in stopped, "the controller has ended cleanly"
    assert await is_sound(place)


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
        ("--seed", "x", "not a valid integer"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(option: str, value: str, expected: str) -> None:
    done = CliRunner().invoke(main, ["simulate", option, value])
    assert expected in sentence_of(done.output, done.exit_code, 2)


async def test_a_place_that_is_no_log_is_refused() -> None:
    assert "write sqlite:PATH" in await answer("simulate", "--log", "log.sqlite", code=LOG)

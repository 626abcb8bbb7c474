"""How the program begins and ends: interrupted while it starts, and with nobody who reads what it prints."""

import asyncio
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from controller import exits
from controller.__main__ import start
from eventlog import codec
from eventlog.events import CdcSeen, Row
from eventlog.sqlite import SqliteLog

CLIQUE = "c1.0"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log of which an audit prints far more than a pipe holds."""
    path = tmp_path_factory.mktemp("log") / "log.sqlite"

    async def filled() -> None:
        made = await SqliteLog.open(path, partitions=1)
        rows = tuple(Row(f"n{number}", "10.0.0.1", number, "Ready") for number in range(2000))
        seen = CdcSeen("d0", CLIQUE, "driver", f"d0.{CLIQUE}", "u", 1, rows)
        await made.append([codec.entry(CLIQUE, seen, timestamp_ms=1_790_000_000_000, controller="c")])
        await made.close()

    asyncio.run(filled())
    return f"sqlite:{path}"


def ended(*arguments: str, reads: int) -> tuple[int, str]:
    """Run the program, read so many bytes of what it prints, close the pipe, and give how it ended and complained."""
    # Without a buffer Python itself takes the rest of a write that broke off for written.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    process = subprocess.Popen(
        [sys.executable, "-m", "controller", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        process.stdout.read(reads)
        process.stdout.close()
        said = process.stderr.read().decode()
    return process.returncode, said


@pytest.mark.parametrize("reads", [0, 1])
@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]])
def test_a_reader_that_goes_away_ends_it_quietly(log: str, form: list[str], reads: int) -> None:
    assert ended("audit", log, *form, reads=reads) == (exits.UNREAD, "")


def test_a_short_answer_that_nobody_reads_ends_it_quietly(log: str) -> None:
    assert ended("replay", log, reads=0) == (exits.UNREAD, "")
    assert ended("why", "n1", "--log", log, reads=0) == (exits.UNREAD, "")


@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]])
def test_output_that_cannot_be_written_is_told_in_a_sentence(log: str, form: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "controller", "audit", log, *form], stdout=full, stderr=subprocess.PIPE, check=False
        )
    sentence = "what is printed cannot be written: No space left on device; make room, or send it elsewhere"
    assert (done.returncode, done.stderr.decode()) == (exits.CONFIGURATION, f"Error: {sentence}\n")


def test_the_installed_command_begins_as_the_module_does() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"]["cliquelog"] == f"{start.__module__}:{start.__name__}"


@pytest.mark.parametrize("module", ["click", "msgspec"])
def test_an_interrupt_while_the_modules_are_read_is_quiet(module: str) -> None:
    program = f"""
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from controller.__main__ import start
sys.argv = ["cliquelog", "--version"]
start()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_an_interrupt_while_a_command_works_is_told() -> None:
    program = """
import os, signal, sys
from controller.__main__ import start
from controller.commands.audit import audit
audit.callback = lambda **_: os.kill(os.getpid(), signal.SIGINT)
sys.argv = ["cliquelog", "audit", "sqlite:log.sqlite"]
start()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (exits.INTERRUPTED, b"\nInterrupted.\n")

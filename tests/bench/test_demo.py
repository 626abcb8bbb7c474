"""`make demo` forms its domain, says so, and says it with its exit code when it does not."""

import asyncio
import signal
import sys
from pathlib import Path

from click.testing import CliRunner

from controller.verify_command import verify
from tests.integration.waiting import eventually


async def start(folder: Path, *options: str) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "bench.demo", "--folder", str(folder), *options]
    return await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )


async def test_it_forms_a_domain_whose_log_replays_to_the_same_state(tmp_path: Path) -> None:
    demo = await start(tmp_path, "--cliques", "2", "--nodes", "3", "--arrival", "0.1")
    output = (await demo.communicate())[0].decode()
    assert demo.returncode == 0, output
    assert "6 of 6" in output
    assert "equal when replayed" in output
    assert all(len(line) <= 80 for line in output.splitlines() if str(tmp_path) not in line), output
    verified = await asyncio.to_thread(CliRunner().invoke, verify, [f"sqlite:{tmp_path / 'log.sqlite'}"])
    assert verified.exit_code == 0, verified.output


async def test_it_exits_with_1_when_rows_are_missing(tmp_path: Path) -> None:
    demo = await start(tmp_path, "--cliques", "1", "--nodes", "2", "--arrival", "600", "--patience", "0.5")
    output = (await demo.communicate())[0].decode()
    assert demo.returncode == 1, output
    assert "0 of 2" in output


async def test_ctrl_c_ends_it_and_leaves_a_sound_log(tmp_path: Path) -> None:
    demo = await start(tmp_path, "--cliques", "1", "--nodes", "2", "--arrival", "600", "--patience", "600")

    async def told() -> str:
        path = tmp_path / "controller.log"
        return path.read_text() if path.exists() else ""

    try:
        await eventually(told, lambda text: "acting" in text, "the controller acts")
        demo.send_signal(signal.SIGINT)
        output = (await demo.communicate())[0].decode()
    finally:
        if demo.returncode is None:
            demo.kill()
            await demo.wait()
    assert demo.returncode == 130, output
    assert "Interrupted" in output
    assert "Traceback" not in output
    verified = await asyncio.to_thread(CliRunner().invoke, verify, [f"sqlite:{tmp_path / 'log.sqlite'}"])
    assert verified.exit_code == 0, verified.output

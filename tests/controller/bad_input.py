"""Run `cliquelog` as a user does, and judge how it answers a mistake."""

import asyncio
import os
import re
import sys
from pathlib import Path

DEADLINE_S = 60.0
SENTENCE = re.compile(r"^Error: (.+)$", re.MULTILINE)


def write_kubeconfig(path: Path, server: str) -> Path:
    """Write a kubeconfig without credentials."""
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        f'clusters: [{{name: c, cluster: {{server: "{server}"}}}}]\n'
        "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
    )
    return path


async def answer(*arguments: str | Path, code: int, prefix: tuple[str, ...] = ()) -> str:
    """Run `cliquelog` until it ends with this exit code and give its one sentence.

    Raises AssertionError if it ends otherwise, says more than one sentence, or shows a traceback.
    """
    return sentence_of(await output(*arguments, code=code, prefix=prefix), code, code)


async def output(*arguments: str | Path, code: int, prefix: tuple[str, ...] = ()) -> str:
    """Run `cliquelog` until it ends with this exit code and give all that it says."""
    environment = {name: value for name, value in os.environ.items() if name not in ("KUBECONFIG", "CLIQUELOG_LOG")}
    process = await asyncio.create_subprocess_exec(
        *prefix,
        *(sys.executable, "-m", "controller", *map(str, arguments)),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == code, f"exit code {process.returncode}, not {code}: {said.decode()}"
    return said.decode()


def sentence_of(output: str, returned: int | None, code: int) -> str:
    """Give the one sentence of what a process said."""
    assert returned == code, f"exit code {returned}, not {code}: {output}"
    assert "Traceback" not in output
    sentences = SENTENCE.findall(output)
    assert len(sentences) == 1, output
    return str(sentences[0])


async def refused_run(log: str | Path, kubeconfig: Path, *options: str, code: int, prefix: tuple[str, ...] = ()) -> str:
    """Give the sentence of a `cliquelog run` that does not come up."""
    place = log if isinstance(log, str) else f"sqlite:{log}"
    needed = ("--image-name", "example.invalid/daemon", "--http-endpoint", "127.0.0.1:0")
    return await answer("run", "--log", place, "--kubeconfig", kubeconfig, *needed, *options, code=code, prefix=prefix)

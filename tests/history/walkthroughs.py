"""Executes the walkthroughs of `docs/incidents/`: each `sh` block, and the `text` block after it shows what it says.

`python -m tests.history.walkthroughs` writes into them what the commands say now.
"""

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner

from controller.commands.cli import main
from tests.history.rebuilt import INCIDENTS

STEP = re.compile(r"```sh\n(?P<commands>.*?)```\n\n```text\n(?P<shown>.*?)```\n", re.DOTALL)


@contextmanager
def beside_the_inputs() -> Iterator[None]:
    """Work in a folder with copies of the incidents' files."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        for path in INCIDENTS.glob("*.jsonl"):
            shutil.copy(path, folder)
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def said(commands: str) -> str:
    """Give what the commands print, without what a terminal pads lines with."""
    output = ""
    for command in commands.splitlines():
        program, *arguments = shlex.split(command, comments=True)
        assert program == "cliquelog", command
        done = CliRunner().invoke(main, arguments, catch_exceptions=False)
        output += done.output
    return "".join(line.rstrip() + "\n" for line in output.splitlines())


def executed(document: str) -> str:
    """Give the document with what its commands say."""

    def step(found: re.Match[str]) -> str:
        return f"```sh\n{found['commands']}```\n\n```text\n{said(found['commands'])}```\n"

    with beside_the_inputs():
        return STEP.sub(step, document)


if __name__ == "__main__":
    for path in sorted(INCIDENTS.glob("*.md")):
        path.write_text(executed(path.read_text(encoding="utf-8")), encoding="utf-8")

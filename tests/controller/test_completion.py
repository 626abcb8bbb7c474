"""Shell completion: the scripts, and what a shell gets that has run one."""

import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from controller.commands.cli import main


def complete(words: list[str]) -> list[str]:
    """Give what bash is offered for the last word, by the protocol of its script."""
    environment = {
        "_CLIQUELOG_COMPLETE": "bash_complete",
        "COMP_WORDS": shlex.join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    done = CliRunner().invoke(main, [], env=environment, prog_name="cliquelog")
    assert done.exit_code == 0
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_for_our_name(shell: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell], prog_name="cliquelog")
    assert done.exit_code == 0
    assert f"_CLIQUELOG_COMPLETE={shell}_complete" in done.stdout


def test_another_shell_is_refused() -> None:
    assert CliRunner().invoke(main, ["completion", "tcsh"]).exit_code == 2


def test_commands_options_and_choices_are_completed() -> None:
    assert complete(["cliquelog", "ver"]) == ["verify"]
    assert {"--note", "--against"} <= set(complete(["cliquelog", "verify", "--"]))
    assert complete(["cliquelog", "completion", "z"]) == ["zsh"]


def test_a_bash_that_has_run_the_script_completes(tmp_path: Path) -> None:
    program = tmp_path / "cliquelog"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m controller "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    script = (
        'eval "$(cliquelog completion bash)"; COMP_WORDS=(cliquelog rec); COMP_CWORD=1; '
        '_cliquelog_completion cliquelog; echo "${COMPREPLY[@]}"'
    )
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["record"]

"""The exit codes: `controller.exits` lists them, docs/operations.md and each --help show that list."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from controller import exits
from controller.commands.cli import COMMANDS, main

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^ {1,6}([0-9]+)  ", re.MULTILINE)


def test_the_document_shows_the_list() -> None:
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    section = text.partition("## Exit codes\n\n")[2].partition("\n\n")[0]
    assert f"{section}\n" == exits.table(), "put what `controller.exits.table` gives there"


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_the_help_of_a_command_shows_its_own_part(command: str) -> None:
    shown = CliRunner().invoke(main, [command, "--help"], terminal_width=80).output
    told = shown.partition("Exit codes:\n")[2]
    numbers = {one.number for one in exits.CODES if not one.commands or command in one.commands}
    assert {int(number) for number in ROW.findall(told)} == numbers
    assert max(map(len, told.splitlines())) <= 80
    for one in exits.CODES:
        if command in one.commands:
            assert one.meaning in " ".join(told.split()), one


def test_the_list_names_commands_that_there_are_and_every_code() -> None:
    assert {name for one in exits.CODES for name in one.commands} <= COMMANDS.keys()
    constants = {value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}
    assert constants - {exits.HELP_WIDTH} <= {one.number for one in exits.CODES}
    assert [one.number for one in exits.CODES] == sorted(one.number for one in exits.CODES)


@pytest.mark.parametrize(
    "path", sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]), ids=lambda path: path.name
)
def test_no_document_states_a_code_that_is_not_in_the_list(path: Path) -> None:
    known = {str(one.number) for one in exits.CODES}
    assert set(re.findall(r"exit code (?:is )?([0-9]+)", path.read_text(encoding="utf-8"))) <= known

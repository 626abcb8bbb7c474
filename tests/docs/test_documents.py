"""What the documents say can be done: commands parse, links lead somewhere, targets exist."""

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from controller.commands.cli import main

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def lines() -> list[tuple[str, str]]:
    return [
        (document.name, line)
        for document in DOCUMENTS
        for block in BLOCK.findall(document.read_text(encoding="utf-8"))
        for line in block.splitlines()
        if line.strip()
    ]


def command_lines(program: str) -> list[tuple[str, str]]:
    return [(name, line) for name, line in lines() if line.split()[0] == program]


def test_every_command_line_in_the_documents_is_of_a_kind_that_is_checked() -> None:
    assert {line.split()[0] for _, line in lines()} <= {"docker", "make", "cliquelog", "kubectl", "python"}


@pytest.mark.parametrize(("document", "line"), command_lines("cliquelog"))
def test_every_cliquelog_line_parses(document: str, line: str) -> None:
    arguments = shlex.split(line, comments=True)[1:]
    command: click.Command = main
    context = click.Context(main, info_name="cliquelog")
    while isinstance(command, click.Group):
        name = arguments.pop(0)
        found = command.get_command(context, name)
        assert found is not None, document
        command = found
        if not isinstance(command, click.Group):
            context = command.make_context(name, arguments, parent=context)

    assert context.params, document


@pytest.mark.parametrize(("document", "line"), command_lines("make"))
def test_every_make_target_exists(document: str, line: str) -> None:
    target = shlex.split(line, comments=True)[1]
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), document


@pytest.mark.parametrize(("document", "line"), command_lines("docker"))
def test_every_service_that_docker_compose_is_given_exists(document: str, line: str) -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    compose, command, *words = shlex.split(line, comments=True)[1:]
    assert (compose, command in {"up", "logs", "down"}) == ("compose", True), document
    named = [word.partition("=")[0] for word in words if not word.startswith("--")]
    assert set(named) <= services.keys()


@pytest.mark.parametrize(("document", "line"), command_lines("kubectl"))
def test_every_file_that_kubectl_is_given_exists(document: str, line: str) -> None:
    words = shlex.split(line, comments=True)
    for flag, path in itertools.pairwise(words):
        if flag == "-f":
            assert (ROOT / path).exists(), document


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_to_a_file(document: Path) -> None:
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def every_command(group: click.Group) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        yield name, command
        if isinstance(command, click.Group):
            yield from every_command(command)


def test_every_command_and_option_has_help() -> None:
    commands = dict(every_command(main))
    assert {"audit", "import", "run", "simulate", "why"} <= commands.keys()
    for name, command in commands.items():
        assert command.help, name
        assert command.name == name.replace("_", "-")
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.is_eager:
                assert parameter.help, f"{name} {parameter.opts[0]}"

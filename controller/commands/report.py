"""The command `cliquelog report`."""

import asyncio
import os
import tempfile
from pathlib import Path

import click

from controller import exits
from controller.collecting import collect_rarely
from controller.commands import strangers
from controller.commands.options import kafka_config
from controller.reporting.model import Page
from controller.reporting.reading import read
from projections.audit.finding import counted

PAGE = b"<!doctype html>"
"""How a page begins."""


@click.command()
@click.argument("log")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The page to make; one that is there is replaced.",
)
@kafka_config
def report(log: str, output: Path, kafka_config: Path | None) -> None:
    """Make one HTML page of LOG: findings, formation, who held which index.

    LOG is sqlite:PATH or kafka://HOST:PORT/TOPIC: a controller's own, or one that `cliquelog import` made. It is only
    read. The page loads nothing and needs no network; send it around as one file (docs/report.md).

    \b
    Examples:
      cliquelog report sqlite:incident.sqlite -o incident.html
      cliquelog report sqlite:/var/lib/cliquelog/log.sqlite -o today.html
    """
    _refuse_what_is_no_page(output)
    collect_rarely()
    page = asyncio.run(_read(log, kafka_config))
    from controller.reporting.page import library, render  # noqa: PLC0415 - HTML and charts are for this command alone

    content = render(page, library())
    try:
        _replace(output, content)
    except OSError as error:
        mend = "give -o a file in a folder that can be written and has room"
        raise exits.Failure(f"{output} cannot be written: {error.strerror}; {mend}", exits.CONFIGURATION) from None
    findings = sum(group.count for group in page.groups)
    figures = f"{counted(len(page.data.cliques), 'clique')}, {counted(findings, 'finding')}"
    click.echo(f"{output}: {len(content) / 1e6:.1f} MB, {figures}")


def _refuse_what_is_no_page(path: Path) -> None:
    """Let only a page be replaced: a slip must not cost a log. Raises Failure."""
    mend = "give -o a new file, or a page that was made before"
    try:
        if path.name == "-" or (path.exists() and not path.is_file()):
            raise exits.Failure(f"{path} is no file that a page can be written to; {mend}", exits.CONFIGURATION)
        with path.open("rb") as file:
            head = file.read(len(PAGE))
    except FileNotFoundError:
        return
    except OSError as error:
        raise exits.Failure(f"{path} cannot be read: {error.strerror}; {mend}", exits.CONFIGURATION) from None
    if head and head.lower() != PAGE:
        raise exits.Failure(f"{path} is there and is no page; {mend}", exits.CONFIGURATION)


async def _read(place: str, kafka_config: Path | None) -> Page:
    async with strangers.opened(place, kafka_config) as (log, _):
        return await read(log, place)


def _replace(path: Path, content: bytes) -> None:
    """Write the file as a whole or not at all; a link keeps leading to it. Raises OSError."""
    path = path.resolve()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise

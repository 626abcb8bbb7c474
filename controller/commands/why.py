"""The command `cliquelog why`."""

import asyncio
import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console

from controller import exits, moments
from controller.commands import strangers
from controller.commands.options import kafka_config
from controller.exits import Failure
from controller.history import explaining
from controller.history.why_report import Document, document, show
from controller.http import Unanswered, ask
from projections.audit.why import explain


@click.command()
@click.argument("subject", metavar="NODE|POD")
@click.option("--log", "log", envvar="CLIQUELOG_LOG", help="The log to ask: sqlite:PATH or kafka://HOST:PORT/TOPIC.")
@click.option("--url", help="The controller to ask, by its --http-endpoint: http://127.0.0.1:8080, from the same host.")
@click.option("--at", metavar="TIME", help="As of this time: 2026-09-11T10:00:00Z, or +90s from the log's beginning.")
@kafka_config
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/why.md).")
def why(
    subject: str, log: str | None, url: str | None, at: str | None, kafka_config: Path | None, *, as_json: bool
) -> None:
    """Say why a node is not ready: the missing step, and where the time went.

    NODE|POD is a node's name, or that of a daemon pod: NAME or NAMESPACE/NAME. Ask a log, which is only read (a
    controller may be running on it), or a controller that runs, which also knows what its next write waits for. The
    exit code is 0 if the node is ready, 7 if a step is missing.

    \b
    Examples:
      cliquelog why gb200-07 --log sqlite:/var/lib/cliquelog/log.sqlite
      cliquelog why gb200-07 --log sqlite:incident.sqlite --at 2026-09-11T10:00:00Z
      cliquelog why gb200-07 --url http://127.0.0.1:8080
    """
    if url is not None:
        if at is not None:
            raise click.UsageError("a controller that runs is asked about now; --at needs a --log")
        answer = asyncio.run(_from_controller(subject, url))
    elif log is not None:
        answer = asyncio.run(_from_log(subject, log, at, kafka_config))
    else:
        raise click.UsageError("say whom to ask: --log or --url")
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(answer)).decode())
    else:
        show(answer, Console(file=sys.stdout, width=None if sys.stdout.isatty() else 80))
    if not answer.ready:
        raise click.exceptions.Exit(exits.FOUND)


async def _from_controller(subject: str, url: str) -> Document:
    """Ask, and take nothing for an answer but one."""
    try:
        answer = msgspec.json.decode(await ask(url, subject), type=Document)
        for step in answer.steps:
            moments.parse(step.time or answer.at, 0)
    except Unanswered as error:
        raise Failure(str(error), exits.API) from error
    except (msgspec.DecodeError, moments.NotATime) as error:
        raise Failure(f"{url} is no controller of this version: {error}", exits.API) from error
    return answer


async def _from_log(subject: str, place: str, at: str | None, kafka_config: Path | None) -> Document:
    async with strangers.opened(place, kafka_config) as (log, _):
        try:
            until_ms = None if at is None else moments.parse(at, await explaining.begin_ms(log))
        except moments.NotATime as error:
            raise click.UsageError(str(error)) from None
        return document(explain(await explaining.situation(log, subject, until_ms)))

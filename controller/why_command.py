"""The command `cliquelog why`."""

import asyncio
import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console

from controller import exits, explaining, moments, places
from controller.options import kafka_config
from controller.why_report import Document, document, show
from projections.audit.why import explain


@click.command()
@click.argument("subject", metavar="NODE|POD")
@click.option("--log", "log", envvar="CLIQUELOG_LOG", help="The log to ask: sqlite:PATH or kafka://HOST:PORT/TOPIC.")
@click.option("--at", metavar="TIME", help="As of this time: 2026-09-11T10:00:00Z, or +90s from the log's beginning.")
@kafka_config
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/why.md).")
def why(subject: str, log: str | None, at: str | None, kafka_config: Path | None, *, as_json: bool) -> None:
    """Say why a node is not ready: the missing step, and where the time went.

    NODE|POD is a node's name, or that of a daemon pod: NAME or NAMESPACE/NAME. The log is only read; a controller may
    be running on it. The exit code is 0 if the node is ready, 1 if a step is missing.

    \b
    Examples:
      cliquelog why gb200-07 --log sqlite:/var/lib/cliquelog/log.sqlite
      cliquelog why gb200-07 --log sqlite:incident.sqlite --at 2026-09-11T10:00:00Z
    """
    if log is None:
        raise click.UsageError("say whom to ask: --log")
    answer = asyncio.run(_from_log(subject, log, at, kafka_config))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(answer)).decode())
    else:
        show(answer, Console(file=sys.stdout, width=None if sys.stdout.isatty() else 80))
    if not answer.ready:
        raise click.exceptions.Exit(exits.MISSING)


async def _from_log(subject: str, place: str, at: str | None, kafka_config: Path | None) -> Document:
    log, _ = await places.open_readonly(place, kafka_config=kafka_config)
    try:
        until_ms = None if at is None else moments.parse(at, await explaining.begin_ms(log))
        return document(explain(await explaining.situation(log, subject, until_ms)))
    except moments.NotATime as error:
        raise click.UsageError(str(error)) from None
    finally:
        await log.close()

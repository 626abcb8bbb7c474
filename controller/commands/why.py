"""The command `cliquelog why`."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
from click.core import ParameterSource
from msgspec import structs

from controller import exits, moments
from controller.commands import strangers
from controller.commands.options import Address, Subject, kafka_config
from controller.exits import Failure
from controller.history import explaining
from controller.history.why_report import Document, document, show
from controller.http import Unanswered, ask, can_be_asked
from controller.terminal import Screen, emit_json
from kube.clock import SystemClock
from projections.audit.why import Explanation, explain


@click.command()
@click.argument("subject", metavar="NODE|POD", type=Subject())
@click.option("--log", "log", envvar="CLIQUELOG_LOG", help="The log to ask: sqlite:PATH or kafka://HOST:PORT/TOPIC.")
@click.option(
    "--url",
    type=Address(),
    help="The controller to ask, by its --http-endpoint: http://127.0.0.1:8080, from the same host.",
)
@click.option("--at", metavar="TIME", help="As of this time: 2026-09-11T10:00:00Z, or +90s from the log's beginning.")
@kafka_config
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/why.md).")
def why(
    subject: str, log: str | None, url: str | None, at: str | None, kafka_config: Path | None, *, as_json: bool
) -> None:
    """Say why a node is not ready: the missing step, and where the time went.

    NODE|POD is a node's name, or that of a daemon pod: NAME or NAMESPACE/NAME. Ask a log, which is only read (a
    controller may be running on it), or a controller that runs, which also knows what its next write waits for.

    \b
    Examples:
      cliquelog why gb200-07 --log sqlite:/var/lib/cliquelog/log.sqlite
      cliquelog why gb200-07 --log sqlite:incident.sqlite --at 2026-09-11T10:00:00Z
      cliquelog why gb200-07 --url http://127.0.0.1:8080
    """
    source = click.get_current_context().get_parameter_source("log")
    if url is not None:
        if log is not None and source is not ParameterSource.ENVIRONMENT:
            raise click.UsageError("--log and --url exclude each other: ask the log, or the controller that writes it")
        if not can_be_asked(subject):
            raise click.UsageError(f"{subject!r} is no name in a cluster; a --log may hold it, if it was imported")
        if at is not None:
            raise click.UsageError("a controller that runs is asked about now; --at needs a --log")
        answer = asyncio.run(_from_controller(subject, url))
    elif log is not None:
        answer = asyncio.run(_from_log(subject, log, at, kafka_config))
    else:
        raise click.UsageError("say whom to ask: --log or --url")
    if as_json:
        emit_json(answer)
    else:
        show(answer, Screen())
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
        mend = "give the --http-endpoint of one"
        raise Failure(f"{url} is no controller of this version, by what it answers; {mend}", exits.API) from error
    return answer


async def _from_log(subject: str, place: str, at: str | None, kafka_config: Path | None) -> Document:
    async with strangers.opened(place, kafka_config) as (log, _):
        try:
            until_ms = None if at is None else _until(at, await explaining.begin_ms(log))
        except moments.NotATime as error:
            raise click.UsageError(str(error)) from None
        found = explain(await explaining.situation(log, subject, until_ms))
        return document(structs.replace(found, notes=(*found.notes, *_doubts(found))))


def _until(at: str, begin_ms: int) -> int:
    """Give the moment that is asked about. Raises moments.NotATime."""
    until_ms = moments.parse(at, begin_ms)
    moments.within(at, until_ms, begin_ms)
    return until_ms


def _doubts(found: Explanation) -> Iterator[str]:
    """Say which times of the steps cannot be."""
    now_ms = SystemClock().now_ms()
    for step in found.steps:
        if step.time_ms is not None and (reason := moments.doubt(step.time_ms, now_ms)):
            yield f"the time of this step cannot be, {moments.rfc3339(step.time_ms)} is {reason}: {step.what}"

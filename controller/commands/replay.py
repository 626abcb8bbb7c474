"""The command `cliquelog replay`."""

import asyncio
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import msgspec
from rich.console import Console

from controller import moments
from controller.collecting import collect_rarely
from controller.commands import strangers
from controller.commands.options import Label, Seconds, kafka_config
from controller.history import replay_report
from controller.history.replay_report import DivergenceLine, WhatIf, act_line, course_line
from controller.history.rerun import Act
from controller.history.rerunning import Course, Outcome, Rules, divergence, rerun
from controller.history.timeline import Until, in_time_order
from controller.writing.pacing import Pace
from eventlog.log import EventLog
from projections.settings import Settings

_PLACE = re.compile(r"(?:([0-9]{1,5})/)?([0-9]{1,18})")
_CAPACITY = "capacity"


class Job(msgspec.Struct, frozen=True):
    """What is asked for, as it was written."""

    log: str
    until: str | None
    speed: float | None
    changes: tuple[str, ...]
    against: str | None
    namespace: str
    kafka_config: Path | None
    summary: bool
    as_json: bool


@click.command()
@click.argument("log")
@click.option("--until", metavar="TIME|OFFSET", help="Stop after this time (as for audit), or at [PARTITION/]OFFSET.")
@click.option("--speed", type=Seconds(0.001, 1_000_000), help="Go so many times as fast as it happened; else at once.")
@click.option("--set", "changes", metavar="NAME=VALUE", multiple=True, help="Replay with this setting as well.")
@click.option("--against", metavar="LOG", help="Compare with what was recorded in this log instead.")
@click.option("--namespace", type=Label(), default="default", show_default=True, help="The driver's namespace.")
@click.option("--summary", is_flag=True, help="Leave out the timeline.")
@kafka_config
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/history.md).")
def replay(
    log: str,
    until: str | None,
    speed: float | None,
    changes: tuple[str, ...],
    against: str | None,
    namespace: str,
    kafka_config: Path | None,
    *,
    summary: bool,
    as_json: bool,
) -> None:
    """Tell what a controller with our rules would have done, beside what was recorded.

    LOG is sqlite:PATH or kafka://HOST:PORT/TOPIC, a controller's own or an import; it is only read. What happened to
    nodes, pods and domains is taken from it; what others decided and wrote is not. Rules, coalescing and pacing are
    the controller's own code. --set takes `capacity`, and the settings of the pace (docs/history.md).

    \b
    Examples:
      cliquelog replay sqlite:incident.sqlite
      cliquelog replay sqlite:incident.sqlite --until +90s --speed 10
      cliquelog replay sqlite:incident.sqlite --summary --set capacity=9
    """
    collect_rarely()
    asyncio.run(_replay(Job(log, until, speed, changes, against, namespace, kafka_config, summary, as_json)))


def rules_of(namespace: str, changes: Sequence[str]) -> Rules:
    """Give the controller's own settings, with these changes. Raises click.UsageError."""
    settings, pace = Settings(namespace), Pace()
    for change in changes:
        name, equals, value = change.partition("=")
        if name not in {_CAPACITY, *Pace.__struct_fields__} or not equals:
            known = ", ".join((_CAPACITY, *Pace.__struct_fields__))
            raise click.UsageError(f"{change!r} sets nothing: write NAME=VALUE with one of {known}")
        try:
            if name == _CAPACITY:
                capacity = msgspec.convert(value, int, strict=False)
                settings = msgspec.structs.replace(settings, capacity=_within(capacity, 1, 1000))
            else:
                seconds = msgspec.convert(value, float, strict=False)
                pace = msgspec.structs.replace(pace, **{name: _within(seconds, 0, 3600)})
        except (msgspec.ValidationError, ValueError) as error:
            raise click.UsageError(f"{change!r} sets nothing: {error}") from None
    return Rules(settings, pace)


def _within(value: float, least: int, most: int) -> float:
    if not least <= value <= most:
        raise ValueError(f"{value} is not within {least} to {most}")
    return value


async def _replay(job: Job) -> None:
    base, other = rules_of(job.namespace, ()), rules_of(job.namespace, job.changes)
    async with strangers.opened(job.log, job.kafka_config) as (log, _):
        begin_ms = await _begin(log)
        until = _until(job.until, begin_ms)
        outcome = await rerun(log, base, until, speed=job.speed, show=_teller(job, begin_ms))
        what_if = await _what_if(log, job, other, until, outcome) if job.changes else None
    recorded = await _recorded(job, base) if job.against else outcome.recorded
    if job.as_json:
        found = replay_report.document(outcome, recorded, what_if)
        click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        replay_report.show(outcome, recorded, what_if, Console(file=sys.stdout))


def _teller(job: Job, begin_ms: int) -> Callable[[Act], None]:
    if job.summary or job.as_json:
        return _hear
    return lambda act: click.echo(replay_report.timeline_line(act, begin_ms))


def _hear(_act: Act) -> None:
    """Take no notice: it is told at the end, or not at all."""


async def _begin(log: EventLog) -> int:
    async for time_ms, _ in in_time_order(log, Until()):
        return time_ms
    return 0


def _until(text: str | None, begin_ms: int) -> Until:
    """Read the bound: an offset is digits alone. Raises click.UsageError."""
    if text is None:
        return Until()
    if found := _PLACE.fullmatch(text):
        return Until(offset=int(found[2]), partition=None if found[1] is None else int(found[1]))
    try:
        return Until(time_ms=moments.parse(text, begin_ms))
    except moments.NotATime as error:
        raise click.UsageError(f"{error}; or an offset, as in 120 or 3/120") from None


async def _recorded(job: Job, rules: Rules) -> Course:
    """Give what was recorded in the log that is compared with."""
    async with strangers.opened(job.against or "", job.kafka_config) as (log, _):
        return (await rerun(log, rules, Until(), speed=None, show=_hear)).recorded


async def _what_if(log: EventLog, job: Job, rules: Rules, until: Until, base: Outcome) -> WhatIf:
    """Replay once more, with the settings that were changed."""
    other = await rerun(log, rules, until, speed=None, show=_hear)
    differ = divergence(base.acts, other.acts)
    lines = [act_line(act) if act is not None else None for act in differ] if differ else []
    settings = dict(change.partition("=")[::2] for change in job.changes)
    return WhatIf(settings, course_line(other.replayed), DivergenceLine(*lines) if lines else None)

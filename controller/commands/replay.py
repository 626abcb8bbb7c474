"""The command `cliquelog replay`."""

import asyncio
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click
import msgspec

from controller import moments
from controller.collecting import collect_rarely
from controller.commands import strangers
from controller.commands.options import Label, Seconds, kafka_config
from controller.history import replay_report
from controller.history.replay_report import DivergenceLine, WhatIf, act_line, course_line
from controller.history.rerun import Act
from controller.history.rerunning import Course, Outcome, Rules, divergence, rerun
from controller.history.timeline import Until, in_time_order
from controller.terminal import Screen, emit_json
from controller.writing.pacing import Pace
from eventlog.log import EventLog
from projections.settings import Settings

_PLACE = re.compile(r"(?:([0-9]{1,5})/)?([0-9]{1,18})")
_CAPACITY = "capacity"
_RANGES: Mapping[str, tuple[float, float]] = {
    _CAPACITY: (1, 1000),
    **dict.fromkeys(Pace.__struct_fields__, (0, 3600)),
    "growth": (1, 1000),
    "spread": (0, 1),
}
"""The least and the most that a setting can be: a factor below 1, or a share above, would be none."""


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
@click.option("--set", "changes", metavar="NAME=VALUE", multiple=True, help="Replay once more, with this setting.")
@click.option("--against", metavar="LOG", help="Compare with what was recorded in this log instead.")
@click.option(
    "--namespace",
    type=Label(),
    default="default",
    show_default=True,
    help="The driver's namespace, in which clique objects would be made.",
)
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
    the controller's own code. --set takes each of these once: `capacity` (1 to 1000); `growth` (1 to 1000); `spread`
    (0 to 1); and in seconds (0 to 3600) `gather_s`, `early_gather_s`, `quiet_s`, `first_wait_s`, `max_wait_s`,
    `complete_gap_s`, `settle_s`, `status_gap_s` (docs/history.md).

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
    settings, pace, named = Settings(namespace), Pace(), set[str]()
    for change in changes:
        name, _, text = change.partition("=")
        if name not in _RANGES:
            raise click.UsageError(f"{change!r} sets nothing: write NAME=VALUE with one of {', '.join(_RANGES)}")
        if name in named:
            raise click.UsageError(f"--set gives {name} twice; give it once, and replay again for another value")
        named.add(name)
        value = _value(change, name, text)
        if name == _CAPACITY:
            settings = msgspec.structs.replace(settings, capacity=int(value))
        else:
            pace = msgspec.structs.replace(pace, **{name: value})
    return Rules(settings, pace)


def _value(change: str, name: str, text: str) -> float:
    """Read a setting's value. Raises click.UsageError."""
    kind, (least, most) = int if name == _CAPACITY else float, _RANGES[name]
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        what = "a whole number" if kind is int else "a number"
        raise click.UsageError(f"{change!r} sets nothing: give {what} from {least} to {most}")
    return value


async def _replay(job: Job) -> None:
    base, other = rules_of(job.namespace, ()), rules_of(job.namespace, job.changes)
    async with strangers.opened(job.log, job.kafka_config) as (log, _):
        begin_ms = await _begin(log)
        until = _until(job.until, begin_ms, log.partitions)
        outcome = await rerun(log, base, until, speed=job.speed, show=_teller(job, begin_ms))
        what_if = await _what_if(log, job, other, until, outcome) if job.changes else None
    recorded = await _recorded(job, base) if job.against else outcome.recorded
    if job.as_json:
        found = replay_report.document(outcome, recorded, what_if)
        emit_json(found)
    else:
        replay_report.show(outcome, recorded, what_if, Screen())


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


def _until(text: str | None, begin_ms: int, partitions: int) -> Until:
    """Read the bound: an offset is digits alone. Raises click.UsageError."""
    if text is None:
        return Until()
    if found := _PLACE.fullmatch(text):
        partition = None if found[1] is None else int(found[1])
        if partition is not None and partition >= partitions:
            raise click.UsageError(f"--until {text}: the log has partitions 0 to {partitions - 1}; name one of them")
        return Until(offset=int(found[2]), partition=partition)
    try:
        time_ms = moments.parse(text, begin_ms)
        moments.within(text, time_ms, begin_ms)
        return Until(time_ms=time_ms)
    except moments.NotATime as error:
        raise click.UsageError(f"{error}; or an offset: 120, or 3/120 of partition 3") from None


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

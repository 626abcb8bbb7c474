"""The command `cliquelog replay`."""

import asyncio
import math
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import click
import msgspec

from controller import exits, moments
from controller.collecting import collect_rarely
from controller.commands import strangers
from controller.commands.options import Label, Seconds, kafka_config
from controller.exits import Failure
from controller.history import replay_report
from controller.history.rerun import Act
from controller.history.rerunning import Course, Rules, recorded_course, rerun
from controller.history.timeline import Until, in_time_order
from controller.terminal import Screen, emit, emit_json, json_text
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
@click.option("--summary", is_flag=True, help="Leave out the timeline, also from the JSON form.")
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
    with closing(_Timeline()) as timeline:
        async with strangers.opened(job.log, job.kafka_config) as (log, _):
            begin_ms = await _begin(log)
            until = _until(job.until, begin_ms, log.partitions)
            show = _teller(job, begin_ms, timeline)
            outcome = await rerun(log, base, other if job.changes else None, until, speed=job.speed, show=show)
        recorded = await _recorded(job) if job.against else outcome.recorded
        settings = dict(change.partition("=")[::2] for change in job.changes)
        found = replay_report.document(outcome, recorded, settings)
        if job.as_json:
            _emit(found, timeline.lines())
        else:
            replay_report.show(found, Screen())


class _Timeline:
    """Acts that are printed after what comes of them all: in a file, as a long history has more than fit in memory."""

    def __init__(self) -> None:
        with self._guarded():
            self._file = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - `close` closes it

    def keep(self, act: Act) -> None:
        with self._guarded():
            self._file.write(json_text(replay_report.act_line(act), indent=0) + "\n")

    def lines(self) -> Iterator[str]:
        """Give the acts in their order, each as a line of JSON."""
        with self._guarded():
            self._file.seek(0)
        return (line.rstrip("\n") for line in self._file)

    def close(self) -> None:
        with self._guarded():
            self._file.close()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            folder = tempfile.gettempdir()
            reason = f"the timeline cannot be kept in {folder} ({error.strerror}); set TMPDIR, or give --summary"
            raise Failure(reason, exits.CONFIGURATION) from None


def _teller(job: Job, begin_ms: int, timeline: _Timeline) -> Callable[[Act], None]:
    if job.summary:
        return _hear
    return timeline.keep if job.as_json else lambda act: click.echo(replay_report.timeline_line(act, begin_ms))


def _hear(_act: Act) -> None:
    """Take no notice: it is told in the sums alone."""


def _emit(found: replay_report.Document, timeline: Iterator[str]) -> None:
    """Write the document, whose last field is the timeline, and put the acts into it, one a line."""
    first = next(timeline, None)
    if first is None:
        emit_json(found)
        return
    emit(json_text(found, indent=2).removesuffix("]\n}"))
    emit(f"\n    {first}")
    for line in timeline:
        emit(f",\n    {line}")
    emit("\n  ]\n}\n")


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


async def _recorded(job: Job) -> Course:
    """Give what was recorded in the log that is compared with."""
    async with strangers.opened(job.against or "", job.kafka_config) as (log, _):
        return await recorded_course(log)

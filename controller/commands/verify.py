"""The command `cliquelog verify`."""

import asyncio
import os
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from controller import exits, moments, places
from controller.commands.options import kafka_config
from controller.commands.strangers import Strangers
from controller.exits import Failure
from controller.history.verify import Verdict
from controller.history.verify import verify as judge
from controller.terminal import emit_json, safe
from eventlog import heads
from eventlog.integrity import PartitionReport, check
from kube.clock import SystemClock


@click.command()
@click.argument("log")
@kafka_config
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/operations.md).")
@click.option(
    "--note",
    "note_to",
    type=click.Path(path_type=Path),
    help="Write the heads of the hash chains to this new file; keep it elsewhere.",
)
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    help="Compare with the heads that --note wrote before: nothing that was noted may be changed or missing.",
)
def verify(log: str, kafka_config: Path | None, note_to: Path | None, against: Path | None, *, as_json: bool) -> None:
    """Check that LOG is whole, keeps the rules, and folds to one answer.

    LOG is sqlite:PATH or kafka://HOST:PORT/TOPIC. The log is only read; a controller may be running on it.

    \b
    Examples:
      cliquelog verify sqlite:/var/lib/cliquelog/log.sqlite
      cliquelog verify sqlite:/var/lib/cliquelog/log.sqlite --note heads-september.json
      cliquelog verify sqlite:/var/lib/cliquelog/log.sqlite --against heads-september.json
    """
    if note_to is not None and note_to.exists():
        raise _not_noted(note_to, "it is there already")
    verdict = asyncio.run(_verify(log, kafka_config, note_to, against))
    if as_json:
        emit_json(verdict)
    else:
        click.echo(text_of(verdict))
    if not verdict.sound:
        raise click.exceptions.Exit(exits.FOUND)


async def _verify(place: str, kafka_config: Path | None, note_to: Path | None, against: Path | None) -> Verdict:
    strangers = Strangers()
    log, snapshots = await places.open_readonly(place, kafka_config=kafka_config, foreign=strangers)
    try:
        noted = _read(against, log.partitions) if against is not None else None
        dense = places.is_dense(log)
        reports = await check(log, heads.counts(noted) if noted is not None else {}, dense=dense)
        found = await heads.compare(log, noted, reports, dense=dense) if noted is not None else []
        damage = [
            *await places.damage(log),
            *(f"{one.partition}/{one.offset} {one.code}: {one.message}" for one in found),
            *(_beginnings(reports) if dense else ()),
        ]
        verdict = await judge(log, snapshots, reports, damage)
        if note_to is not None:
            _write(note_to, heads.note(log.topic, moments.rfc3339(SystemClock().now_ms()), reports))
    finally:
        await log.close()
    return msgspec.structs.replace(verdict, integrity=(*verdict.integrity, *strangers.lines()))


def _beginnings(reports: Sequence[PartitionReport]) -> Iterator[str]:
    """Tell what is missing at the beginning of a partition, of an engine that never cuts one."""
    for one in reports:
        if one.beginning > 0:
            missing = f"the records from offset 0 to {one.beginning - 1} are missing"
            yield f"{one.partition}/{one.beginning} offset-gap: {missing}"


def _read(path: Path, partitions: int) -> heads.Note:
    try:
        return heads.decode(path.read_bytes(), partitions)
    except OSError as error:
        raise Failure(
            f"the note {path} cannot be read ({error.strerror}); check the path", exits.CONFIGURATION
        ) from None
    except heads.UnfitNote as error:
        raise Failure(f"the note {path} cannot be used: {error}; name another", exits.CONFIGURATION) from None


def _write(path: Path, noted: heads.Note) -> None:
    """Write it to a new file: a note that is overwritten proves nothing any more."""
    try:
        with path.open("xb") as file:
            file.write(heads.encode(noted))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise _not_noted(path, str(error.strerror)) from None


def _not_noted(path: Path, reason: str) -> Failure:
    return Failure(f"the heads cannot be written to {path} ({reason}); name another file", exits.CONFIGURATION)


def text_of(verdict: Verdict) -> str:
    """Give the verdict for people, at most 80 columns but for long names."""
    violations = [f"{one.position} {one.key}: {one.message}" for one in verdict.violations]
    lines = [
        f"records     {verdict.records} in {verdict.partitions} partitions",
        f"digest      {verdict.digest}",
        f"integrity   {_count(verdict.integrity)}",
        *_indented(verdict.integrity),
        f"invariants  {_count(violations)}",
        *_indented(violations),
        f"determinism {_count(verdict.determinism)}",
        *_indented(verdict.determinism),
    ]
    return "\n".join(lines)


def _indented(findings: Sequence[str]) -> Iterator[str]:
    for finding in findings:
        yield textwrap.fill(
            safe(finding),
            width=80,
            initial_indent=" " * 12,
            subsequent_indent=" " * 14,
            break_long_words=False,
            break_on_hyphens=False,
        )


def _count(findings: Sequence[str]) -> str:
    if not findings:
        return "ok"
    return "1 finding" if len(findings) == 1 else f"{len(findings)} findings"

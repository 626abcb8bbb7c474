"""The command `cliquelog verify`."""

import asyncio
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from controller import exits, places
from controller.options import kafka_config
from controller.verify import Verdict
from controller.verify import verify as judge

if TYPE_CHECKING:
    from eventlog.record import Position


@click.command()
@click.argument("log")
@kafka_config
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def verify(log: str, kafka_config: Path | None, *, as_json: bool) -> None:
    """Check that LOG is whole, keeps the rules, and folds to one answer.

    LOG is sqlite:PATH or kafka://HOST:PORT/TOPIC. The log is only read; a controller may be running on it.

    \b
    Example:
      cliquelog verify sqlite:/var/lib/cliquelog/log.sqlite
    """
    verdict = asyncio.run(_verify(log, kafka_config))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(verdict)).decode())
    else:
        click.echo(text_of(verdict))
    if not verdict.sound:
        raise click.exceptions.Exit(exits.FOUND)


async def _verify(place: str, kafka_config: Path | None) -> Verdict:
    strangers: dict[Position, str] = {}
    log, snapshots = await places.open_readonly(place, kafka_config=kafka_config, foreign=strangers.__setitem__)
    try:
        verdict = await judge(log, snapshots, await places.damage(log), dense=places.is_dense(log))
    finally:
        await log.close()
    named = (f"{position} not-ours: {reason}; it was passed over" for position, reason in sorted(strangers.items()))
    return msgspec.structs.replace(verdict, integrity=(*verdict.integrity, *named))


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
            finding,
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

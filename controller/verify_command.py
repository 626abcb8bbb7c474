"""The command `cliquelog verify`."""

import asyncio

import click
import msgspec

from controller import exits
from controller.places import open_readonly
from controller.verify import Verdict
from controller.verify import verify as judge


@click.command()
@click.argument("log")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def verify(log: str, *, as_json: bool) -> None:
    """Check that LOG is whole, keeps the rules, and folds to one answer.

    LOG is sqlite:PATH. The log is only read; a controller may be running on it.

    \b
    Example:
      cliquelog verify sqlite:/var/lib/cliquelog/log.sqlite
    """
    verdict = asyncio.run(_verify(log))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(verdict)).decode())
    else:
        click.echo(text_of(verdict))
    if not verdict.sound:
        raise click.exceptions.Exit(exits.FOUND)


async def _verify(place: str) -> Verdict:
    log = await open_readonly(place)
    try:
        return await judge(log, dense=True)
    finally:
        await log.close()


def text_of(verdict: Verdict) -> str:
    """Give the verdict for people, at most 80 columns but for names."""
    lines = [
        f"records     {verdict.records} in {verdict.partitions} partitions",
        f"digest      {verdict.digest}",
        f"integrity   {_count(verdict.integrity)}",
        *(f"            {finding}" for finding in verdict.integrity),
        f"invariants  {_count(verdict.violations)}",
        *(f"            {one.position} {one.key}: {one.message}" for one in verdict.violations),
        f"determinism {_count(verdict.determinism)}",
        *(f"            {finding}" for finding in verdict.determinism),
    ]
    return "\n".join(lines)


def _count(findings: tuple[object, ...]) -> str:
    return f"{len(findings)} findings" if findings else "ok"

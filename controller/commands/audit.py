"""The command `cliquelog audit`."""

import asyncio
from pathlib import Path

import click

from controller import exits, moments, places
from controller.collecting import collect_rarely
from controller.commands import strangers
from controller.commands.options import kafka_config
from controller.history import audit_index
from controller.history.audit_report import as_csv, document, show
from controller.history.auditing import Audit, Filters
from controller.history.auditing import audit as examine
from controller.terminal import Screen, emit, emit_json
from kube.clock import SystemClock


@click.command()
@click.argument("log")
@click.option("--node", help="Only what concerns this node.")
@click.option("--clique", help="Only what concerns this clique: its ID.")
@click.option("--domain", help="Only what concerns this ComputeDomain: its UID, its name, or NAMESPACE/NAME.")
@click.option("--index", type=click.IntRange(0, 10_000), help="Only what concerns this index.")
@click.option(
    "--at", metavar="TIME", help="Only holdings at this time: 2026-09-11T10:00:00Z, or +90s from the beginning."
)
@click.option("--between", nargs=2, metavar="TIME TIME", help="Only holdings and findings between these times.")
@click.option(
    "--use-index/--no-index",
    default=True,
    help="Whether the audit of a large log is kept in the cache folder for the next question [kept].",
)
@kafka_config
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/history.md).")
@click.option("--csv", "wants_csv", is_flag=True, help="Print the holdings as CSV.")
def audit(
    log: str,
    node: str | None,
    clique: str | None,
    domain: str | None,
    index: int | None,
    at: str | None,
    between: tuple[str, str] | None,
    kafka_config: Path | None,
    *,
    use_index: bool,
    as_json: bool,
    wants_csv: bool,
) -> None:
    """Tell who had which index when, and what went wrong (docs/findings.md).

    LOG is sqlite:PATH or kafka://HOST:PORT/TOPIC: a controller's own, or one that `cliquelog import` made. It is only
    read.

    \b
    Examples:
      cliquelog audit sqlite:incident.sqlite
      cliquelog audit sqlite:incident.sqlite --node gb200-07 --json
      cliquelog audit sqlite:incident.sqlite --clique 7b0a3c52-5d3e-4f0c-9c1e-3f1f6f5b2a11.32766 --at +90s
    """
    if as_json and wants_csv:
        raise click.UsageError("--json and --csv exclude each other")
    if at and between:
        raise click.UsageError("--at and --between exclude each other")
    collect_rarely()
    whole = asyncio.run(_audit(log, kafka_config, use_index=use_index))
    filters = Filters(node, clique, domain, index, *_span(at, between, whole))
    unknown = filters.unknown(whole)
    if unknown is not None:
        raise click.UsageError(unknown)
    found = filters.applied(whole)
    now_ms = SystemClock().now_ms()
    if as_json:
        emit_json(document(found, now_ms))
    elif wants_csv:
        emit(as_csv(found, now_ms))
    else:
        show(found, now_ms, Screen())
    if found.findings:
        raise click.exceptions.Exit(exits.FOUND)


def _span(at: str | None, between: tuple[str, str] | None, whole: Audit) -> tuple[int | None, int | None]:
    """Give the first and the last moment that are asked for. Raises click.UsageError."""
    first, last = (at, at) if at else between or (None, None)
    if first is None or last is None:
        return None, None
    try:
        first_ms, last_ms = (moments.parse(text, whole.begin_ms) for text in (first, last))
        if whole.records:
            moments.within(last, last_ms, whole.begin_ms)
    except moments.NotATime as error:
        raise click.UsageError(str(error)) from None
    if last_ms < first_ms:
        raise click.UsageError(f"--between ends at {last}, before it begins at {first}; give the earlier time first")
    return first_ms, last_ms


async def _audit(place: str, kafka_config: Path | None, *, use_index: bool) -> Audit:
    stamp = places.stamp(place)
    async with strangers.opened(place, kafka_config) as (log, passed_over):
        key = await audit_index.key_of(log, stamp)
        found = audit_index.load(key) if use_index else None
        if found is None:
            found = await examine(log)
            # What was passed over is told by whoever reads it.
            if use_index and found.records >= audit_index.LEAST_RECORDS and not passed_over.count:
                audit_index.save(key, found)
        return found

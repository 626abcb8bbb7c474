"""The commands `cliquelog topics create` and `cliquelog topics check`."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from controller import exits
from controller.commands.options import in_sync, kafka_config, replicas

if TYPE_CHECKING:
    from eventlog.kafka.driver import TopicDescription
    from eventlog.kafka.topics import Report


@click.group()
def topics() -> None:
    """Make or check the topics of a log on Kafka."""


@topics.command()
@click.argument("log")
@click.option("--partitions", type=click.IntRange(1, 10_000), default=24, show_default=True, help="For ever.")
@replicas
@kafka_config
def create(log: str, partitions: int, replication: int, min_insync: int | None, kafka_config: Path | None) -> None:
    """Make the topics of a new log.

    LOG is kafka://HOST:PORT[,HOST:PORT...]/TOPIC[?snapshots=TOPIC]. What is there already, and a log, is left
    as it is. The number of partitions cannot be changed later.

    \b
    Example:
      cliquelog topics create kafka://kafka-0.kafka:9092/cliquelog --partitions 24
    """
    wanted_in_sync = in_sync(replication, min_insync)
    from controller import kafka_places  # noqa: PLC0415 - see there
    from eventlog.kafka.topics import Wanted  # noqa: PLC0415 - see there

    made, report = asyncio.run(kafka_places.create(log, kafka_config, Wanted(partitions, replication, wanted_in_sync)))
    click.echo("made" if made else "there already")
    _show(report)


@topics.command()
@click.argument("log")
@kafka_config
def check(log: str, kafka_config: Path | None) -> None:
    """Check that the topics of LOG are set up as its promises need it.

    LOG is kafka://HOST:PORT[,HOST:PORT...]/TOPIC[?snapshots=TOPIC]. Nothing is changed. `cliquelog run` checks
    the same at its start.

    \b
    Example:
      cliquelog topics check kafka://kafka-0.kafka:9092/cliquelog
    """
    from controller import kafka_places  # noqa: PLC0415 - see there

    _show(asyncio.run(kafka_places.check(log, kafka_config)))


def _show(report: "Report") -> None:
    """Print the topics, and what is wrong with them; end with code 4 if anything is."""
    from eventlog.kafka.topics import LOG_SETTINGS, SNAPSHOTS_SETTINGS  # noqa: PLC0415 - as in `create`

    for topic, names in ((report.log, LOG_SETTINGS), (report.snapshots, SNAPSHOTS_SETTINGS)):
        click.echo(_text(topic, names))
    if report.shortcomings:
        raise exits.Failure("; ".join(report.shortcomings), exits.LOG)


def _text(topic: "TopicDescription", names: tuple[str, ...]) -> str:
    stated = [(name, topic.config.get(name, "not told")) for name in names]
    rows = [("partitions", str(topic.partitions)), ("replicas", str(topic.replication)), *stated]
    return "\n".join([f"topic {topic.name}", *(f"  {name:<30}  {value}" for name, value in rows)])

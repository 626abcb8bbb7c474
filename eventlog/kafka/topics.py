"""The topics of a log: how they must be set up, and how one knows that they are a log's.

A log has two topics. Its own keeps every record for ever. The other, compacted, keeps the newest snapshot of each
partition and, as the first record of its partition 0, the *deed*: which topic is the log, and how many partitions it
was made with. Kafka lets anybody add partitions to a topic, and remembers no former number; so this is recorded. It is
also what tells a log from somebody else's topic.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence

import msgspec

from eventlog.kafka.driver import MESSAGE_BYTES, Cluster, Message, TopicDescription, changed_partitions, read_all
from eventlog.kafka.place import KafkaPlace
from eventlog.kafka.sender import Sender
from eventlog.log import LogUnavailable, LogUnreadable
from eventlog.record import Position

DEED_KEY = b"log"
DEED_VERSION = 1
_SEEN_POLL_S = 0.05
SEGMENT_BYTES = 16 << 20
"""Of the snapshots' topic: Kafka compacts closed segments only, and its default is a gigabyte."""

Look = Callable[[Cluster, KafkaPlace], Awaitable[int]]


class Deed(msgspec.Struct, frozen=True):
    """What was recorded when the log was made."""

    version: int
    topic: str
    partitions: int


class Wanted(msgspec.Struct, frozen=True):
    """What a new log is to have. `min_insync` replicas must have a record before it is acknowledged."""

    partitions: int
    replication: int
    min_insync: int


_SAFE = {"unclean.leader.election.enable": "false", "max.message.bytes": str(MESSAGE_BYTES)}
_LOG = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    **_SAFE,
}
_SNAPSHOTS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.1",
    **_SAFE,
}
_IN_SYNC = "min.insync.replicas"
LOG_SETTINGS = (*_LOG, _IN_SYNC)
SNAPSHOTS_SETTINGS = (*_SNAPSHOTS, _IN_SYNC)
"""The settings that a log cares for, of its own topic and of its snapshots'."""


def described(name: str, wanted: Wanted, settings: Mapping[str, str]) -> TopicDescription:
    """Give a topic as it is made."""
    config = {**settings, _IN_SYNC: str(wanted.min_insync)}
    return TopicDescription(name, wanted.partitions, wanted.replication, config)


def shortcomings(log: TopicDescription, snapshots: TopicDescription, partitions: int) -> Iterator[str]:
    """Say what keeps the topics of a log of so many partitions from what a log promises, each with its mend."""
    for topic in (log, snapshots):
        if topic.partitions != partitions:
            yield str(changed_partitions(topic.name, partitions, topic.partitions))
    for topic, policy, harm in (
        (log, "delete", "it forgets records of the log"),
        (snapshots, "compact", "it keeps every snapshot, or forgets all"),
    ):
        yield from _differs(topic, "cleanup.policy", policy, harm)
        yield from _differs(topic, "unclean.leader.election.enable", "false", "acknowledged records can be lost")
        yield from _too_small(topic)
        yield from _too_few_in_sync(topic)
    for name in ("retention.ms", "retention.bytes"):
        yield from _differs(log, name, "-1", "it forgets records of the log")
    yield from _differs(log, "message.timestamp.type", "CreateTime", "it changes the time of records")


def _differs(topic: TopicDescription, name: str, right: str, harm: str) -> Iterator[str]:
    found = topic.config.get(name)
    if found is not None and found != right:
        yield f"topic {topic.name} has {name}={found}, so that {harm}; set {name}={right}"


def _too_small(topic: TopicDescription) -> Iterator[str]:
    name = "max.message.bytes"
    found = topic.config.get(name, "")
    if found.isdecimal() and int(found) < MESSAGE_BYTES:
        yield f"topic {topic.name} has {name}={found}, so that large records are refused; set {name}={MESSAGE_BYTES}"


def _too_few_in_sync(topic: TopicDescription) -> Iterator[str]:
    name = _IN_SYNC
    found = topic.config.get(name, "")
    if found == "1" and topic.replication > 2:
        yield (
            f"topic {topic.name} has {name}=1, so that an acknowledged record may be on one broker only; "
            f"set {name}=2, as it has {topic.replication} replicas"
        )
    elif found.isdecimal() and int(found) > topic.replication:
        yield f"topic {topic.name} has {name}={found} and {topic.replication} replicas, so that nothing can be appended"


async def recorded_partitions(cluster: Cluster, place: KafkaPlace) -> int:
    """Give the number of partitions that the log was made with.

    Raises LogUnreadable if the topics are not there, not a log's, or have another number by now.
    """
    log, snapshots, deed = await _there(cluster, place)
    for topic in (log, snapshots):
        if topic.partitions != deed.partitions:
            raise changed_partitions(topic.name, deed.partitions, topic.partitions)
    return deed.partitions


async def partitions_as_made(cluster: Cluster, place: KafkaPlace) -> int:
    """Do as `recorded_partitions`, but let pass topics that were given more partitions since."""
    log, _, deed = await _there(cluster, place)
    if log.partitions < deed.partitions:
        raise changed_partitions(log.name, deed.partitions, log.partitions)
    return deed.partitions


async def added_since(cluster: Cluster, place: KafkaPlace, partitions: int) -> AsyncIterator[Position]:
    """Give where records are in the partitions that the log was not made with: somebody else's, nobody of ours appends.

    A mark of a transaction counts as one.
    """
    (log,) = await cluster.describe(place.topic)
    for partition in range(partitions, log.partitions if log is not None else 0):
        beginning, end = await cluster.beginning(place.topic, partition), await cluster.end(place.topic, partition)
        for offset in range(beginning, end):
            yield Position(partition, offset)


async def examine(cluster: Cluster, place: KafkaPlace) -> int:
    """Do as `recorded_partitions`, and also refuse topics that have shortcomings, with the first of them."""
    log, snapshots, deed = await _there(cluster, place)
    found = list(shortcomings(log, snapshots, deed.partitions))
    if found:
        more = f" (and {len(found) - 1} more: see `cliquelog topics check`)" if len(found) > 1 else ""
        raise LogUnreadable(found[0] + more)
    return deed.partitions


class Report(msgspec.Struct, frozen=True):
    """What `topics check` found."""

    log: TopicDescription
    snapshots: TopicDescription
    shortcomings: Sequence[str]


async def report(cluster: Cluster, place: KafkaPlace) -> Report:
    """Describe the log's topics and all their shortcomings. Raises LogUnreadable if there is no log."""
    log, snapshots, deed = await _there(cluster, place)
    return Report(log, snapshots, tuple(shortcomings(log, snapshots, deed.partitions)))


async def create(cluster: Cluster, place: KafkaPlace, wanted: Wanted) -> bool:
    """Make a log; what an interrupted call left half done is completed. Give whether anything had to be made.

    A log of as many partitions that is there already is left as it is. Raises LogUnreadable for topics that hold
    something else, LogUnavailable if the brokers do not make them.
    """
    log, snapshots = await cluster.describe(place.topic, place.snapshots)
    deed = await _deed(cluster, place) if snapshots is not None else None
    if deed is not None:
        if log is None:
            raise _without_log(place)
        if (deed.topic, deed.partitions) != (place.topic, wanted.partitions):
            raise LogUnreadable(
                f"{place} holds a log already, of {deed.partitions} partitions, and {wanted.partitions} were asked "
                "for; give another topic"
            )
        return False
    for topic in (log, snapshots):
        if topic is not None:
            await _refuse_occupied(cluster, topic, wanted)
    await cluster.create_topics(described(place.snapshots, wanted, _SNAPSHOTS), described(place.topic, wanted, _LOG))
    await _wait_until_seen(cluster, place, wanted)
    await _record(cluster, place, wanted.partitions)
    return True


async def _there(cluster: Cluster, place: KafkaPlace) -> tuple[TopicDescription, TopicDescription, Deed]:
    log, snapshots = await cluster.describe(place.topic, place.snapshots)
    if log is None and snapshots is None:
        raise LogUnreadable(f"there is no {place}, or this user may not see it; make it with `cliquelog topics create`")
    deed = await _deed(cluster, place) if snapshots is not None else None
    if deed is None or snapshots is None or deed.topic != place.topic:
        raise LogUnreadable(
            f"{place} is not a log of cliquelog: topic {place.snapshots} does not say so; give another topic, "
            "or make one with `cliquelog topics create`"
        )
    if log is None:
        raise _without_log(place)
    return log, snapshots, deed


def _without_log(place: KafkaPlace) -> LogUnreadable:
    return LogUnreadable(
        f"topic {place.topic} is gone, and the snapshots of its log in {place.snapshots} are there; bring it back, "
        f"or delete {place.snapshots} too and make a new log with `cliquelog topics create`"
    )


async def _deed(cluster: Cluster, place: KafkaPlace) -> Deed | None:
    """Read the first record of the snapshots' topic; None if it is not a deed."""
    beginning, end = await cluster.beginning(place.snapshots, 0), await cluster.end(place.snapshots, 0)
    first = await read_all(cluster, place.snapshots, 0, beginning, min(beginning + 1, end))
    if not first or first[0].key != DEED_KEY or first[0].value is None:
        return None
    try:
        deed = msgspec.json.decode(first[0].value, type=Deed)
    except msgspec.DecodeError:
        return None
    if deed.version > DEED_VERSION:
        raise LogUnreadable(f"{place} is a log of a newer version; use a newer cliquelog")
    return deed


async def _refuse_occupied(cluster: Cluster, topic: TopicDescription, wanted: Wanted) -> None:
    """Refuse a topic that is not what a call before this one may have made: empty, and of the right size."""
    empty = True
    for partition in range(topic.partitions):
        empty = empty and await cluster.end(topic.name, partition) == 0
    if not empty:
        raise LogUnreadable(f"topic {topic.name} holds records of something else; give another topic")
    if topic.partitions != wanted.partitions:
        raise LogUnreadable(
            f"there is a topic {topic.name} with {topic.partitions} partitions, and {wanted.partitions} were asked "
            "for; delete it, or give another topic"
        )


async def _wait_until_seen(cluster: Cluster, place: KafkaPlace, wanted: Wanted) -> None:
    """Wait until the brokers tell of new topics; they do a moment after they have made them. Raises LogUnavailable."""
    now = asyncio.get_running_loop().time
    deadline = now() + cluster.patience_s
    while now() < deadline:
        found = await cluster.describe(place.topic, place.snapshots)
        if all(topic is not None and topic.partitions == wanted.partitions for topic in found):
            return
        await asyncio.sleep(_SEEN_POLL_S)
    raise LogUnavailable(f"{place} was made and the brokers do not tell of it yet; try again")


async def _record(cluster: Cluster, place: KafkaPlace, partitions: int) -> None:
    deed = msgspec.json.encode(Deed(DEED_VERSION, place.topic, partitions))
    sender = Sender(cluster, place.snapshots, partitions)
    try:
        await sender.send([Message(0, -1, 0, DEED_KEY, deed, ())])
    finally:
        await sender.close()

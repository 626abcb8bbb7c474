"""A member of a consumer group, as aiokafka has it, with an assignor that lets partitions stay where they are.

The library's sticky assignor keeps what it remembers in attributes of its class, which all consumers of a process would
share; so each member has a class of its own. It is an eager one: in a rebalance all members give up all partitions,
and mostly get the same ones back.
"""

from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from eventlog.kafka.driver.connecting import reason
from eventlog.kafka.settings import KafkaSettings
from eventlog.log import LogUnavailable

REBALANCE_S = 30.0
"""How long a rebalance waits for a member that is there and does not join."""
IDLE_S = 300.0
"""How long a member may go without asking for records before the group does without it."""


def member(common: dict[str, Any], settings: KafkaSettings, group: str, instance: str | None) -> AIOKafkaConsumer:
    """Make a member; `instance` makes it a static one, whose partitions wait for it for the session's time.

    `common` are the library's settings that every client has. It begins where it is told to, and commits what it is
    told to, so what is committed never decides anything.
    """
    assignor = type("StickyAssignor", (StickyPartitionAssignor,), {})
    return AIOKafkaConsumer(
        **common,
        group_id=group,
        group_instance_id=instance,
        partition_assignment_strategy=(assignor,),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=settings.session_ms,
        heartbeat_interval_ms=settings.heartbeat_ms,
        rebalance_timeout_ms=int(REBALANCE_S * 1000),
        max_poll_interval_ms=int(IDLE_S * 1000),
        metadata_max_age_ms=settings.metadata_age_ms,
    )


def end(consumer: AIOKafkaConsumer, topic: str, partition: int) -> int:
    """Give the partition's end as of the last fetch; 0 if it is not this member's, or was not fetched yet."""
    place = TopicPartition(topic, partition)
    return int(consumer.highwater(place) or 0) if place in consumer.assignment() else 0


def seek(consumer: AIOKafkaConsumer, topic: str, partition: int, offset: int) -> None:
    """Go on at this offset, if the partition is this member's still."""
    place = TopicPartition(topic, partition)
    if place in consumer.assignment():
        consumer.seek(place, offset)


async def commit(consumer: AIOKafkaConsumer, topic: str, offsets: dict[int, int]) -> bool:
    """Commit these offsets by partition; say whether the brokers took them. In a rebalance they do not."""
    assigned = consumer.assignment()
    places = {TopicPartition(topic, partition): OffsetAndMetadata(at, "") for partition, at in offsets.items()}
    ours = {place: at for place, at in places.items() if place in assigned}
    if not ours:
        return False
    try:
        await consumer.commit(ours)
    except KafkaError:
        return False
    return True


def check(consumer: AIOKafkaConsumer, group: str) -> None:
    """Raise LogUnavailable for what keeps the member out of its group; the library tells only who asks."""
    try:
        consumer._coordinator.check_errors()  # noqa: SLF001 - asked for nowhere on the way that Faust reads
    except KafkaError as error:
        told = f"consumer group {group} cannot be joined: {reason(error)}"
        raise LogUnavailable(f"{told}; allow this user Read on the group") from error

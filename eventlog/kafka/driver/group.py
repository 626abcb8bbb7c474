"""A member of a consumer group, as aiokafka has it, with an assignor that lets partitions stay where they are.

The library's sticky assignor keeps what it remembers in attributes of its class, which all consumers of a process would
share; so each member has a class of its own. It is an eager one: in a rebalance all members give up all partitions,
and mostly get the same ones back.

A static member whose name another process takes must end; else the two push each other out for ever. The brokers say so
(FENCED_INSTANCE_ID) to whoever joins with the name and the member's ID of before. The library does neither: it sends
its heartbeats without the name, is told that its ID is unknown, as after a session that ran out, and joins anew without
an ID, which takes the name back. So here the first attempt to join again states the ID of before.
"""

from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from eventlog.kafka.driver.connecting import reason
from eventlog.kafka.driver.messages import InstanceTaken
from eventlog.kafka.settings import KafkaSettings
from eventlog.log import LogUnavailable

REBALANCE_S = 30.0
"""How long a rebalance waits for a member that is there and does not join."""
IDLE_S = 300.0
"""How long a member may go without asking for records before the group does without it."""


_FENCED_INSTANCE_ID = 82
"""The code in an answer of the brokers (KIP-345); the library has no name for it."""


class _Fenced(Exception):
    """The name of a static member is another one's. No error of the library's: those it would try to get over."""


class _Member(AIOKafkaConsumer):  # type: ignore[misc]  # aiokafka has no types
    """A member that joins no more once its name was taken."""

    async def start(self) -> None:
        """Connect. The library makes its coordinator here, and joins only after this."""
        await super().start()
        if self._group_instance_id is not None:
            _keep_out_if_fenced(self._coordinator)


def _keep_out_if_fenced(coordinator: Any) -> None:  # noqa: ANN401
    """Let a static member join again with its ID of before, and raise _Fenced in its coordination if told so."""
    send, join, nobody = coordinator._send_req, coordinator._do_rejoin_group, coordinator.member_id  # noqa: SLF001
    before = nobody

    async def told(request: Any) -> Any:  # noqa: ANN401
        answer = await send(request)
        if getattr(answer, "error_code", 0) == _FENCED_INSTANCE_ID:
            raise _Fenced
        return answer

    async def join_as_before(subscription: Any) -> bool:  # noqa: ANN401
        nonlocal before
        if coordinator.member_id == nobody:
            # If the brokers do not know it any more, the library forgets it, and the next attempt is a newcomer's.
            coordinator.member_id, before = before, nobody
        joined: bool = await join(subscription)
        if joined:
            before = coordinator.member_id
        return joined

    coordinator._send_req, coordinator._do_rejoin_group = told, join_as_before  # noqa: SLF001


def member(common: dict[str, Any], settings: KafkaSettings, group: str, instance: str | None) -> AIOKafkaConsumer:
    """Make a member; `instance` makes it a static one, whose partitions wait for it for the session's time.

    `common` are the library's settings that every client has. It begins where it is told to, and commits what it is
    told to, so what is committed never decides anything.
    """
    assignor = type("StickyAssignor", (StickyPartitionAssignor,), {})
    return _Member(
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
    """Raise what keeps the member out of its group: LogUnavailable, InstanceTaken. The library tells only who asks."""
    try:
        consumer._coordinator.check_errors()  # noqa: SLF001 - asked for nowhere on the way that Faust reads
    except KafkaError as error:
        if isinstance(error.__cause__, _Fenced):
            name = consumer._group_instance_id  # noqa: SLF001
            raise InstanceTaken(
                f"another process has joined consumer group {group} as {name}, and so this one is out of it: "
                "give each process a --group-instance-id (GROUP_INSTANCE_ID) of its own"
            ) from error
        told = f"consumer group {group} cannot be joined: {reason(error)}"
        raise LogUnavailable(f"{told}; allow this user Read on the group") from error

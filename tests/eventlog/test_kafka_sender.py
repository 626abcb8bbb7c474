"""What is under way to a topic when nobody waits for it any more."""

import asyncio
from collections.abc import Sequence

import pytest

from eventlog.kafka.driver import Message
from eventlog.kafka.sender import Sender

MESSAGE = Message(0, -1, 1, b"c.0", b"{}", ())


class Producer:
    """Sends whose acknowledgement comes when the test says so."""

    spent = False
    owes = False

    def __init__(self) -> None:
        self.acknowledged = asyncio.Event()
        self.is_discarded = False

    async def send(self, messages: Sequence[Message]) -> list[int]:
        await self.acknowledged.wait()
        return list(range(len(messages)))

    async def discard(self) -> None:
        self.is_discarded = True

    async def close(self) -> None:
        pass


class Cluster:
    """Gives one producer after the other."""

    def __init__(self) -> None:
        self.producers: list[Producer] = []

    async def producer(self, topic: str, partitions: int) -> Producer:
        del topic, partitions
        self.producers.append(Producer())
        return self.producers[-1]


async def cut_off(sender: Sender) -> None:
    """Send, and go away before the acknowledgement."""
    sending = asyncio.create_task(sender.send([MESSAGE]))
    await asyncio.sleep(0.01)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending


async def test_what_is_not_acknowledged_in_time_is_given_up_with_its_producer() -> None:
    cluster = Cluster()
    sender = Sender(cluster, "log", 1)  # type: ignore[arg-type]
    await cut_off(sender)
    await sender.settle(0.01)
    assert cluster.producers[0].is_discarded
    assert [task for task in asyncio.all_tasks() if task.get_name() == "log-append"] == []


async def test_what_an_earlier_append_has_left_behind_is_given_up_too() -> None:
    cluster = Cluster()
    sender = Sender(cluster, "log", 1)  # type: ignore[arg-type]
    await cut_off(sender)
    cluster.producers[0].acknowledged.set()
    cluster.producers[0].owes = True
    await sender.settle(1.0)
    assert cluster.producers[0].is_discarded


async def test_what_is_acknowledged_in_time_is_waited_for() -> None:
    cluster = Cluster()
    sender = Sender(cluster, "log", 1)  # type: ignore[arg-type]
    await cut_off(sender)
    settling = asyncio.create_task(sender.settle(30.0))
    await asyncio.sleep(0.01)
    assert not settling.done()
    cluster.producers[0].acknowledged.set()
    await settling
    assert not cluster.producers[0].is_discarded

"""The checkers of requests, of decisions and of the log: silent on what is right, and not on a made-up violation."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import pytest

from eventlog import codec
from eventlog.events import (
    AnyEvent,
    CdcSeen,
    DaemonPodSeen,
    DaemonSetSeen,
    DomainSeen,
    IndexAdopted,
    IndexAssigned,
    IndexReleased,
    NodeGone,
    NodeSeen,
)
from eventlog.log import StoredSnapshot
from eventlog.memory import MemoryLog
from eventlog.record import Entry, Position, Record
from kube.client import Conflict, KubeError, Selector, Throttled
from kube.names import CDCS, CLIQUE_LABEL, DOMAIN_LABEL, FINALIZER, NODES, POSITION_ANNOTATION
from projections.partition import PartitionFold
from projections.settings import Settings
from simulation.explore.checkers import cleanup, history
from simulation.explore.checkers.decisions import CheckedLog, Memory
from simulation.explore.checkers.history import Claims, lost, unexplained
from simulation.explore.checkers.requests import CheckedClient, Letting
from simulation.explore.checkers.rows import Suspicion
from simulation.store import Object
from tests.simulation.explore.ports import process

DOMAIN, CLIQUE = "d0", "c.0"
SETTINGS = Settings(namespace="nvidia", capacity=2)


class Answering:
    """A client whose answers a test gives: the object, or an error."""

    def __init__(self) -> None:
        self.answers: list[bytes | KubeError | asyncio.Event] = []

    async def _answer(self) -> bytes:
        answer = self.answers.pop(0) if self.answers else b"{}"
        if isinstance(answer, asyncio.Event):
            await answer.wait()
            return b"{}"
        if isinstance(answer, KubeError):
            raise answer
        return answer

    def __getattr__(self, _: str) -> Callable[..., Awaitable[bytes]]:
        return lambda *_args, **_options: self._answer()


class Asking:
    """A checked client at moments that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.found: list[str] = []
        self.server = Answering()
        self.process = process()
        self.client = CheckedClient(self.server, self.process, lambda: self.now, self.found.append)  # type: ignore[arg-type]

    def rules(self) -> list[str]:
        return [told.partition(":")[0] for told in self.found]

    async def patch(self, version: int, answer: bytes | KubeError | asyncio.Event = b"{}") -> None:
        self.server.answers.append(answer)
        body = msgspec.json.encode({"metadata": {"resourceVersion": str(version)}})
        await self.client.patch(CDCS, "ns", "cdc", body, kind="merge")


@pytest.fixture
async def asking() -> Asking:
    return Asking()


def at(version: int) -> bytes:
    return msgspec.json.encode({"metadata": {"resourceVersion": str(version)}})


async def test_writes_one_after_the_other_are_right(asking: Asking) -> None:
    await asking.patch(1, at(2))
    await asking.patch(2, at(3))
    with pytest.raises(Conflict):
        await asking.patch(3, Conflict(409, "Conflict", "no"))
    await asking.client.get(CDCS, "ns", "cdc")
    await asking.patch(4)
    assert asking.found == []


async def test_a_request_before_the_pause_is_over(asking: Asking) -> None:
    with pytest.raises(Throttled):
        await asking.patch(1, Throttled(429, "TooManyRequests", "slow", 5.0))
    await asking.client.list(Selector(CDCS))
    asking.now = 6.0
    await asking.patch(1)
    assert asking.found == [], "the list is another's, and the pause is over"
    with pytest.raises(Throttled):
        await asking.patch(1, Throttled(429, "TooManyRequests", "slow", 5.0))
    asking.now = 10.0
    await asking.patch(1)
    assert asking.rules() == ["Retry-After"]


async def test_a_watch_before_its_pause_is_over(asking: Asking) -> None:
    asking.server.answers.append(Throttled(429, "TooManyRequests", "slow", 5.0))
    with pytest.raises(Throttled):
        await asking.client.list(Selector(NODES))
    asking.now = 1.0
    await asking.client.list(Selector(NODES))
    assert asking.rules() == ["Retry-After"]


async def test_two_writes_of_one_object_at_a_time(asking: Asking) -> None:
    answered = asyncio.Event()
    first = asyncio.create_task(asking.patch(1, answered))
    await asyncio.sleep(0)
    await asking.patch(1)
    answered.set()
    await first
    assert asking.rules() == ["one in flight"]


async def test_a_write_after_a_conflict_without_a_read(asking: Asking) -> None:
    with pytest.raises(Conflict):
        await asking.patch(1, Conflict(409, "Conflict", "no"))
    await asking.patch(1)
    assert asking.rules() == ["conflict"]


async def test_a_write_from_before_the_own_one(asking: Asking) -> None:
    await asking.patch(1, at(5))
    await asking.patch(4)
    assert asking.rules() == ["own writes"]


async def test_a_dead_process_breaks_no_rule(asking: Asking) -> None:
    await asking.patch(1, at(5))
    asking.process.kill()
    await asking.patch(4)
    assert asking.found == []


# Decisions


def entry(event: AnyEvent, key: str = CLIQUE) -> Entry:
    return codec.entry(key, event, timestamp_ms=1, controller="one")


def records(*events: AnyEvent, key: str = CLIQUE) -> list[Record]:
    made = []
    for offset, event in enumerate(events):
        one = entry(event, key)
        made.append(Record("t", 0, offset, one.key, one.timestamp_ms, one.headers, one.value))
    return made


ASSIGNED = IndexAssigned(DOMAIN, "n0", 0, 2)


async def test_deciding_again_before_reading_back() -> None:
    log = CheckedLog(MemoryLog(partitions=1))
    await log.append([entry(ASSIGNED)])
    await log.read(0, 0, limit=10, timeout_s=0.0)
    await log.append([entry(ASSIGNED)])
    assert log.violations == []
    await log.append([entry(ASSIGNED)])
    assert [told.partition(":")[0] for told in log.violations] == ["read back"]


def remembered(*events: AnyEvent) -> list[str]:
    memory = Memory()
    return [told.partition(":")[0] for record in records(*events) for told in memory.take(record, codec.decode(record))]


def test_an_index_is_remembered() -> None:
    gone, other = IndexReleased(DOMAIN, "n0", 0), IndexAssigned(DOMAIN, "n1", 1, 3)
    assert remembered(ASSIGNED, other, gone, ASSIGNED) == []
    assert remembered(ASSIGNED, gone, IndexAssigned(DOMAIN, "n0", 1, 3)) == ["sticky index"]
    assert remembered(ASSIGNED, gone, IndexAssigned(DOMAIN, "n1", 0, 3)) == ["sticky index"], "others are free"
    assert remembered(ASSIGNED, gone, IndexAssigned(DOMAIN, "n1", 0, 1)) == [], "no other is free"
    assert remembered(ASSIGNED, gone, IndexAdopted(DOMAIN, "n0", 1, 3)) == [], "its daemon chose it"


def test_an_index_is_not_taken_from_who_holds_it() -> None:
    assert remembered(ASSIGNED, IndexAssigned(DOMAIN, "n1", 0, 3)) == ["arbitration"]


def test_who_holds_an_index_is_given_none() -> None:
    assert remembered(ASSIGNED, ASSIGNED) == ["arbitration"]
    assert remembered(ASSIGNED, IndexReleased(DOMAIN, "n0", 0), ASSIGNED) == []


# The log


BEGIN = (
    DomainSeen(DOMAIN, 1, "jobs", "job", "t", "Single"),
    DaemonSetSeen(DOMAIN, "ds", 2, "nvidia", "ds", reader=True),
    NodeSeen("n0", "node-n0", 3, CLIQUE, DOMAIN),
    ASSIGNED,
)


def told(
    its: Sequence[Record],
    *,
    snapshots: Sequence[StoredSnapshot] = (),
    writes: Sequence[tuple[int, Object]] = (),
    suspicions: Sequence[tuple[int, Suspicion]] = (),
    lettings: Sequence[tuple[int, Letting]] = (),
) -> list[str]:
    found = unexplained(its, Claims(snapshots, writes, suspicions, lettings), SETTINGS)
    return [one.partition(":")[0] for one in found]


def cdc(index: int) -> Object:
    row = {"nodeName": "n0", "ipAddress": "", "index": index, "status": "NotReady"}
    labels = {DOMAIN_LABEL: DOMAIN, CLIQUE_LABEL: CLIQUE}
    return {"metadata": {"name": f"{DOMAIN}.{CLIQUE}", "labels": labels}, "daemons": [row]}


def test_an_acknowledged_entry_that_is_not_there() -> None:
    acknowledged = [(Position(0, 3), entry(ASSIGNED))]
    assert list(lost(acknowledged, {0: records(*BEGIN)})) == []
    assert len(list(lost(acknowledged, {0: records(*BEGIN[:3])}))) == 1


def test_a_snapshot_that_is_not_what_a_replay_gives() -> None:
    its, fold = records(*BEGIN), PartitionFold()
    for record in its[:2]:
        fold.apply(record)
    state = fold.snapshot()
    assert told(its, snapshots=[StoredSnapshot(0, 2, state)]) == []
    assert told(its, snapshots=[StoredSnapshot(0, 3, state)]) == ["replay"]


def test_a_write_that_the_log_does_not_account_for() -> None:
    its = records(*BEGIN)
    assert told(its, writes=[(3, cdc(0))]) == []
    assert told(its, writes=[(3, cdc(1))]) == ["explanation"]
    assert told(its, writes=[(2, cdc(0))]) == ["explanation"], "it was not decided yet"
    assert told(its, writes=[(9, cdc(0))]) == ["explanation"], "the log does not go so far"


def test_a_suspicion_is_confirmed_by_what_the_log_knew() -> None:
    pod = DaemonPodSeen(DOMAIN, "n0", "nvidia", "p", "p", 4, CLIQUE, "ip0", reader=True)
    its = records(*BEGIN, pod)
    suspicion = Suspicion("0/4", CLIQUE, "p", "ip0", 0, "live rows: ...")
    assert told(its, suspicions=[(4, suspicion)]) == ["live rows"]
    assert told(its, suspicions=[(3, suspicion)]) == [], "nobody knew of the pod then"
    elsewhere = msgspec.structs.replace(suspicion, clique="c.1")
    assert told(its, suspicions=[(4, elsewhere)]) == []


def test_an_index_that_its_node_held_only_before_the_pod_came_is_not_its_own() -> None:
    came = DaemonPodSeen(DOMAIN, "n0", "nvidia", "p", "p", 4, CLIQUE, "ip0", reader=True)
    left, back = NodeGone("n0", "node-n0", 4, "unlabelled"), NodeSeen("n0", "node-n0", 5, CLIQUE, DOMAIN)
    released = IndexReleased(DOMAIN, "n0", 0)
    suspicion = Suspicion("0/7", CLIQUE, "p", "ip0", 0, "live rows: ...")
    assert told(records(*BEGIN, left, released, back, came), suspicions=[(7, suspicion)]) == []
    again = msgspec.structs.replace(suspicion, position="0/8")
    assert told(records(*BEGIN, left, released, back, came, ASSIGNED), suspicions=[(8, again)]) == ["live rows"]


def test_a_domain_that_is_let_go_too_early() -> None:
    domain = DomainSeen(DOMAIN, 7, "jobs", "job", "t", "Single", terminating=True, finalizers=(FINALIZER,))
    its = records(DaemonSetSeen(DOMAIN, "ds", 2, "nvidia", "ds"), domain, key=DOMAIN)
    letting = Letting(("computedomains", "jobs", "job"), "7", (), {POSITION_ANNOTATION: "0/1"})
    assert cleanup.position_of(letting) == "0/1"
    assert cleanup.lets_go(letting)
    assert not cleanup.lets_go(msgspec.structs.replace(letting, finalizers=(FINALIZER,)))
    assert told(its, lettings=[(1, letting)]) == ["finalizer"]
    assert told(records(domain, key=DOMAIN), lettings=[(0, letting)]) == []


def test_two_nodes_with_one_index_in_the_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(records(*BEGIN)) == []
    monkeypatch.setattr(history, "indices_are_unique", lambda _: ["nodes n0 and n1 both have index 0"])
    assert set(told(records(*BEGIN))) == {"fold"}


def test_a_cdc_of_another_writer_names_no_place() -> None:
    seen = CdcSeen(DOMAIN, CLIQUE, "nvidia", f"{DOMAIN}.{CLIQUE}", "cdc", 5)
    assert told(records(*BEGIN, seen)) == []

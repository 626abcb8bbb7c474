"""The work of `cliquelog why` on a log: finds what concerns a node, folds that alone, and explains it.

Two readings: the first looks for the name in the records' bytes and decodes where it stands, the second folds the keys
that it was found under. So a log of a thousand cliques costs little more than to read it, and memory what one clique
and its domains need.
"""

from collections.abc import AsyncIterator, Iterable, Mapping

import msgspec

from controller.observing.observations import KINDS
from eventlog import codec
from eventlog.events import AnyEvent, DaemonPodSeen
from eventlog.log import EventLog
from eventlog.partitioner import partition_for
from eventlog.reading import batches
from eventlog.record import Position, Record
from projections.audit.change import change_of, nodes_of
from projections.audit.gaps import IN_A_GAP, Spans, Unseen
from projections.audit.situation import Pending, Situation
from projections.audit.standing import Trail
from projections.clique import CliqueState, Membership, has_pod, labelled
from projections.domain import DomainState
from projections.fold import WATCH_PREFIX, Aggregate, apply, is_clique, is_domain
from projections.visibility import WatchState

BATCH = 5000
DECISION_PREFIX = "index-"


class Found(msgspec.Struct):
    """Where a name stands: the keys of its records, and what it names. `pods` gives nodes by UID of daemon pods.

    `unseen`: by kind, when nobody watched it.
    """

    keys: set[str]
    pods: dict[str, str]
    unseen: dict[str, Unseen]
    is_node: bool = False
    decides: bool = False
    newest_ms: int = 0


async def begin_ms(log: EventLog) -> int:
    """Give the time of the log's first record, 0 if it is empty. Raises LogError."""
    first = []
    for partition in range(log.partitions):
        beginning = await log.beginning_offset(partition)
        first += [one.timestamp_ms for one in await log.read(partition, beginning, limit=1, timeout_s=0.0)]
    return min(first, default=0)


async def situation(log: EventLog, subject: str, until_ms: int | None) -> Situation:
    """Give what the log tells of a node, or of a daemon pod (`NAME` or `NAMESPACE/NAME`) and its node.

    `until_ms`: as of that time; None: as of the newest record. Raises LogError.
    """
    found = await _find(log, subject, until_ms)
    node, pod = subject, ""
    if found.pods and not found.is_node:
        pod, node = next(reversed(found.pods.items()))
        found = await _find(log, node, until_ms)
    followed = Following(node, {kind: unseen.spans() for kind, unseen in found.unseen.items()})
    for partition in sorted({partition_for(key, log.partitions) for key in found.keys}):
        async for record in records(log, partition, until_ms):
            if record.key in found.keys:
                followed.take(record)
    watches = {key: state for key, state in followed.states.items() if isinstance(state, WatchState)}
    at_ms = until_ms if until_ms is not None else found.newest_ms
    return followed.situation(subject, pod, watches, at_ms, decides=found.decides, pending=None)


async def records(log: EventLog, partition: int, until_ms: int | None) -> AsyncIterator[Record]:
    """Give the partition's records up to the end that it has now, of those up to that time."""
    beginning, end = await log.beginning_offset(partition), await log.end_offset(partition)
    async for batch in batches(log, partition, beginning, end, limit=BATCH):
        for record in batch:
            if until_ms is None or record.timestamp_ms <= until_ms:
                yield record  # Clocks go back, so that one of an earlier time may follow.


async def _find(log: EventLog, subject: str, until_ms: int | None) -> Found:
    found = Found(set(), {}, {})
    namespace, _, name = subject.rpartition("/")
    needle = msgspec.json.encode(name)
    for partition in range(log.partitions):
        async for record in records(log, partition, until_ms):
            found.newest_ms = max(found.newest_ms, record.timestamp_ms)
            found.decides = found.decides or record.headers.event_type.startswith(DECISION_PREFIX)
            if record.key.startswith(WATCH_PREFIX):
                found.keys.add(record.key)
                if (mark := _event(record)) is not None:
                    unseen = found.unseen.setdefault(record.key.removeprefix(WATCH_PREFIX), Unseen())
                    unseen.take(mark, record.timestamp_ms)
            elif needle in record.value and (event := _event(record)) is not None:
                _note(found, record.key, event, namespace, name)
    return found


def _note(found: Found, key: str, event: AnyEvent, namespace: str, name: str) -> None:
    """Note what the record says of the name: one that is the name of something else does not count."""
    names_node = not namespace and name in nodes_of(event)
    is_pod = isinstance(event, DaemonPodSeen) and event.name == name and namespace in {"", event.namespace}
    if not (names_node or is_pod):
        return
    found.is_node = found.is_node or names_node
    found.keys.add(key)
    domain = getattr(event, "domain", "")
    if is_domain(domain):
        found.keys.add(domain)
    if isinstance(event, DaemonPodSeen) and is_pod:
        found.pods.pop(event.uid, None)  # The last one seen counts.
        found.pods[event.uid] = event.node


def _event(record: Record) -> AnyEvent | None:
    try:
        return codec.decode(record)
    except codec.UndecodableRecord:
        return None  # `verify` names it; it says nothing of anybody.


class Following:
    """Folds the keys that concern a node, and follows the node through each domain that it is or was in."""

    def __init__(self, node: str, unseen: Mapping[str, Spans]) -> None:
        """Know nothing but when nobody watched: what a list shows then may have been so before."""
        self.node = node
        self._unseen = unseen
        self.states: dict[str, Aggregate] = {}
        self._trails: dict[tuple[str, str], Trail] = {}

    def take(self, record: Record) -> None:
        """Take in a record of such a key."""
        event = _event(record)
        if event is None:
            return
        key, before = record.key, self.states.get(record.key)
        after = self.states[key] = apply(before, key, event)
        position = Position(record.partition, record.offset)
        change = change_of(position, record.timestamp_ms, key, event, before, after)
        for domain in _domains(after, key, self.node):
            self._trails.setdefault((key, domain), Trail(domain, self.node))
        for (followed, _), trail in self._trails.items():
            if followed == key:
                trail.take(change, self._doubt(event, record.timestamp_ms))

    def _doubt(self, event: AnyEvent, time_ms: int) -> str:
        spans = self._unseen.get(KINDS.get(type(event), ""))
        return IN_A_GAP if spans is not None and spans.hold(time_ms) else ""

    def situation(
        self,
        subject: str,
        pod: str,
        watches: Mapping[str, WatchState],
        at_ms: int,
        *,
        decides: bool,
        pending: Pending | None,
    ) -> Situation:
        """Give the situation, in the domain that the node is in: by its label, else by its daemon, else the last."""
        best = max(self._trails, key=self._rank, default=None)
        key, domain = best or ("", "")
        clique = key if is_clique(key) else ""
        state, overall = self.states.get(clique), self.states.get(domain)
        return Situation(
            subject,
            self.node,
            pod,
            clique,
            self._trails[best] if best is not None else None,
            state if isinstance(state, CliqueState) else None,
            overall if isinstance(overall, DomainState) else None,
            {key.removeprefix(WATCH_PREFIX): watch for key, watch in watches.items()},
            decides,
            at_ms,
            pending,
        )

    def _rank(self, place: tuple[str, str]) -> tuple[bool, bool, bool, int, str]:
        trail = self._trails[place]
        standing = trail.standing
        is_there = (standing.joined is not None, standing.pod is not None)
        return (*is_there, is_clique(place[0]), trail.touched_ms, trail.domain)


def _domains(state: Aggregate, key: str, node: str) -> Iterable[str]:
    """Give the domains in which this state of the key knows the node."""
    match state:
        case CliqueState():
            return [uid for uid, one in state.domains.items() if labelled(state, uid, node) or _knows(one, node)]
        case DomainState():
            return [key]
        case _:
            return ()


def _knows(membership: Membership, node: str) -> bool:
    listed = membership.cdc is not None and node in membership.cdc.rows
    return listed or node in membership.holdings or node in membership.waiting or has_pod(membership, node)

"""Standing: how far a node has come in one domain, as one folded state shows it, and the trail of how it came there.

Problem: "not ready" has a dozen causes, each in another object. Invariant: each step of a node is a value in the fold's
state (who, which index, which address), so the record that made the step is the one after which the value was first as
it is now. Reason for values instead of events: what is stale, doubled or inadmissible makes no step.
"""

from collections.abc import Mapping

import msgspec

from eventlog.events import DaemonPodSeen, DomainNode, Row, WriteAnswered
from projections.audit.change import Change
from projections.audit.finding import Evidence, evidence
from projections.buckets import find, values
from projections.clique import CliqueState, Pod, labelled, pods_by_node, row_is_dead
from projections.desired import CDCS
from projections.domain import DomainState
from projections.readiness import READY

STEPS: Mapping[str, str] = {
    "label": "the node carries the domain's label",
    "index": "it has an index",
    "pod": "its daemon pod is there",
    "address": "the daemon has an address",
    "row": "its row has that address",
    "ready": "the daemon is ready",
    "row-ready": "its row is Ready",
}
"""The steps of a node, in the order in which a formation usually takes them."""


class Standing(msgspec.Struct, frozen=True):
    """What is so of a node; each part None while it is not.

    `joined` tells one label from the next. `pod` is the daemon that counts, `index` the one that is held, else the one
    that the row shows. `listed` is the row as the CDC (without a fabric: the domain's status) shows it, `left` says
    that it is what a daemon left behind which is known to be gone.
    """

    joined: str | None = None
    index: int | None = None
    pod: Pod | DaemonPodSeen | None = None
    listed: Row | None = None
    left: bool = False
    waits: bool = False

    def has_row(self) -> bool:
        """Say whether the row is that of the daemon that counts, or of some daemon where the history tells of none."""
        row = self.listed
        return row is not None and bool(row.ip) and not self.left and (self.pod is None or self.pod.ip in {row.ip, ""})

    def is_ready(self) -> bool:
        """Say whether a workload on the node may start: its row is there and Ready, and its daemon lives (rule 10)."""
        row = self.listed
        alive = self.pod is None or (self.pod.ready and not self.pod.terminating)
        agrees = row is not None and (self.index is None or row.index in {self.index, -1})
        return row is not None and self.has_row() and alive and agrees and row.status == READY

    def marks(self) -> dict[str, object]:
        """Give what each step that was taken rests on; another value is another step of that kind."""
        pod, row = self.pod, self.listed
        daemon = (pod.uid, pod.ip) if pod is not None and pod.ip else None
        taken: dict[str, object] = {
            "label": self.joined,
            "index": self.index,
            "pod": pod.uid if pod is not None else None,
            "address": daemon,
            "row": (row.ip, row.index) if row is not None and self.has_row() else None,
            "ready": daemon if pod is not None and pod.ready and not pod.terminating else None,
            "row-ready": (row.ip, row.index) if row is not None and self.is_ready() else None,
        }
        return {step: value for step, value in taken.items() if value is not None}


def in_clique(state: CliqueState, domain: str, node: str) -> Standing:
    """Give the node's standing in a domain of a clique."""
    membership = state.domains.get(domain)
    if membership is None:
        return Standing()
    known = state.nodes.get(node)
    joined = f"{known.uid} {known.since}" if known is not None and labelled(state, domain, node) else None
    row = membership.cdc.rows.get(node) if membership.cdc is not None else None
    held = membership.holdings.get(node)
    index = held.index if held is not None and held.active else row.index if row is not None else None
    left = row is not None and row_is_dead(membership, row)
    pod = pods_by_node(membership).get(node)
    return Standing(joined, index, pod, row, left=left, waits=node in membership.waiting)


def in_domain(state: DomainState, node: str) -> Standing:
    """Give the standing of a node without a fabric, or of one whose clique is not known."""
    known = find(state.nodes, node)
    pods = sorted(
        (pod for pods in (state.bare_pods, state.fabric_pods) for pod in values(pods) if pod.node == node),
        key=lambda pod: (not pod.terminating, pod.resource_version),
    )
    listed = next((one for one in state.domain.nodes if one.name == node), None) if state.domain is not None else None
    joined = known.uid if known is not None else None
    return Standing(joined, None, pods[-1] if pods else None, _row(listed) if listed is not None else None)


def _row(listed: DomainNode) -> Row:
    return Row(listed.name, listed.ip, listed.index, listed.status)


class Mark(msgspec.Struct, frozen=True):
    """The record that made a step; `inferred` says why that is not certain, empty if it was observed."""

    value: object
    time_ms: int
    evidence: Evidence
    inferred: str


class Refusal(msgspec.Struct, frozen=True):
    """The writes of the node's row that the API server refused since the row last changed: how many, and the last."""

    count: int
    code: int
    retry_after_s: int
    time_ms: int


class Removal(msgspec.Struct, frozen=True):
    """The row was taken out of the CDC; `writer` is who did so, empty if the history does not tell."""

    time_ms: int
    writer: str
    evidence: Evidence


class Trail:
    """Follows one node in one domain, through the records of one key."""

    def __init__(self, domain: str, node: str) -> None:
        """Know nothing of it."""
        self.domain = domain
        self.node = node
        self.standing = Standing()
        self.marks: dict[str, Mark] = {}
        self.refusal: Refusal | None = None
        self.removal: Removal | None = None
        self.touched_ms = 0
        """When anything of it changed last."""
        self.had_pod = False
        """Whether the history has ever told of a daemon pod there."""
        self.was_labelled = False
        """Whether the history has ever told of the label: one without nodes tells of none."""
        self.began_ms = 0
        """When the life before the daemon's present one ended; 0 if this is the first that is known."""

    def take(self, change: Change, doubt: str = "") -> None:
        """Take in a record of the key; `doubt` says why what it shows may have been so before."""
        before = self.standing
        match change.after:
            case CliqueState():
                self.standing = in_clique(change.after, self.domain, self.node)
            case DomainState():
                self.standing = in_domain(change.after, self.node)
        self._follow_refusals(change, before)
        if self.standing == before:
            return
        self.touched_ms = change.time_ms
        self.had_pod = self.had_pod or self.standing.pod is not None
        self.was_labelled = self.was_labelled or self.standing.joined is not None
        self._follow_removal(change, before)
        taken = self.standing.marks()
        if "pod" in self.marks and taken.get("pod") != self.marks["pod"].value:
            self.began_ms = change.time_ms
        self.marks = {
            step: known
            if (known := self.marks.get(step)) is not None and known.value == value
            else Mark(value, change.time_ms, evidence(change), change.inferred or doubt)
            for step, value in taken.items()
        }

    def _follow_refusals(self, change: Change, before: Standing) -> None:
        event = change.event
        if self.standing.listed != before.listed:
            self.refusal = None
        elif isinstance(event, WriteAnswered) and event.code >= 400 and self._concerns(event):
            count = self.refusal.count if self.refusal is not None else 0
            self.refusal = Refusal(count + 1, event.code, event.retry_after_s, change.time_ms)

    def _follow_removal(self, change: Change, before: Standing) -> None:
        now = self.standing
        if before.listed is not None and now.listed is None and not before.left:
            self.removal = Removal(change.time_ms, change.writer, evidence(change))
        elif now.listed is not None or _uid(now) != _uid(before):
            self.removal = None

    def _concerns(self, event: WriteAnswered) -> bool:
        return (event.resource, event.domain, event.node) == (CDCS, self.domain, self.node)


def _uid(standing: Standing) -> str:
    return standing.pod.uid if standing.pod is not None else ""

"""What is known of one clique: the aggregate of a key that is a clique ID.

Problem: nodes, daemon pods and the ComputeDomainClique object (CDC) are watched separately, so their events have no
common order, come twice, and come late. Invariant: the state is a function of the records of this key in log order, and
an observation older than what is known of the same object changes nothing. Reason: rule 3 of the design; delivery is at
least once.

All structs are frozen; a change makes new ones and shares the rest. Dicts are never changed in place, and nothing
depends on their order. `sequence` counts the records of this key: it is the only clock that decisions know, and unlike
an offset it is the same in a copy of the log on another engine.
"""

import msgspec

from eventlog.events import Row


class Tombstone(msgspec.Struct, frozen=True):
    """A daemon pod that is gone: a late event of it must not revive it, and a row with its address is a dead row.

    `uid` is empty where a relist proved that the daemon of this address is gone, whose pod nobody saw. `inferred`: only
    a complete list told of it, which may be of later than the pod's end.
    """

    uid: str
    resource_version: int
    node: str
    ip: str
    inferred: bool = False


TOMBSTONES_MAX = 64
"""Tombstones kept per domain in a clique: several times the most daemons that a clique can have (18)."""

DOMAINS_GONE_MAX = 64
"""UIDs of deleted domains remembered per clique, so that late events do not bring them back."""

NODES_MAX = 256
"""Nodes known per clique before those that left are forgotten, the longest gone first: an NVLink partition has far
fewer machines at a time."""


class Node(msgspec.Struct, frozen=True):
    """A node of the clique. `domain` is empty once it lost its label or is gone: the entry guards against late events.

    `since` is the sequence at which it joined that domain.
    """

    uid: str
    resource_version: int
    domain: str
    since: int


class Pod(msgspec.Struct, frozen=True):
    """A daemon pod. `since` is the sequence at which it was first seen."""

    uid: str
    resource_version: int
    node: str
    ip: str
    ready: bool
    terminating: bool
    reader: bool
    since: int


class Cdc(msgspec.Struct, frozen=True):
    """The CDC as last observed; `rows` by node name, `position` the place in the log that our last write named."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    rows: dict[str, Row]
    waiting: tuple[str, ...]
    terminating: bool
    position: str


class DaemonSet(msgspec.Struct, frozen=True):
    """What a clique must know of the domain's DaemonSet: the owner of the CDC, and what kind of daemons to expect."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    capacity: int
    reader: bool


class Holding(msgspec.Struct, frozen=True):
    """A node's index, held (`active`) or remembered.

    `since` is the sequence at which it was given or released. `shown_to` is the address of the row in which a CDC was
    observed to show it: the daemon of that address may be using it. It is empty for a row without an address (our own
    daemons read what they are shown, whoever they are), and None while nobody was shown it.
    """

    index: int
    active: bool
    since: int
    shown_to: str | None = None

    @property
    def shown(self) -> bool:
        """Whether some daemon may be using the index."""
        return self.shown_to is not None


class Membership(msgspec.Struct, frozen=True):
    """One ComputeDomain in one clique. `known`: the ComputeDomain itself was observed; `terminating`: it is going.

    At most one holding per index: taking an index that is remembered for another node ends that memory.
    """

    known: bool = False
    terminating: bool = False
    domain_version: int = 0
    daemon_set: DaemonSet | None = None
    daemon_set_version: int = 0
    pods: dict[str, Pod] = {}
    cdc: Cdc | None = None
    cdc_version: int = 0
    holdings: dict[str, Holding] = {}
    waiting: dict[str, int] = {}
    tombstones: tuple[Tombstone, ...] = ()


class CliqueState(msgspec.Struct, frozen=True, tag="clique"):
    """One clique: its nodes by name, and its domains by UID. `inadmissible` counts decisions that had no effect."""

    sequence: int = 0
    nodes: dict[str, Node] = {}
    domains: dict[str, Membership] = {}
    domains_gone: tuple[str, ...] = ()
    inadmissible: int = 0


def pods_by_node(membership: Membership) -> dict[str, Pod]:
    """Give each node's daemon pod that counts: one that stays before one that terminates, then the newest.

    The newest is the one that was seen as of the latest version, whichever was recorded last: another controller, whose
    watch lags, may still tell of a pod that is long gone and that nobody else has seen.
    """
    best: dict[str, Pod] = {}
    for pod in membership.pods.values():
        other = best.get(pod.node)
        if other is None or _rank(pod) > _rank(other):
            best[pod.node] = pod
    return best


def _rank(pod: Pod) -> tuple[bool, int, str]:
    return (not pod.terminating, pod.resource_version, pod.uid)


def labelled(state: CliqueState, domain: str, node: str) -> bool:
    """Say whether the node carries the domain's label."""
    known = state.nodes.get(node)
    return known is not None and known.domain == domain


def has_pod(membership: Membership, node: str) -> bool:
    """Say whether there is a daemon pod on the node."""
    for pod in membership.pods.values():  # noqa: SIM110 - any() with a generator takes twice the time
        if pod.node == node:
            return True
    return False


def row_is_dead(membership: Membership, row: Row) -> bool:
    """Say whether the row, one of the CDC as last observed, is what a pod left behind that is known to be gone.

    Its address may be another pod's by now. But what was in the CDC as of an older version than that of the pod's end
    was the pod's (the versions of two kinds are compared here, which etcd counts in one row).
    """
    if not row.ip:
        return False
    for stone in membership.tombstones:
        if stone.ip == row.ip and stone.node == row.node:
            return not (_may_be_newer(membership, stone) and _may_have_address(membership, row))
    return False


def _may_be_newer(membership: Membership, stone: Tombstone) -> bool:
    """Say whether the CDC was observed after the pod's end, as far as is known."""
    return stone.inferred or membership.cdc_version > stone.resource_version


def has_address(membership: Membership, row: Row) -> bool:
    """Say whether a daemon on the row's node has the row's address."""
    for pod in membership.pods.values():  # noqa: SIM110 - as in has_pod
        if pod.node == row.node and pod.ip == row.ip:
            return True
    return False


def _may_have_address(membership: Membership, row: Row) -> bool:
    """Say whether a daemon on the row's node has the row's address or may get it: addresses are used again.

    A daemon may write its row before the kubelet has published its address (failure case A14).
    """
    for pod in membership.pods.values():
        if pod.node == row.node and (pod.ip == row.ip or not (pod.ip or pod.terminating)):
            return True
    return False


def chooses_itself(membership: Membership, node: str) -> bool:
    """Say whether the node's daemons write their rows themselves, as upstream's do, or read what they are shown."""
    if membership.daemon_set is not None and membership.daemon_set.reader:
        return False
    return not any(pod.reader and pod.node == node for pod in membership.pods.values())


def row_is_evidence(membership: Membership, node: str) -> bool:
    """Say whether the node's row in the CDC is a reason to take the node for a member.

    A row with an address is: the daemon that has it runs, though its pod was not seen yet (failure case A12), or it is
    known to be gone, and then the row is dead. A row without an address is none: nobody but us places those, and it may
    come back to us late from a write that we have thought better of.
    """
    row = membership.cdc.rows.get(node) if membership.cdc is not None else None
    return row is not None and bool(row.ip) and not row_is_dead(membership, row)


def is_member(state: CliqueState, domain: str, node: str) -> bool:
    """Say whether the node belongs to the domain: by its label, a daemon pod, or a row that another writer placed."""
    membership = state.domains[domain]
    return labelled(state, domain, node) or has_pod(membership, node) or row_is_evidence(membership, node)


def member_names(state: CliqueState, domain: str) -> set[str]:
    """Give the domain's members in this clique; asked for each change, so it is cheaper than `members`."""
    membership = state.domains[domain]
    names = {name for name, node in state.nodes.items() if node.domain == domain}
    names.update([pod.node for pod in membership.pods.values()])
    if membership.cdc is not None:
        others = membership.cdc.rows.keys() - names
        names.update([node for node in others if row_is_evidence(membership, node)])
    return names


def holders(membership: Membership) -> set[str]:
    """Give the nodes that hold an index."""
    return {node for node, held in membership.holdings.items() if held.active}


def members(state: CliqueState, domain: str) -> list[str]:
    """Give the domain's members in this clique in the order in which they joined."""
    membership = state.domains[domain]
    joined: dict[str, int] = {}
    if membership.cdc is not None:
        for node in membership.cdc.rows:
            if row_is_evidence(membership, node):
                joined[node] = 0
    for pod in membership.pods.values():
        joined[pod.node] = min(pod.since, joined.get(pod.node, pod.since))
    for name, node_state in state.nodes.items():
        if node_state.domain == domain:
            joined[name] = min(node_state.since, joined.get(name, node_state.since))
    return sorted(joined, key=lambda name: (joined[name], name))

"""Membership: how observations change what is known of a clique.

Each function takes the state and one observation and gives the new state; an observation that is not newer than what is
known of its object gives the state back unchanged. Absence is not deletion (rule 4): only the `Gone` events take
something away.
"""

from msgspec.structs import replace

from eventlog.events import (
    CdcGone,
    CdcSeen,
    DaemonSetGone,
    DaemonSetSeen,
    DomainGone,
    DomainSeen,
    NodeGone,
    NodeSeen,
    Row,
)
from projections.amend import NEW, amended, pruned, with_domain
from projections.clique import (
    DOMAINS_GONE_MAX,
    NODES_MAX,
    Cdc,
    CliqueState,
    DaemonSet,
    Holding,
    Membership,
    Node,
    Tombstone,
    chooses_itself,
    row_is_dead,
)


def node_seen(state: CliqueState, event: NodeSeen) -> CliqueState:
    """Take in a node's label."""
    known = state.nodes.get(event.name)
    if known is not None:
        if known.resource_version > event.resource_version:
            return state
        if known.resource_version == event.resource_version and known.domain:
            return state  # Of one that is gone as of its own version, it only left this clique, and is back.
    domain = event.domain if event.domain not in state.domains_gone else ""
    joined_before = known is not None and known.domain == domain
    since = known.since if known is not None and joined_before else state.sequence
    node = Node(event.uid, event.resource_version, domain, since)
    return _with_node(state, event.name, node, known)


def node_gone(state: CliqueState, event: NodeGone) -> CliqueState:
    """Take in that a node was deleted, unlabelled or moved; its entry stays, so that late events are told as such."""
    known = state.nodes.get(event.name)
    if known is not None and (known.resource_version > event.resource_version or _another(known, event.uid)):
        return state
    node = Node(event.uid, event.resource_version, "", state.sequence)
    return _with_node(state, event.name, node, known)


def _another(known: Node | Cdc | DaemonSet, uid: str) -> bool:
    """Say whether a deletion is of an earlier object of that name.

    After a gap a relist shows the new object first, and tells as of a later version that the old one is gone.
    """
    return known.uid != uid


def _with_node(state: CliqueState, name: str, node: Node, before: Node | None) -> CliqueState:
    nodes = {**state.nodes, name: node}
    if len(nodes) > NODES_MAX:
        nodes = _without_oldest_guard(nodes)
    state = replace(state, nodes=nodes)
    if node.domain and node.domain not in state.domains:
        state = with_domain(state, node.domain, NEW)
    if before is not None and before.domain and before.domain != node.domain:
        state = pruned(state, before.domain)
    return state


def _without_oldest_guard(nodes: dict[str, Node]) -> dict[str, Node]:
    """Forget the node that left longest ago: where machines get new names for ever, guards must not pile up."""
    guards = [name for name, node in nodes.items() if not node.domain]
    oldest = min(guards, key=lambda name: (nodes[name].since, name), default=None)
    return {name: node for name, node in nodes.items() if name != oldest}


def cdc_seen(state: CliqueState, event: CdcSeen) -> CliqueState:
    """Take in the rows of a CDC."""
    if event.domain in state.domains_gone:
        return state
    membership = state.domains.get(event.domain, NEW)
    if membership.cdc_version >= event.resource_version:
        return state
    rows = {row.node: row for row in event.rows}
    cdc = Cdc(
        event.namespace,
        event.name,
        event.uid,
        event.resource_version,
        rows,
        event.waiting,
        terminating=event.terminating,
        position=event.position,
    )
    if membership.cdc is not None and membership.cdc.uid != event.uid:
        membership = amended(membership, holdings=_without_their_cdc(membership))
    before = _with_reused_addresses(membership, cdc)
    membership = amended(before, cdc=cdc, cdc_version=event.resource_version)
    holdings = membership.holdings
    changes = {
        node: replace(holding, shown_to=shown_to)
        for node, holding in holdings.items()
        if holding.active and (shown_to := _shown_to(membership, node, holding, rows.get(node))) != holding.shown_to
    }
    tombstones = _with_addresses(membership, cdc)
    if changes or tombstones is not membership.tombstones:
        membership = amended(membership, holdings={**holdings, **changes}, tombstones=tombstones)
    return pruned(with_domain(state, event.domain, membership), event.domain)


def _with_reused_addresses(membership: Membership, cdc: Cdc) -> Membership:
    """Take an address as alive again with which another writer has just placed a row that was not there before.

    Addresses are used again, and an upstream daemon's row may come before any event of its pod. That it names no other
    place in the log says that the write was not ours: ours may come late, for the dead one. If it was the dead daemon's
    own last write after all, the row has no pod, which a list of pods proves in the end.
    """
    known = membership.cdc
    if known is None or known.uid != cdc.uid or known.position != cdc.position or not membership.tombstones:
        return membership
    before = {(row.node, row.ip) for row in known.rows.values()}
    new = {(row.node, row.ip) for row in cdc.rows.values() if row.ip} - before
    used = [t for t in membership.tombstones if (t.node, t.ip) in new and t.resource_version < cdc.resource_version]
    if not used:
        return membership
    kept = (replace(stone, ip="") if stone in used else stone for stone in membership.tombstones)
    return amended(membership, tombstones=tuple(stone for stone in kept if stone.uid or stone.ip))


def _with_addresses(membership: Membership, cdc: Cdc) -> tuple[Tombstone, ...]:
    """Give the tombstones with the addresses in rows of this CDC that pods left before theirs were seen."""
    version = cdc.resource_version
    if all([stone.ip or stone.resource_version < version for stone in membership.tombstones]):  # noqa: C419 - faster
        return membership.tombstones
    return tuple(
        replace(stone, ip=cdc.rows[stone.node].ip)
        if not stone.ip
        and stone.resource_version >= version
        and stone.node in cdc.rows
        and not any(pod.ip == cdc.rows[stone.node].ip for pod in membership.pods.values())
        else stone
        for stone in membership.tombstones
    )


def _shown_to(membership: Membership, node: str, holding: Holding, row: Row | None) -> str | None:
    """Give the address that the holding is shown to, now that its node's row is this one, or none."""
    if row is None:
        return None if holding.shown_to and _took_its_row_out(membership, node, holding.shown_to) else holding.shown_to
    if row.index == holding.index and row.ip == holding.shown_to:
        return holding.shown_to  # the usual case, so it is asked before what must be searched for
    if row.index == holding.index:
        return holding.shown_to if _is_of_an_ended_life(membership, row) else row.ip
    if not holding.shown_to or holding.shown_to == row.ip or not row.ip:
        return holding.shown_to  # Nobody was shown it, or the row of the daemon that was is wrong.
    if row_is_dead(membership, row) or not chooses_itself(membership, row.node):
        return holding.shown_to
    return None  # The daemon of a new address runs with another index: the one that was shown ours is gone.


def _took_its_row_out(membership: Membership, node: str, address: str) -> bool:
    """Say whether the daemon of this address, whose row went, is to be taken for gone until it is seen.

    Upstream's daemons take their row out when they end, and choose anew when it is missing (interop 4.3).
    """
    return chooses_itself(membership, node) and not any(
        pod.node == node and pod.ip == address and not pod.terminating for pod in membership.pods.values()
    )


def _is_of_an_ended_life(membership: Membership, row: Row) -> bool:
    """Say whether the row is what a daemon of the upstream driver has left, or is about to take out."""
    if row_is_dead(membership, row):
        return True
    own = [pod for pod in membership.pods.values() if pod.node == row.node and pod.ip in {row.ip, ""}]
    return bool(own) and all(pod.terminating and not pod.reader for pod in own)


def cdc_gone(state: CliqueState, event: CdcGone) -> CliqueState:
    """Take in that the CDC is gone: the indices stay (failure cases A64, A65)."""
    membership = state.domains.get(event.domain)
    if membership is None or membership.cdc_version > event.resource_version:
        return state
    if membership.cdc is not None and _another(membership.cdc, event.uid):
        return state
    holdings = _without_their_cdc(membership)
    changed = replace(membership, cdc=None, cdc_version=event.resource_version, holdings=holdings)
    return pruned(with_domain(state, event.domain, changed), event.domain)


def _without_their_cdc(membership: Membership) -> dict[str, Holding]:
    """Give the holdings now that the CDC is gone in which they were shown.

    Upstream's daemons choose anew where their row is missing, and what one chooses before we write stands.
    """
    return {
        node: replace(holding, shown_to=None) if holding.shown_to and chooses_itself(membership, node) else holding
        for node, holding in membership.holdings.items()
    }


def daemon_set_seen(state: CliqueState, event: DaemonSetSeen) -> CliqueState:
    """Take in the domain's DaemonSet."""
    if event.domain in state.domains_gone:
        return state
    membership = state.domains.get(event.domain, NEW)
    if membership.daemon_set_version >= event.resource_version:
        return state
    daemon_set = DaemonSet(
        event.namespace, event.name, event.uid, event.resource_version, event.capacity, reader=event.reader
    )
    changed = replace(membership, daemon_set=daemon_set, daemon_set_version=event.resource_version)
    return with_domain(state, event.domain, changed)


def daemon_set_gone(state: CliqueState, event: DaemonSetGone) -> CliqueState:
    """Take in that the domain's DaemonSet is gone."""
    membership = state.domains.get(event.domain)
    if membership is None or membership.daemon_set_version > event.resource_version:
        return state
    if membership.daemon_set is not None and _another(membership.daemon_set, event.uid):
        return state
    changed = replace(membership, daemon_set=None, daemon_set_version=event.resource_version)
    return with_domain(state, event.domain, changed)


def domain_seen(state: CliqueState, event: DomainSeen) -> CliqueState:
    """Take in the ComputeDomain itself."""
    if event.uid in state.domains_gone:
        return state
    membership = state.domains.get(event.uid, NEW)
    if membership.domain_version >= event.resource_version:
        return state
    changed = replace(membership, known=True, terminating=event.terminating, domain_version=event.resource_version)
    return with_domain(state, event.uid, changed)


def domain_gone(state: CliqueState, event: DomainGone) -> CliqueState:
    """Take in that the ComputeDomain is gone: nothing of it is kept but its UID, which never comes back."""
    if event.uid in state.domains_gone:
        return state
    domains = {uid: membership for uid, membership in state.domains.items() if uid != event.uid}
    nodes = {name: replace(node, domain="") if node.domain == event.uid else node for name, node in state.nodes.items()}
    gone = (*state.domains_gone, event.uid)[-DOMAINS_GONE_MAX:]
    return replace(state, domains=domains, nodes=nodes, domains_gone=gone)

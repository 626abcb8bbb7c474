"""Membership: how observations change what is known of a clique.

Each function takes the state and one observation and gives the new state; an observation that is not newer than what is
known of its object gives the state back unchanged. Absence is not deletion (rule 4): only the `Gone` events take
something away.
"""

from msgspec.structs import replace

from eventlog.events import (
    CdcGone,
    CdcSeen,
    DaemonPodGone,
    DaemonPodSeen,
    DaemonSetGone,
    DaemonSetSeen,
    DomainGone,
    DomainSeen,
    NodeGone,
    NodeSeen,
    Row,
)
from projections.clique import (
    DOMAINS_GONE_MAX,
    NODES_MAX,
    TOMBSTONES_MAX,
    Cdc,
    CliqueState,
    DaemonSet,
    Holding,
    Membership,
    Node,
    Pod,
    Tombstone,
    chooses_itself,
    is_member,
    row_is_dead,
)

_NEW = Membership()


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
        state = _with_domain(state, node.domain, _NEW)
    if before is not None and before.domain and before.domain != node.domain:
        state = _pruned(state, before.domain)
    return state


def _without_oldest_guard(nodes: dict[str, Node]) -> dict[str, Node]:
    """Forget the node that left longest ago: where machines get new names for ever, guards must not pile up."""
    guards = [name for name, node in nodes.items() if not node.domain]
    oldest = min(guards, key=lambda name: (nodes[name].since, name), default=None)
    return {name: node for name, node in nodes.items() if name != oldest}


def pod_seen(state: CliqueState, event: DaemonPodSeen) -> CliqueState:
    """Take in a daemon pod."""
    if event.domain in state.domains_gone:
        return state
    membership = state.domains.get(event.domain, _NEW)
    known = membership.pods.get(event.uid)
    if known is not None:
        if known.resource_version >= event.resource_version:
            return state
    elif _buried_at(membership.tombstones, event.uid) > event.resource_version:
        return state  # As of its own version it only left this clique (`moved`), and is back.
    pod = Pod(
        event.uid,
        event.resource_version,
        event.node,
        event.ip,
        event.ready,
        event.terminating,
        event.reader,
        state.sequence if known is None else known.since,
    )
    tombstones = membership.tombstones
    if known is None and any(t.uid == event.uid for t in tombstones):
        tombstones = tuple(t for t in tombstones if t.uid != event.uid)
    changed = _membership(membership, pods={**membership.pods, event.uid: pod}, tombstones=tombstones)
    return _with_domain(state, event.domain, _life_ended(changed, pod))


def pod_gone(state: CliqueState, event: DaemonPodGone) -> CliqueState:
    """Take in that a daemon pod is gone, or that a row was proved to have none."""
    if event.domain in state.domains_gone:
        return state
    membership = state.domains.get(event.domain, _NEW)
    pods = membership.pods
    known = pods.get(event.uid)
    if event.uid:
        if known is not None and known.resource_version > event.resource_version:
            return state
        if known is not None:
            pods = pods.copy()
            del pods[event.uid]
        ip = (known.ip if known is not None else "") or _address_left(membership.cdc, pods, event)
    elif event.ip:
        ip = event.ip
    else:
        return state  # It does not say of which daemon.
    same = (event.uid, event.node, ip if not event.uid else "")
    kept = [t for t in membership.tombstones if (t.uid, t.node, t.ip if not t.uid else "") != same]
    stone = Tombstone(event.uid, event.resource_version, event.node, ip)
    changed = _membership(membership, pods=pods, tombstones=(*kept, stone)[-TOMBSTONES_MAX:])
    if known is not None:
        changed = _life_ended(changed, known)
    return _pruned(_with_domain(state, event.domain, changed), event.domain)


def _address_left(cdc: Cdc | None, pods: dict[str, Pod], event: DaemonPodGone) -> str:
    """Give the address in the row that a pod left which went before its own address was seen; empty if there is none.

    The row is its own if the CDC is not newer than the deletion: the next daemon came after it. Here alone the versions
    of two kinds are compared, which etcd counts in one row; where it does not, a complete list of pods tells.
    """
    row = cdc.rows.get(event.node) if cdc is not None else None
    if cdc is None or row is None or cdc.resource_version > event.resource_version:
        return ""
    return "" if any(pod.node == row.node and pod.ip == row.ip for pod in pods.values()) else row.ip


def _life_ended(membership: Membership, pod: Pod) -> Membership:
    """Note that no daemon uses the node's index any more, if this was its last pod that runs.

    The index stays the node's. But an upstream daemon's next life may choose another one before we write: then that
    one is in use, and ours is not. Our own daemons only read their row, so what the CDC shows holds for the next life.
    """
    holding = membership.holdings.get(pod.node)
    if pod.reader or holding is None or not holding.shown or _runs_on(membership, pod.node):
        return membership
    if pod.ip and holding.shown_to != pod.ip:
        return membership  # It was shown to the next life already, whose row came before this event.
    return _membership(membership, holdings={**membership.holdings, pod.node: replace(holding, shown_to=None)})


def _runs_on(membership: Membership, node: str) -> bool:
    return any(pod.node == node and not pod.terminating for pod in membership.pods.values())


def cdc_seen(state: CliqueState, event: CdcSeen) -> CliqueState:
    """Take in the rows of a CDC."""
    if event.domain in state.domains_gone:
        return state
    membership = state.domains.get(event.domain, _NEW)
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
    )
    holdings = membership.holdings
    changes = {
        node: replace(holding, shown_to=shown_to)
        for node, holding in holdings.items()
        if holding.active
        and node in rows
        and (shown_to := _shown_to(membership, holding, rows[node])) != holding.shown_to
    }
    if changes:
        holdings = {**holdings, **changes}
    tombstones = _with_addresses(membership, cdc)
    changed = _membership(
        membership, cdc=cdc, cdc_version=event.resource_version, holdings=holdings, tombstones=tombstones
    )
    return _pruned(_with_domain(state, event.domain, changed), event.domain)


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


def _shown_to(membership: Membership, holding: Holding, row: Row) -> str | None:
    """Give the address that the holding is shown to, now that its node's row is this one."""
    if row.index == holding.index and row.ip == holding.shown_to:
        return holding.shown_to  # the usual case, so it is asked before what must be searched for
    if row.index == holding.index:
        return holding.shown_to if _is_of_an_ended_life(membership, row) else row.ip
    if not holding.shown_to or holding.shown_to == row.ip or not row.ip:
        return holding.shown_to  # Nobody was shown it, or the row of the daemon that was is wrong.
    if row_is_dead(membership, row) or not chooses_itself(membership, row.node):
        return holding.shown_to
    return None  # The daemon of a new address runs with another index: the one that was shown ours is gone.


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
    changed = replace(membership, cdc=None, cdc_version=event.resource_version)
    return _pruned(_with_domain(state, event.domain, changed), event.domain)


def daemon_set_seen(state: CliqueState, event: DaemonSetSeen) -> CliqueState:
    """Take in the domain's DaemonSet."""
    if event.domain in state.domains_gone:
        return state
    membership = state.domains.get(event.domain, _NEW)
    if membership.daemon_set_version >= event.resource_version:
        return state
    daemon_set = DaemonSet(
        event.namespace, event.name, event.uid, event.resource_version, event.capacity, reader=event.reader
    )
    changed = replace(membership, daemon_set=daemon_set, daemon_set_version=event.resource_version)
    return _with_domain(state, event.domain, changed)


def daemon_set_gone(state: CliqueState, event: DaemonSetGone) -> CliqueState:
    """Take in that the domain's DaemonSet is gone."""
    membership = state.domains.get(event.domain)
    if membership is None or membership.daemon_set_version > event.resource_version:
        return state
    if membership.daemon_set is not None and _another(membership.daemon_set, event.uid):
        return state
    changed = replace(membership, daemon_set=None, daemon_set_version=event.resource_version)
    return _with_domain(state, event.domain, changed)


def domain_seen(state: CliqueState, event: DomainSeen) -> CliqueState:
    """Take in the ComputeDomain itself."""
    if event.uid in state.domains_gone:
        return state
    membership = state.domains.get(event.uid, _NEW)
    if membership.domain_version >= event.resource_version:
        return state
    changed = replace(membership, known=True, terminating=event.terminating, domain_version=event.resource_version)
    return _with_domain(state, event.uid, changed)


def domain_gone(state: CliqueState, event: DomainGone) -> CliqueState:
    """Take in that the ComputeDomain is gone: nothing of it is kept but its UID, which never comes back."""
    if event.uid in state.domains_gone:
        return state
    domains = {uid: membership for uid, membership in state.domains.items() if uid != event.uid}
    nodes = {name: replace(node, domain="") if node.domain == event.uid else node for name, node in state.nodes.items()}
    gone = (*state.domains_gone, event.uid)[-DOMAINS_GONE_MAX:]
    return replace(state, domains=domains, nodes=nodes, domains_gone=gone)


def _with_domain(state: CliqueState, domain: str, membership: Membership) -> CliqueState:
    return CliqueState(
        state.sequence, state.nodes, {**state.domains, domain: membership}, state.domains_gone, state.inadmissible
    )


def _membership(  # the hot path's replace(): half its time, checked by the type checker
    before: Membership,
    *,
    pods: dict[str, Pod] | None = None,
    cdc: Cdc | None = None,
    cdc_version: int | None = None,
    holdings: dict[str, Holding] | None = None,
    tombstones: tuple[Tombstone, ...] | None = None,
) -> Membership:
    return Membership(
        before.known,
        before.terminating,
        before.domain_version,
        before.daemon_set,
        before.daemon_set_version,
        before.pods if pods is None else pods,
        before.cdc if cdc is None else cdc,
        before.cdc_version if cdc_version is None else cdc_version,
        before.holdings if holdings is None else holdings,
        before.waiting,
        before.tombstones if tombstones is None else tombstones,
    )


def _buried_at(tombstones: tuple[Tombstone, ...], uid: str) -> int:
    """Give the newest version as of which the pod is known to be gone; -1 if it is not."""
    newest = -1
    for stone in tombstones:
        if stone.uid == uid and stone.resource_version > newest:
            newest = stone.resource_version
    return newest


def _pruned(state: CliqueState, domain: str) -> CliqueState:
    """Take nodes that are no longer members out of the line of those who wait."""
    membership = state.domains.get(domain)
    if membership is None or not membership.waiting:
        return state
    waiting = {node: since for node, since in membership.waiting.items() if is_member(state, domain, node)}
    if len(waiting) == len(membership.waiting):
        return state
    return _with_domain(state, domain, replace(membership, waiting=waiting))

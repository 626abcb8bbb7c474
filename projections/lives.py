"""Lives of daemons: how observations of their pods change what is known of a clique.

A daemon's life is a pod with an address; a restart in place gives the pod another one, and begins another life.
Invariant: the address of a life that is over is remembered, so that a row with it is known to be of nobody, and a late
event does not bring a pod back.
"""

from msgspec.structs import replace

from eventlog.events import DaemonPodGone, DaemonPodSeen
from projections.amend import NEW, amended, pruned, with_domain
from projections.clique import TOMBSTONES_MAX, Cdc, CliqueState, Membership, Pod, Tombstone


def pod_seen(state: CliqueState, event: DaemonPodSeen) -> CliqueState:
    """Take in a daemon pod."""
    if event.domain in state.domains_gone:
        return state
    membership = state.domains.get(event.domain, NEW)
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
    if known is not None and known.ip not in ("", event.ip):
        # The pod got a new sandbox: a row with the old address is of nobody, whatever becomes of the pod.
        tombstones = _buried(tombstones, Tombstone("", event.resource_version, event.node, known.ip))
    changed = amended(membership, pods={**membership.pods, event.uid: pod}, tombstones=tombstones)
    changed = _life_ended(changed, pod, event.resource_version) if pod.terminating else _outlived(changed, pod)
    return with_domain(state, event.domain, changed)


def pod_gone(state: CliqueState, event: DaemonPodGone) -> CliqueState:
    """Take in that a daemon pod is gone, or that a row was proved to have none."""
    if event.domain in state.domains_gone:
        return state
    membership = state.domains.get(event.domain, NEW)
    pods = membership.pods
    known = pods.get(event.uid)
    if event.uid:
        if known is not None and known.resource_version > event.resource_version:
            return state
        if known is not None:
            pods = pods.copy()
            del pods[event.uid]
        before = known.ip if known is not None else _address_buried(membership.tombstones, event.uid)
        ip = before or _address_left(membership.cdc, pods, event)
    elif event.ip:
        ip = event.ip
    else:
        return state  # It does not say of which daemon.
    stone = Tombstone(event.uid, event.resource_version, event.node, ip, inferred=bool(event.inferred))
    tombstones = _buried(membership.tombstones, stone)
    changed = amended(membership, pods=pods, tombstones=tombstones)
    if known is not None:
        changed = _life_ended(changed, known, event.resource_version)
    return pruned(with_domain(state, event.domain, changed), event.domain)


def _address_left(cdc: Cdc | None, pods: dict[str, Pod], event: DaemonPodGone) -> str:
    """Give the address in the row that a pod left which went before its own address was seen; empty if there is none.

    The row is its own if the CDC is not newer than the deletion: the next daemon came after it. Here alone the versions
    of two kinds are compared, which etcd counts in one row; where it does not, a complete list of pods tells.
    """
    row = cdc.rows.get(event.node) if cdc is not None else None
    if cdc is None or row is None or cdc.resource_version > event.resource_version:
        return ""
    return "" if any(pod.node == row.node and pod.ip == row.ip for pod in pods.values()) else row.ip


def _life_ended(membership: Membership, pod: Pod, version: int) -> Membership:
    """Note that the daemon of this pod uses the node's index no more, if it was the one that was shown it.

    The index stays the node's. But an upstream daemon's next life may choose another one before we write: then that
    one is in use, and ours is not. Our own daemons only read their row, so what the CDC shows holds for the next life.
    `version`: as of which the life is over.
    """
    holding = membership.holdings.get(pod.node)
    if pod.reader or holding is None or not holding.shown:
        return membership
    if pod.ip and holding.shown_to != pod.ip:
        return membership  # It was shown to the next life already, whose row came before this event.
    running = _running_at(membership, pod.node)
    if running and not pod.ip:
        return membership  # What has no address was shown nothing.
    if pod.ip in running and _shows(membership.cdc, pod.node, holding.index, version):
        return membership  # The next life got the same address, and this index as well.
    return amended(membership, holdings={**membership.holdings, pod.node: replace(holding, shown_to=None)})


def _outlived(membership: Membership, pod: Pod) -> Membership:
    """Note that the daemon which was shown the index is gone, if this pod has come since and has another address.

    The pod of that one need not have been seen. What the CDC showed as of an older version than this pod's was not for
    it, and two daemons of a domain do not run on one node.
    """
    holding = membership.holdings.get(pod.node)
    if pod.reader or holding is None or not holding.shown_to or holding.shown_to == pod.ip:
        return membership
    if membership.cdc_version > pod.resource_version or holding.shown_to in _running_at(membership, pod.node):
        return membership
    return amended(membership, holdings={**membership.holdings, pod.node: replace(holding, shown_to=None)})


def _running_at(membership: Membership, node: str) -> list[str]:
    """Give the addresses of the node's pods that run, some of them empty."""
    return [pod.ip for pod in membership.pods.values() if pod.node == node and not pod.terminating]


def _shows(cdc: Cdc | None, node: str, index: int, version: int) -> bool:
    """Say whether the CDC shows the node this index as of a later version than this one."""
    return cdc is not None and cdc.resource_version > version and node in cdc.rows and cdc.rows[node].index == index


def _buried(tombstones: tuple[Tombstone, ...], stone: Tombstone) -> tuple[Tombstone, ...]:
    """Give the tombstones with this one, in place of one of the same pod (without a pod: of the same address)."""
    same = (stone.uid, stone.node, stone.ip if not stone.uid else "")
    kept = [t for t in tombstones if (t.uid, t.node, t.ip if not t.uid else "") != same]
    return (*kept, stone)[-TOMBSTONES_MAX:]


def _address_buried(tombstones: tuple[Tombstone, ...], uid: str) -> str:
    """Give the address of a pod that is known to be gone; empty if it is not, or has none."""
    for stone in tombstones:
        if stone.uid == uid:
            return stone.ip
    return ""


def _buried_at(tombstones: tuple[Tombstone, ...], uid: str) -> int:
    """Give the newest version as of which the pod is known to be gone; -1 if it is not."""
    newest = -1
    for stone in tombstones:
        if stone.uid == uid and stone.resource_version > newest:
            newest = stone.resource_version
    return newest

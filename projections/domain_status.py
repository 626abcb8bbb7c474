"""The status of a ComputeDomain: Ready or not, and the nodes that it lists.

It is for people (rule 11), with one exception: upstream's kubelet plugin on a node without a fabric finds its node's
readiness nowhere else, since such nodes have no CDC. So a domain of more than `Settings.status_rows` rows lists only
those nodes. Their number is bounded as well, by LARGEST: an object beyond etcd's 1.5 MiB could not be written at all,
and then nobody would learn anything. Beyond it the Ready ones are listed, as they are what a workload waits for.
"""

from collections.abc import Iterable, Iterator
from operator import attrgetter

from msgspec.structs import replace

from eventlog.events import Condition, DomainNode, DomainSeen
from projections.buckets import items, values
from projections.conditions import TYPES
from projections.domain import DomainState
from projections.effects import Target, WriteStatus
from projections.owned import template_at
from projections.settings import Settings

LARGEST = 4000
"""Rows of a status at most: about 1 MB, at the 240 bytes that a row takes in the API with its share of managedFields
(upstream's mirror: 1.2 MB for 5,040 nodes)."""


def write_status(
    state: DomainState, domain: DomainSeen, settings: Settings, conditions: tuple[Condition, ...]
) -> Iterator[WriteStatus]:
    """Give the status write, if what should be shown differs from what the ComputeDomain was seen to show.

    `conditions` are all of ours; those of other types are somebody else's and stay. A condition keeps the time of its
    last transition for as long as its status stays.
    """
    status = "Ready" if is_ready(state, domain, settings) else "NotReady"
    nodes = listed_nodes(state, settings)
    ours = {one.type: one for one in domain.conditions if one.type in TYPES}
    theirs = tuple(one for one in domain.conditions if one.type not in TYPES)
    shown = tuple(replace(ours[kind], since="") for kind in sorted(ours))
    if (domain.status, _by_name(domain.nodes), shown) != (status, nodes, conditions):
        kept = [(one.type, ours[one.type].since) for one in conditions if _stays(one, ours.get(one.type))]
        since = (*kept, *((one.type, one.since) for one in theirs))
        target = Target("computedomains", domain.namespace, domain.name)
        every = (*conditions, *theirs)
        yield WriteStatus(target, state.uid, domain.resource_version, domain.uid, status, nodes, every, since)


def _stays(wanted: Condition, shown: Condition | None) -> bool:
    return shown is not None and shown.status == wanted.status


def is_ready(state: DomainState, domain: DomainSeen, settings: Settings) -> bool:
    """Tell whether the domain counts as Ready: enough rows, and none that is not Ready.

    So a domain with numNodes 0 and no row is Ready, as with upstream. Not Ready is one for whose workload template the
    name is taken or no name is given, since no workload of it can start.
    """
    workload = template_at(state, domain.namespace, domain.template)
    if not domain.template or (workload is not None and not workload.owned):
        return False
    if settings.host_managed:
        return True
    bare = _bare_nodes(state)
    if state.unready_rows or any(node.status != "Ready" for node in bare):
        return False
    if state.rows + len(bare) < domain.num_nodes:
        return False
    # A node that moved can have rows in two CDCs for a while, and counts once. Only a domain that asks for a number
    # and seems to have it pays for the count.
    return not domain.num_nodes or _node_count(state, bare) >= domain.num_nodes


def listed_nodes(state: DomainState, settings: Settings) -> tuple[DomainNode, ...]:
    """Give the nodes that the status lists, sorted by name, each once."""
    bare = _bare_nodes(state)
    few = state.rows + len(bare) <= settings.status_rows
    nodes = _once(_all_nodes(state) if few else bare)
    if len(nodes) <= LARGEST:
        return nodes
    return _by_name(sorted(nodes, key=lambda node: (node.status != "Ready", node.name))[:LARGEST])


def _node_count(state: DomainState, bare: list[DomainNode]) -> int:
    names = {row.node for cdcs in values(state.cdcs) for cdc in cdcs for row in cdc.rows}
    return len(names.union(node.name for node in bare))


def _all_nodes(state: DomainState) -> list[DomainNode]:
    rows = [
        DomainNode(row.node, row.ip, clique, -1 if row.index is None else row.index, _status(row.status == "Ready"))
        for clique, cdcs in items(state.cdcs)
        for cdc in cdcs
        for row in cdc.rows
    ]
    return rows + _bare_nodes(state)


def _bare_nodes(state: DomainState) -> list[DomainNode]:
    """Give one row for each node without a fabric whose daemon has an address.

    While a node's old pod is on its way out, the new one speaks for the node.
    """
    pods = [pod for pod in values(state.bare_pods) if pod.node and pod.ip]
    pods.sort(key=lambda pod: (not pod.terminating, pod.resource_version, pod.uid))
    return list({pod.node: DomainNode(pod.node, pod.ip, status=_status(pod.ready)) for pod in pods}.values())


def _status(ready: bool) -> str:
    return "Ready" if ready else "NotReady"


def _once(nodes: Iterable[DomainNode]) -> tuple[DomainNode, ...]:
    """Sort by name and keep one row per node, which the API demands; of several one that is not Ready.

    A workload that starts a moment late does less harm than one that starts because of another daemon's row.
    """
    by_name: dict[str, DomainNode] = {}
    for node in sorted(nodes, key=lambda node: (node.name, node.status == "Ready", node.clique, node.index, node.ip)):
        by_name.setdefault(node.name, node)
    return tuple(by_name.values())


def _by_name(nodes: Iterable[DomainNode]) -> tuple[DomainNode, ...]:
    return tuple(sorted(nodes, key=attrgetter("name")))

"""From Kubernetes objects to observations: what an object says, in the log's words.

Pure. What an object does not say by itself (the clique of a node that has no label) the normaliser adds.
"""

from collections.abc import Mapping

from eventlog.events import (
    CdcGone,
    CdcSeen,
    ClaimTemplateGone,
    ClaimTemplateSeen,
    Condition,
    DaemonPodGone,
    DaemonPodSeen,
    DaemonSetGone,
    DaemonSetSeen,
    DomainGone,
    DomainNode,
    DomainSeen,
    NodeGone,
    NodeSeen,
    Row,
)
from kube import objects
from kube.names import (
    CLIQUE_LABEL,
    DOMAIN_LABEL,
    NODE_CLIQUE_LABEL,
    POSITION_ANNOTATION,
    READER_LABEL,
    TARGET_LABEL,
    WAITING_ANNOTATION,
)
from projections.fold import is_clique, is_domain

Seen = NodeSeen | DaemonPodSeen | CdcSeen | DomainSeen | DaemonSetSeen | ClaimTemplateSeen
Gone = NodeGone | DaemonPodGone | CdcGone | DomainGone | DaemonSetGone | ClaimTemplateGone

CAPACITY_VARIABLE = "MAX_NODES_PER_IMEX_DOMAIN"
CAPACITY_MAX = 1000
"""The most that `--max-nodes-per-imex-domain` takes: what states more, or none at all, states nothing."""


def node(found: objects.Node) -> NodeSeen:
    """Read a node."""
    meta = found.metadata
    clique = _clique_label(meta, NODE_CLIQUE_LABEL) or ""
    return NodeSeen(meta.name, meta.uid, meta.resource_version, clique, meta.labels.get(DOMAIN_LABEL, ""))


def _clique_label(meta: objects.ObjectMeta, label: str) -> str | None:
    """Give the label's clique; None if there is none, or text that is no clique ID and so no key of one either."""
    clique = meta.labels.get(label)
    return clique if clique is None or clique == "" or is_clique(clique) else None


def daemon_pod(found: objects.Pod) -> DaemonPodSeen:
    """Read a daemon pod; it is `undecided` if it carries no clique label, which is not the same as an empty one."""
    meta = found.metadata
    clique = _clique_label(meta, CLIQUE_LABEL)
    return DaemonPodSeen(
        meta.labels.get(DOMAIN_LABEL, ""),
        found.spec.node_name,
        meta.namespace,
        meta.name,
        meta.uid,
        meta.resource_version,
        clique or "",
        found.status.pod_ip,
        ready=found.ready,
        terminating=meta.terminating,
        reader=READER_LABEL in meta.labels,
        undecided=clique is None,
    )


def cdc(found: objects.ComputeDomainClique) -> CdcSeen:
    """Read a CDC. Domain and clique are its labels, else the two halves of its name (`<domain UID>.<clique ID>`).

    Both are empty if that gives no clique ID, or if labels and name disagree: such an object is not one that daemons
    look at, since they go by the name, and it must not stand for the one that they do look at.
    """
    meta = found.metadata
    domain, _, clique = meta.name.partition(".")
    domain, clique = meta.labels.get(DOMAIN_LABEL, domain), _clique_label(meta, CLIQUE_LABEL) or clique
    if not is_clique(clique) or meta.name != f"{domain}.{clique}":
        domain = clique = ""
    rows = tuple(Row(row.node_name, row.ip_address, row.index, row.status) for row in found.daemons)
    waiting = meta.annotations.get(WAITING_ANNOTATION, "")
    return CdcSeen(
        domain,
        clique,
        meta.namespace,
        meta.name,
        meta.uid,
        meta.resource_version,
        rows,
        tuple(waiting.split(",")) if waiting else (),
        meta.annotations.get(POSITION_ANNOTATION, ""),
        terminating=meta.terminating,
    )


def domain(found: objects.ComputeDomain) -> DomainSeen:
    """Read a ComputeDomain; template and mode are empty if it has no spec."""
    meta = found.metadata
    channel = found.spec.channel if found.spec is not None else None
    return DomainSeen(
        meta.uid,
        meta.resource_version,
        meta.namespace,
        meta.name,
        channel.resource_claim_template.name if channel is not None else "",
        channel.allocation_mode if channel is not None else "",
        found.spec.num_nodes if found.spec is not None else 0,
        meta.terminating,
        meta.finalizers,
        found.status.status,
        tuple(_domain_node(entry) for entry in found.status.nodes),
        tuple(_condition(one) for one in found.status.conditions),
    )


def _condition(one: objects.Condition) -> Condition:
    return Condition(one.type, one.status, one.reason, one.message, one.last_transition_time)


def _domain_node(entry: objects.ComputeDomainNode) -> DomainNode:
    index = -1 if entry.index is None else entry.index
    return DomainNode(entry.name, entry.ip_address, entry.clique_id, index, entry.status)


def daemon_set(found: objects.DaemonSet) -> DaemonSetSeen:
    """Read a domain's DaemonSet; its capacity is what its pods are told of, 0 if that is not within 1..1000."""
    meta = found.metadata
    environment = {variable.name: variable.value for one in found.spec.template.spec.containers for variable in one.env}
    return DaemonSetSeen(
        meta.labels.get(DOMAIN_LABEL, ""),
        meta.uid,
        meta.resource_version,
        meta.namespace,
        meta.name,
        _capacity(environment.get(CAPACITY_VARIABLE, "")),
        READER_LABEL in found.spec.template.metadata.labels,
        meta.terminating,
        meta.finalizers,
    )


def _capacity(stated: str) -> int:
    # The length is looked at first because Python refuses to read a number of thousands of digits.
    if not (stated.isascii() and stated.isdigit()) or len(stated) > len(str(CAPACITY_MAX)):
        return 0
    capacity = int(stated)
    return capacity if capacity <= CAPACITY_MAX else 0


def claim_template(found: objects.ResourceClaimTemplate) -> ClaimTemplateSeen:
    """Read a claim template that carries a domain's label."""
    meta = found.metadata
    return ClaimTemplateSeen(
        meta.labels.get(DOMAIN_LABEL, ""),
        meta.labels.get(TARGET_LABEL, ""),
        meta.uid,
        meta.resource_version,
        meta.namespace,
        meta.name,
        terminating=meta.terminating,
        finalizers=meta.finalizers,
    )


def read(found: objects.KubeObject) -> Seen | None:
    """Read any watched object; None if it is of no domain.

    A label that cannot be a UID names none: anybody may set it, and as a key it could be taken for a clique's.
    """
    match found:
        case objects.Pod():
            seen: NodeSeen | DaemonPodSeen | CdcSeen | DaemonSetSeen | ClaimTemplateSeen = daemon_pod(found)
        case objects.Node():
            seen = node(found)
        case objects.ComputeDomainClique():
            seen = cdc(found)
        case objects.ComputeDomain():
            return domain(found) if is_domain(found.metadata.uid) else None
        case objects.DaemonSet():
            seen = daemon_set(found)
        case _:
            seen = claim_template(found)
    return seen if is_domain(seen.domain) else None


def gone(seen: Seen, version: int, *, cause: str, inferred: str) -> Gone:
    """Tell that the object is gone from where it was; `cause` is kept for nodes and pods."""
    match seen:
        case NodeSeen():
            return NodeGone(seen.name, seen.uid, version, cause, inferred)
        case DaemonPodSeen():
            return DaemonPodGone(seen.domain, seen.node, seen.uid, version, cause, inferred)
        case CdcSeen():
            return CdcGone(seen.domain, seen.clique, seen.uid, version, inferred)
        case DomainSeen():
            return DomainGone(seen.uid, version, inferred)
        case DaemonSetSeen():
            return DaemonSetGone(seen.domain, seen.uid, version, inferred)
        case ClaimTemplateSeen():
            return ClaimTemplateGone(seen.domain, seen.target, seen.uid, version, inferred)


KINDS: Mapping[type, str] = {
    NodeSeen: "nodes",
    DaemonPodSeen: "pods",
    CdcSeen: "computedomaincliques",
    DomainSeen: "computedomains",
    DaemonSetSeen: "daemonsets",
    ClaimTemplateSeen: "resourceclaimtemplates",
}
"""The plural of the kind that an observation is about."""

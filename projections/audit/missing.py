"""What a node that is not ready lacks: the first step missing, said in a sentence, and what to look at next.

One check a cause, in the order in which one rests on the other: a node without a label has no pod either, and the label
is what to mend. Codes are stable: scripts name them. They are listed in docs/why.md.
"""

import shlex
from collections.abc import Callable, Sequence

import msgspec

from projections.audit.finding import counted, seconds
from projections.audit.situation import Situation
from projections.clique import holders
from projections.desired import waiting_line
from projections.readiness import READY

CLIQUE_OF_NODE = "nvidia.com/gpu.clique"
DOMAIN_OF_NODE = "resource.nvidia.com/computeDomain"


class Missing(msgspec.Struct, frozen=True):
    """The missing step: its code, a sentence for people, and a command line of kubectl that shows more."""

    code: str
    sentence: str
    look_at: str


def missing_step(one: Situation) -> Missing:
    """Give the first step that the node lacks; it is not ready."""
    return next((found for check in CHECKS if (found := check(one)) is not None), _unexplained(one))


def kubectl(*words: str) -> str:
    """Give a command line that a shell takes as it is, whatever the names are."""
    return shlex.join(("kubectl", *words))


def _unknown(one: Situation) -> Missing | None:
    if one.trail is not None:
        return None
    sentence = f"no record speaks of {one.subject}: it is no node with a ComputeDomain's label, and no daemon pod"
    return Missing("unknown", sentence, kubectl("get", "node", one.subject, "-L", DOMAIN_OF_NODE))


def _domain_ends(one: Situation) -> Missing | None:
    seen, overall = one.seen, one.overall
    if seen is not None and seen.terminating:
        sentence = f"the ComputeDomain {one.domain_name} is being deleted, so no node joins it any more"
        return Missing("domain-terminating", sentence, _describe_domain(one))
    if overall is not None and seen is None and overall.gone_at is not None:
        sentence = f"the ComputeDomain {one.domain} is gone, so node {one.node} can be ready for none"
        return Missing("domain-gone", sentence, kubectl("get", "node", one.node, "-L", DOMAIN_OF_NODE))
    return None


def _no_domain(one: Situation) -> Missing | None:
    if one.seen is not None or one.membership.known or not one.decides:
        return None
    sentence = f"no ComputeDomain with the UID {one.domain} was seen, which the label of node {one.node} names"
    return Missing("domain-unknown", sentence, kubectl("get", "computedomains", "--all-namespaces"))


def _no_label(one: Situation) -> Missing | None:
    standing = one.standing
    if standing.joined is not None or standing.pod is not None or (standing.listed is not None and not standing.left):
        return None
    if not one.decides and one.trail is not None and not one.trail.was_labelled:
        return None  # A history that was imported without nodes tells of no label at all.
    sentence = (
        f"node {one.node} does not carry the ComputeDomain's label, which the kubelet plugin sets when a pod of the "
        "workload comes to the node"
    )
    return Missing("no-label", sentence, kubectl("get", "node", one.node, "-L", DOMAIN_OF_NODE))


def _no_clique(one: Situation) -> Missing | None:
    pod = one.daemon()
    if one.clique or (pod is not None and not pod.undecided):
        return None
    sentence = f"the clique of node {one.node} is not known: neither its label nor a daemon on it tells"
    return Missing("no-clique", sentence, kubectl("get", "node", one.node, "-L", CLIQUE_OF_NODE))


def _clique_full(one: Situation) -> Missing | None:
    if not one.standing.waits:
        return None
    place = waiting_line(one.membership).index(one.node) + 1
    held = counted(len(holders(one.membership)), "node")
    sentence = (
        f"clique {one.clique} is full: its indices are held by {held}, and node {one.node} is number {place} in "
        "the line for the first that frees"
    )
    return Missing("clique-full", sentence, _look_at_cdc(one))


def _no_index(one: Situation) -> Missing | None:
    if one.standing.index is not None or not one.clique or not one.decides:
        return None
    sentence = f"node {one.node} has no index yet: no decision of a controller that gives it one is in the log"
    return Missing("no-index", sentence, _describe_domain(one))


def _no_daemon_set(one: Situation) -> Missing | None:
    if one.standing.pod is not None or one.overall is None or one.overall.daemon_sets or not one.decides:
        return None
    sentence = f"the ComputeDomain {one.domain_name} has no DaemonSet, so no daemon can come to node {one.node}"
    return Missing("no-daemon-set", sentence, _describe_domain(one))


def _tells_of_no_pod(one: Situation) -> bool:
    """Say whether only rows tell of the node's daemon: a history that was imported may lack the pods."""
    trail = one.trail
    if one.decides or trail is None or trail.had_pod:
        return False
    return (one.standing.listed is not None and not one.standing.left) or trail.removal is not None


def _no_pod(one: Situation) -> Missing | None:
    if one.standing.pod is not None or _tells_of_no_pod(one):
        return None
    sentence = f"there is no daemon pod of the ComputeDomain {one.domain_name} on node {one.node}"
    sets = one.overall.daemon_sets if one.overall is not None else ()
    if not sets:
        selector = f"spec.nodeName={one.node}"
        return Missing("no-pod", sentence, kubectl("get", "pods", "--all-namespaces", f"--field-selector={selector}"))
    return Missing("no-pod", sentence, kubectl("describe", "daemonset", sets[0].name, "-n", sets[0].namespace))


def _pod_ends(one: Situation) -> Missing | None:
    pod = one.standing.pod
    if pod is None or not pod.terminating:
        return None
    sentence = f"the daemon pod on node {one.node} is being deleted, and there is no other"
    return Missing("pod-terminating", sentence, _describe_pod(one))


def _no_address(one: Situation) -> Missing | None:
    pod = one.standing.pod
    if pod is None or pod.ip:
        return None
    sentence = f"the daemon pod on node {one.node} has no address: the kubelet has not published one"
    return Missing("no-address", sentence, _describe_pod(one))


def _not_ready(one: Situation) -> Missing | None:
    pod, row = one.standing.pod, one.standing.listed
    if pod is None and row is not None and row.ip and row.status != READY and _tells_of_no_pod(one):
        if one.trail is not None and one.trail.refusal is not None:
            return None
        sentence = f"the row of node {one.node} says that its daemon is not ready: IMEX is not"
        return Missing("imex-not-ready", sentence, _look_at_cdc(one))
    if pod is None or pod.ready:
        return None
    if one.standing.listed is None or not (pod.reader or one.standing.has_row()):
        return None  # Without its row no daemon gets ready; one of the upstream driver writes it with its address.
    sentence = f"the daemon on node {one.node} runs and is not ready: IMEX is not"
    found = one.daemon()
    look_at = kubectl("logs", found.name, "-n", found.namespace) if found is not None else _describe_pod(one)
    return Missing("imex-not-ready", sentence, look_at)


def _row_not_written(one: Situation) -> Missing | None:
    """Say what of the row is not as it should be, and what its write waits for."""
    pod, row = one.standing.pod, one.standing.listed
    removal = one.trail.removal if one.trail is not None else None
    if row is None and removal is not None:
        by = f" by {removal.writer}" if removal.writer else ""
        ago = seconds(one.at_ms - removal.time_ms)
        lived = ", while its daemon lived" if pod is not None else ""
        sentence = f"the row of node {one.node} was taken out{by} {ago} before{lived}"
        return Missing("row-removed", f"{sentence} (record {removal.evidence.position})", _look_at_cdc(one))
    if row is None or not row.ip:
        what = f"the row of node {one.node} is not written"
    elif not one.standing.has_row():
        what = f"the row of node {one.node} shows {row.ip}, the address of an earlier daemon"
    elif one.standing.index is not None and row.index not in {one.standing.index, -1}:
        what = f"the row of node {one.node} shows index {row.index}, and {one.standing.index} is the node's"
    elif pod is None or pod.ready:
        what = f"the row of node {one.node} is not Ready"
    else:
        return None
    code, why = _delay(one)
    return Missing(code, f"{what}{why}", _look_at_cdc(one))


def _delay(one: Situation) -> tuple[str, str]:
    if one.pending is not None:
        return f"write-{one.pending.delay}", f": {_pending(one)}"
    refusal = one.trail.refusal if one.trail is not None else None
    if refusal is None:
        return "row-not-written", ""
    asked = f", which asked for {counted(refusal.retry_after_s, 'second')} of pause" if refusal.retry_after_s else ""
    writes = counted(refusal.count, "write")
    why = f": the API server refused {writes}, the last with {refusal.code}{asked}"
    return ("write-throttled" if refusal.code == 429 else "write-refused"), why


def _pending(one: Situation) -> str:
    if one.pending is None:
        return ""
    wait = seconds(round(one.pending.wait_s * 1000))
    match one.pending.delay:
        case "in-flight":
            return "its write is on the way"
        case "held":
            return f"the watch has not shown the write before; the object is read anew in {wait}"
        case "paced":
            return f"its write waits {wait} for company"
        case "backing-off":
            return f"the write before failed; the next try is in {wait}"
        case "throttled":
            return f"writes wait {wait} for the API server's throttling, or for the controller's own ceiling"
        case "futile":
            return "the API server took the write for no change"
        case _:
            return "its write is due, and others go first"


def _unexplained(one: Situation) -> Missing:
    sentence = f"the row of node {one.node} is not written: its daemon has not asked for one"
    return Missing("row-not-written", sentence, _look_at_cdc(one))


def _describe_domain(one: Situation) -> str:
    if one.seen is None:
        return kubectl("get", "computedomains", "--all-namespaces")
    return kubectl("describe", "computedomain", one.seen.name, "-n", one.seen.namespace)


def _describe_pod(one: Situation) -> str:
    pod = one.daemon()
    if pod is None:
        return kubectl("get", "pods", "--all-namespaces", f"--field-selector=spec.nodeName={one.node}")
    return kubectl("describe", "pod", pod.name, "-n", pod.namespace)


def _look_at_cdc(one: Situation) -> str:
    cdc = one.membership.cdc
    if cdc is None and not one.clique:
        return _describe_domain(one)
    if cdc is None:
        return kubectl("get", "computedomaincliques", "--all-namespaces", "-l", f"{DOMAIN_OF_NODE}={one.domain}")
    return kubectl("get", "computedomainclique", cdc.name, "-n", cdc.namespace, "-o", "yaml")


CHECKS: Sequence[Callable[[Situation], Missing | None]] = (
    _unknown,
    _domain_ends,
    _no_domain,
    _no_label,
    _no_clique,
    _clique_full,
    _no_index,
    _no_daemon_set,
    _no_pod,
    _pod_ends,
    _no_address,
    _not_ready,
    _row_not_written,
)
"""In the order in which one step rests on the other."""

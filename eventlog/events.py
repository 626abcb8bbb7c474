"""The closed union of events: all that the log can say.

Three families. *Observations* tell what a watch or a list showed of a Kubernetes object, each with the object's UID
and resourceVersion, which is how the fold tells old from new; and, in a history that was imported, how a write was
answered. *Visibility marks* tell where the view of the cluster was
complete, and where it had a gap. *Decisions* tell what a controller proposes for an index; a decision takes effect only
when the fold finds it admissible at its place in the log. They hold what the fold needs and no more.

Rules of evolution: a new field has a default; no field changes its type or meaning; a tag is never used again for
something else. What breaks these needs a new schema version and an upcaster in `eventlog.codec`.

`resource_version` is an int: Kubernetes >= 1.35 promises that the versions of one resource compare as integers
(KEP-5504), and etcd-backed servers have always given such. `inferred` is empty for what was seen, else the reason why
it is concluded (rule 4: a complete relist that lacks the object).
"""

import msgspec

from eventlog.event import Event, Told


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of `daemons` in a ComputeDomainClique, as observed or as wanted.

    `index` is None where the writer left it out: unknown, not 0 (failure case A61). `status` is `Ready` or `NotReady`.
    """

    node: str
    ip: str = ""
    index: int | None = None
    status: str = "NotReady"


# --- observations -------------------------------------------------------------------------------------------------


class NodeSeen(Told, frozen=True, tag="node-seen"):
    """A node that carries a ComputeDomain label. `domain` is the label's value (a CD's UID), `clique` its clique ID."""

    name: str
    uid: str
    resource_version: int
    clique: str = ""
    domain: str = ""


class NodeGone(Told, frozen=True, tag="node-gone"):
    """A node that was deleted, lost its ComputeDomain label, or left this key's clique or domain (`cause` says which).

    `cause` is `unlabelled or deleted` (a watch by label does not tell which) or `moved`.
    """

    name: str
    uid: str
    resource_version: int
    cause: str = "deleted"
    inferred: str = ""


class DaemonPodSeen(Told, frozen=True, tag="daemon-pod-seen"):
    """A daemon pod of a domain on a node.

    `ip` is empty until the kubelet has published it: pending, not gone. `clique` is the clique that the pod's records
    go to: the pod's own label, else its node's; empty for a node without a fabric. `undecided` says that neither has
    told yet, so that the pod is only known to exist (failure cases A11, A20). `reader` says that the daemon reads
    its index from its row and never writes one (our own daemon).
    """

    domain: str
    node: str
    namespace: str
    name: str
    uid: str
    resource_version: int
    clique: str = ""
    ip: str = ""
    ready: bool = False
    terminating: bool = False
    reader: bool = False
    undecided: bool = False


class DaemonPodGone(Told, frozen=True, tag="daemon-pod-gone"):
    """A daemon pod that was deleted, or that left this key's clique (`cause`: `deleted` or `moved`).

    An empty `uid` stands for a pod that nobody saw: the daemon with the address `ip`, whose row on that node a complete
    relist of pods proved to be orphaned (the row was there before the list began, and the list holds no pod for it).
    """

    domain: str
    node: str
    uid: str
    resource_version: int
    cause: str = "deleted"
    inferred: str = ""
    ip: str = ""


class CdcSeen(Told, frozen=True, tag="cdc-seen"):
    """A ComputeDomainClique object (CDC): the rows of one domain in one clique.

    `position` is the log position in our annotation, empty if the last writer was not ours; `waiting` the nodes that
    the object names as waiting for a slot.
    """

    domain: str
    clique: str
    namespace: str
    name: str
    uid: str
    resource_version: int
    rows: tuple[Row, ...] = ()
    waiting: tuple[str, ...] = ()
    position: str = ""
    terminating: bool = False


class CdcGone(Told, frozen=True, tag="cdc-gone"):
    """A ComputeDomainClique object was deleted."""

    domain: str
    clique: str
    uid: str
    resource_version: int
    inferred: str = ""


class DomainNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of `status.nodes` of a ComputeDomain."""

    name: str
    ip: str = ""
    clique: str = ""
    index: int = -1
    status: str = "NotReady"


class Condition(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of a ComputeDomain's conditions; `status` is `True` or `False`, `since` its lastTransitionTime (RFC 3339)."""

    type: str
    status: str
    reason: str
    message: str = ""
    since: str = ""


class DomainSeen(Told, frozen=True, tag="domain-seen"):
    """A ComputeDomain. `template` is the workload claim template's name; empty together with `mode` if spec is absent.

    `mode` is `spec.channel.allocationMode`. `status` is `status.status`, empty before the first status write.
    """

    uid: str
    resource_version: int
    namespace: str
    name: str
    template: str = ""
    mode: str = ""
    num_nodes: int = 0
    terminating: bool = False
    finalizers: tuple[str, ...] = ()
    status: str = ""
    nodes: tuple[DomainNode, ...] = ()
    conditions: tuple[Condition, ...] = ()


class DomainGone(Told, frozen=True, tag="domain-gone"):
    """A ComputeDomain was deleted."""

    uid: str
    resource_version: int
    inferred: str = ""


class DaemonSetSeen(Told, frozen=True, tag="daemon-set-seen"):
    """A domain's DaemonSet. `capacity` is the most daemons of one clique that its pods were told of (0: not stated)."""

    domain: str
    uid: str
    resource_version: int
    namespace: str
    name: str
    capacity: int = 0
    reader: bool = False
    terminating: bool = False
    finalizers: tuple[str, ...] = ()


class DaemonSetGone(Told, frozen=True, tag="daemon-set-gone"):
    """A domain's DaemonSet was deleted."""

    domain: str
    uid: str
    resource_version: int
    inferred: str = ""


class ClaimTemplateSeen(Told, frozen=True, tag="claim-template-seen"):
    """A ResourceClaimTemplate that bears a name which the domain needs.

    `target` is `Daemon` or `Workload`. `owned` is false for an object that carries somebody else's label or none: the
    name is taken.
    """

    domain: str
    target: str
    uid: str
    resource_version: int
    namespace: str
    name: str
    owned: bool = True
    terminating: bool = False
    finalizers: tuple[str, ...] = ()


class ClaimTemplateGone(Told, frozen=True, tag="claim-template-gone"):
    """A ResourceClaimTemplate was deleted."""

    domain: str
    target: str
    uid: str
    resource_version: int
    inferred: str = ""


class WriteAnswered(Told, frozen=True, tag="write-answered"):
    """The API server's answer to a write, as an audit log tells it: a refusal, or a write whose content the log lacks.

    `code` is the HTTP status. `node` is the node whose row the write was to change, empty if the log does not tell;
    `retry_after_s` the wait that the server asked for.
    """

    domain: str
    resource: str
    namespace: str
    name: str
    verb: str
    code: int
    clique: str = ""
    node: str = ""
    retry_after_s: int = 0


# --- visibility marks ---------------------------------------------------------------------------------------------


class RelistBegan(Event, frozen=True, tag="relist-began"):
    """A complete list of a resource was asked for; `cause` says why (`start`, `expired`, `stalled`, ...)."""

    resource: str
    cause: str


class RelistCompleted(Event, frozen=True, tag="relist-completed"):
    """The list is complete as of `resource_version`; every deletion that it proves is in the log before this mark."""

    resource: str
    resource_version: int
    objects: int


class ViewCompleted(Event, frozen=True, tag="view-completed"):
    """All that the first complete lists of the controller `observer` brought to this partition is in the log before.

    It is appended to each partition once in an observer's life, where the processes that write do not all observe.
    """

    observer: str


class WatchGap(Told, frozen=True, tag="watch-gap"):
    """Watch events may have been missed since `resource_version`; a relist follows. `cause` in one sentence."""

    resource: str
    resource_version: int
    cause: str


class ImportCompleted(Event, frozen=True, tag="import-completed"):
    """All that the inputs of an import told is in the log, up to this record's time; without it the import broke off.

    `lines` were read and `not_understood` of them passed over; `version` is that of the program.
    """

    inputs: tuple[str, ...]
    lines: int
    not_understood: int
    version: str


# --- decisions ----------------------------------------------------------------------------------------------------


class IndexAssigned(Event, frozen=True, tag="index-assigned"):
    """Proposal: the node gets this index in its clique. `capacity` bounds the index; `cause` is for people."""

    domain: str
    node: str
    index: int
    capacity: int
    cause: str = ""


class IndexAdopted(Event, frozen=True, tag="index-adopted"):
    """Proposal: the row that another writer placed stands, with its index."""

    domain: str
    node: str
    index: int
    capacity: int


class IndexReleased(Event, frozen=True, tag="index-released"):
    """Proposal: the node is no longer a member; its index stays remembered for it."""

    domain: str
    node: str
    index: int
    cause: str = ""


class IndexRefused(Event, frozen=True, tag="index-refused"):
    """Proposal: the clique is full; the node waits in line for the first slot that frees."""

    domain: str
    node: str
    capacity: int


class ControllerStarted(Event, frozen=True, tag="controller-started"):
    """A controller began to append: who, which version, with which settings."""

    identity: str
    version: str
    settings: dict[str, str]


Observation = (
    NodeSeen
    | NodeGone
    | DaemonPodSeen
    | DaemonPodGone
    | CdcSeen
    | CdcGone
    | DomainSeen
    | DomainGone
    | DaemonSetSeen
    | DaemonSetGone
    | ClaimTemplateSeen
    | ClaimTemplateGone
    | WriteAnswered
)
Mark = RelistBegan | RelistCompleted | ViewCompleted | WatchGap | ImportCompleted
Decision = IndexAssigned | IndexAdopted | IndexReleased | IndexRefused
AnyEvent = Observation | Mark | Decision | ControllerStarted

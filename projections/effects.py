"""Effects: the writes that the folded state calls for.

An effect is level-based: it says what an object should be, computed from what the object was seen to be, so only the
newest one per object matters and any of them may be dropped. `target` is the object: at most one effect per target is
wanted at a time. `resource_version` is the version that the effect was computed from (0: the object was not there), and
becomes the write's precondition (rule 8).
"""

import msgspec

from eventlog.events import Condition, DomainNode, Row


class Target(msgspec.Struct, frozen=True, order=True):
    """An object in the API: `resource` is the plural of its kind; `namespace` is empty for nodes."""

    resource: str
    namespace: str
    name: str


class Effect(msgspec.Struct, frozen=True, tag_field="type"):
    """Base of all effects. `domain` is the UID of the ComputeDomain that it serves."""

    target: Target
    domain: str
    resource_version: int


class OwnerRef(msgspec.Struct, frozen=True):
    """An owner in the object's own namespace."""

    kind: str
    name: str
    uid: str


class WriteCdc(Effect, frozen=True, tag="write-cdc"):
    """Create the CDC (`uid` empty) or replace its rows and the list of those who wait.

    `complete` says that it brings the last of what a gang waits for, so that nobody gains by waiting for more; `early`
    that it only adds rows without an address, whose daemons do not run yet, so that nobody waits for it. `rows` are
    sorted by index, rows that another writer placed and that are not ours to judge included.
    """

    clique: str
    uid: str
    rows: tuple[Row, ...]
    waiting: tuple[str, ...] = ()
    owner: OwnerRef | None = None
    complete: bool = False
    early: bool = False


class WriteStatus(Effect, frozen=True, tag="write-status"):
    """Replace the ComputeDomain's status: `status` is `Ready` or `NotReady`.

    `since` names the conditions whose status is as it was seen, each with the lastTransitionTime (RFC 3339) that was
    seen with it, as (type, time); every other condition gets the time of the write.
    """

    uid: str
    status: str
    nodes: tuple[DomainNode, ...] = ()
    conditions: tuple[Condition, ...] = ()
    since: tuple[tuple[str, str], ...] = ()


class SetFinalizers(Effect, frozen=True, tag="set-finalizers"):
    """Replace the object's finalizers."""

    uid: str
    finalizers: tuple[str, ...]


class CreateDaemonSet(Effect, frozen=True, tag="create-daemon-set"):
    """Create the domain's DaemonSet."""


class CreateClaimTemplate(Effect, frozen=True, tag="create-claim-template"):
    """Create a claim template; `purpose` is `Daemon` or `Workload`, `mode` the channel's allocation mode."""

    purpose: str
    mode: str = ""


class DeleteObject(Effect, frozen=True, tag="delete-object"):
    """Delete the object, if it still has this UID."""

    uid: str


class UnlabelNode(Effect, frozen=True, tag="unlabel-node"):
    """Take the domain's label off a node, if it still carries it."""

    uid: str


class PostEvent(Effect, frozen=True, tag="post-event"):
    """Tell people, with a Kubernetes Event on the ComputeDomain. The target's name makes it one Event per cause.

    `namespace` of the target is the ComputeDomain's; `regarding` its name. Level-based as well: wanted while its
    reason lasts; who sends it does so once.
    """

    regarding: str
    reason: str
    message: str


AnyEffect = (
    WriteCdc
    | WriteStatus
    | SetFinalizers
    | CreateDaemonSet
    | CreateClaimTemplate
    | DeleteObject
    | UnlabelNode
    | PostEvent
)

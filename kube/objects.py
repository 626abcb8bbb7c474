"""Slim structs for the Kubernetes objects that cliquelog reads: the fields that are used, and no more.

Problem: the client library's model classes cost 180 times as much as these to decode, and cannot say which fields
matter. Invariant: a field that is used has its type checked when it is decoded; a field that is not named here is
skipped, so a newer API server or a foreign writer breaks nothing. Reason for the defaults: the API server leaves empty
fields out, and an object that a person or an older driver wrote may lack more (failure case A61: a row without `index`
is unknown, not 0).

Names are the API's in snake case. Sources: the Kubernetes API reference; the CRDs of resource.nvidia.com/v1beta1.
"""

from typing import Annotated

import msgspec

from kube import names
from kube.client import Resource

Version = Annotated[str, msgspec.Meta(pattern=r"\A[0-8]?[0-9]{1,18}\Z")]
"""A resourceVersion: a decimal integer, which the API writes as a string.

KEP-5504 allows for 128 bits. On etcd it is a revision, of 63 bits, and a snapshot keeps no more: what is not below
9 * 10**18 is refused here, where the object can be named.
"""


Integer = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""An integer as the API has them: of 64 bits. A server never sends a larger one, but a file may hold it."""


class Struct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of the structs: immutable, camelCase on the wire, defaults left out when encoded."""


class ObjectMeta(Struct, frozen=True):
    """What all objects have. Use `resource_version` to compare and `version` to send.

    `generation` counts the changes of what is wanted, 0 if the server does not count them for the kind.
    """

    name: str
    uid: str
    version: Version = msgspec.field(name="resourceVersion")
    namespace: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    generation: Integer = 0

    @property
    def resource_version(self) -> int:
        """The resourceVersion as a number: within one kind a greater one is newer (KEP-5504)."""
        return int(self.version)

    @property
    def terminating(self) -> bool:
        """Whether the object's deletion was asked for."""
        return self.deletion_timestamp is not None


class Node(Struct, frozen=True):
    """A node; the labels say its domain and its clique."""

    metadata: ObjectMeta


class PodSpec(Struct, frozen=True):
    """Where the pod runs; `node_name` is empty until it is scheduled."""

    node_name: str = ""


class PodCondition(Struct, frozen=True):
    """One of a pod's conditions; `status` is `True`, `False` or `Unknown`."""

    type: str
    status: str


class PodStatus(Struct, frozen=True):
    """How the pod is; `pod_ip` is empty until the kubelet has published it."""

    phase: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    conditions: tuple[PodCondition, ...] = ()


class Pod(Struct, frozen=True):
    """A pod."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def ready(self) -> bool:
        """Whether the pod runs and its Ready condition is true."""
        return self.status.phase == "Running" and PodCondition("Ready", "True") in self.status.conditions


class ClaimTemplateName(Struct, frozen=True):
    """The name of the workload's claim template."""

    name: str


class Channel(Struct, frozen=True):
    """The channel that a domain's workload claims; `allocation_mode` is `Single` or `All`."""

    resource_claim_template: ClaimTemplateName
    allocation_mode: str = "Single"


class ComputeDomainSpec(Struct, frozen=True):
    """What a domain's user wants."""

    channel: Channel | None = None
    num_nodes: Integer = 0


class ComputeDomainNode(Struct, frozen=True):
    """One entry of a ComputeDomain's `status.nodes`; `index` is -1 for a node without a fabric, None if left out."""

    name: str
    ip_address: str = ""
    clique_id: str = msgspec.field(name="cliqueID", default="")
    index: Integer | None = None
    status: str = "NotReady"


class Condition(Struct, frozen=True):
    """One of an object's conditions."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class ComputeDomainStatus(Struct, frozen=True):
    """The summary for people; `status` is empty before it was first written."""

    status: str = ""
    nodes: tuple[ComputeDomainNode, ...] = ()
    conditions: tuple[Condition, ...] = ()


class ComputeDomain(Struct, frozen=True):
    """A ComputeDomain. The API server accepts one without a spec."""

    metadata: ObjectMeta
    spec: ComputeDomainSpec | None = None
    status: ComputeDomainStatus = ComputeDomainStatus()


class DaemonRow(Struct, frozen=True):
    """One entry of `daemons`; `index` is None where the writer left it out: unknown, not 0 (failure case A61)."""

    node_name: str
    ip_address: str = ""
    clique_id: str = msgspec.field(name="cliqueID", default="")
    index: Integer | None = None
    status: str = "NotReady"


class ComputeDomainClique(Struct, frozen=True):
    """A ComputeDomainClique (CDC): the daemons of one domain in one clique. It has neither spec nor status."""

    metadata: ObjectMeta
    daemons: tuple[DaemonRow, ...] = ()


class EnvVar(Struct, frozen=True):
    """An environment variable of a container; `value` is empty if it comes from elsewhere."""

    name: str
    value: str = ""


class Container(Struct, frozen=True):
    """A container of a pod template."""

    name: str
    env: tuple[EnvVar, ...] = ()


class PodTemplateMeta(Struct, frozen=True):
    """What the pods of a template are born with."""

    labels: dict[str, str] = {}


class PodTemplatePodSpec(Struct, frozen=True):
    """The containers of a pod template."""

    containers: tuple[Container, ...] = ()


class PodTemplate(Struct, frozen=True):
    """The template of a DaemonSet's pods."""

    metadata: PodTemplateMeta = PodTemplateMeta()
    spec: PodTemplatePodSpec = PodTemplatePodSpec()


class DaemonSetSpec(Struct, frozen=True):
    """What a DaemonSet runs."""

    template: PodTemplate = PodTemplate()


class DaemonSet(Struct, frozen=True):
    """A DaemonSet."""

    metadata: ObjectMeta
    spec: DaemonSetSpec = DaemonSetSpec()


class ResourceClaimTemplate(Struct, frozen=True):
    """A claim template; its labels say whose it is."""

    metadata: ObjectMeta


KubeObject = Node | Pod | ComputeDomain | ComputeDomainClique | DaemonSet | ResourceClaimTemplate
"""The kinds that can be read."""


def type_of(resource: Resource) -> type[KubeObject]:
    """Give the struct of a kind; KeyError for a kind that cliquelog does not read."""
    types: dict[Resource, type[KubeObject]] = {
        names.NODES: Node,
        names.PODS: Pod,
        names.COMPUTE_DOMAINS: ComputeDomain,
        names.CDCS: ComputeDomainClique,
        names.DAEMON_SETS: DaemonSet,
        names.CLAIM_TEMPLATES: ResourceClaimTemplate,
    }
    return types[resource]


def object_decoder(resource: Resource) -> msgspec.json.Decoder[KubeObject]:
    """Give the decoder of one object of a kind."""
    return msgspec.json.Decoder(type_of(resource))

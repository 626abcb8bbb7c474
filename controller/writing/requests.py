"""Rendering: from an effect to the one request that carries it out.

Pure. Each write states what it was computed from, so that the API server refuses it when the object has moved on
(rule 8): a resourceVersion in merge patches; the UID in deletions; for a node, whose resourceVersion changes with
every heartbeat, its UID and the very label value that goes. Each names its place in the log in an annotation, except
where the API gives it no room: the status subresource ignores metadata, and a node is not ours to annotate.
"""

import datetime
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Literal, assert_never

import msgspec

from eventlog.events import Condition, DomainNode, Row
from kube.client import Resource
from kube.names import (
    CDCS,
    CLAIM_TEMPLATES,
    CLIQUE_LABEL,
    COMPUTE_DOMAINS,
    DAEMON_SETS,
    DOMAIN_LABEL,
    EVENTS,
    NODES,
    POSITION_ANNOTATION,
    WAITING_ANNOTATION,
)
from projections.effects import (
    AnyEffect,
    CreateClaimTemplate,
    CreateDaemonSet,
    DeleteObject,
    OwnerRef,
    PostEvent,
    SetFinalizers,
    UnlabelNode,
    WriteCdc,
    WriteStatus,
)

RESOURCES = MappingProxyType(
    {one.plural: one for one in (CDCS, CLAIM_TEMPLATES, COMPUTE_DOMAINS, DAEMON_SETS, EVENTS, NODES)}
)
"""The kinds that effects are about, by their plural."""
OWNERS = MappingProxyType({"DaemonSet": "apps/v1", "Pod": "v1", "ComputeDomain": COMPUTE_DOMAINS.api_version})
"""API versions of the kinds that may own a CDC."""
MESSAGE_LIMIT = 1024
"""Characters of an Event's message; the API server refuses more in the newer form, and people read less."""

Json = dict[str, Any]
Manifest = Callable[[CreateDaemonSet | CreateClaimTemplate], Json]
"""Gives the body of an object that the domain needs; the position is added here."""


class Request(msgspec.Struct, frozen=True):
    """A request, ready to send. `kind` is the patch's (`merge`, `json`); `uid` a deletion's precondition."""

    method: Literal["create", "patch", "delete"]
    resource: Resource
    namespace: str
    name: str
    body: bytes = b""
    kind: str = ""
    subresource: str = ""
    uid: str = ""


class Renderer:
    """Renders effects for one controller: `identity` is the instance that its Events name, `manifest` makes bodies."""

    def __init__(self, identity: str, manifest: Manifest) -> None:
        self._identity = identity
        self._manifest = manifest

    def __call__(self, effect: AnyEffect, position: str, now_ms: int) -> Request:
        """Give the request; `position` is `<partition>/<offset>`, `now_ms` Unix time for what people read."""
        match effect:
            case WriteCdc(uid=""):
                request = _create(effect, _new_cdc(effect), position)
            case WriteCdc():
                request = _merge(effect, _cdc_patch(effect, position))
            case WriteStatus():
                request = _merge(effect, {"status": _status(effect, _rfc3339(now_ms))}, "status")
            case SetFinalizers():
                request = _merge(effect, _finalizers_patch(effect, position))
            case CreateDaemonSet() | CreateClaimTemplate():
                request = _create(effect, self._manifest(effect), position)
            case DeleteObject():
                request = _request("delete", effect, uid=effect.uid)
            case UnlabelNode():
                request = _request("patch", effect, body=_unlabel(effect), kind="json")
            case PostEvent():
                request = _create(effect, self._event(effect, now_ms), position)
            case _:
                assert_never(effect)
        return request

    def _event(self, effect: PostEvent, now_ms: int) -> Json:
        """Give a core/v1 Event in its older form, without `eventTime`: the form that `kubectl describe` dates."""
        time = _rfc3339(now_ms)
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": effect.target.name, "namespace": effect.target.namespace},
            "involvedObject": {
                "apiVersion": COMPUTE_DOMAINS.api_version,
                "kind": COMPUTE_DOMAINS.kind,
                "namespace": effect.target.namespace,
                "name": effect.regarding,
                "uid": effect.domain,
            },
            "type": "Warning",
            "reason": effect.reason,
            "message": effect.message[:MESSAGE_LIMIT],
            "action": "Reconcile",
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
            "source": {"component": "cliquelog"},
            "reportingComponent": "cliquelog.dev/controller",
            "reportingInstance": self._identity,
        }


def _request(
    method: Literal["create", "patch", "delete"],
    effect: AnyEffect,
    *,
    body: bytes = b"",
    kind: str = "",
    subresource: str = "",
    uid: str = "",
) -> Request:
    target = effect.target
    return Request(method, RESOURCES[target.resource], target.namespace, target.name, body, kind, subresource, uid)


def _create(effect: AnyEffect, body: Json, position: str) -> Request:
    metadata = body["metadata"]
    annotations = {**metadata.get("annotations", {}), POSITION_ANNOTATION: position}
    stamped = {**body, "metadata": {**metadata, "annotations": annotations}}
    return _request("create", effect, body=msgspec.json.encode(stamped))


def _merge(effect: AnyEffect, patch: Json, subresource: str = "") -> Request:
    metadata = {**patch.get("metadata", {}), "resourceVersion": str(effect.resource_version)}
    body = msgspec.json.encode({**patch, "metadata": metadata})
    return _request("patch", effect, body=body, kind="merge", subresource=subresource)


def _new_cdc(effect: WriteCdc) -> Json:
    metadata: Json = {
        "name": effect.target.name,
        "namespace": effect.target.namespace,
        "labels": {DOMAIN_LABEL: effect.domain, CLIQUE_LABEL: effect.clique},
    }
    if effect.owner is not None:
        metadata["ownerReferences"] = [_owner(effect.owner)]
    if effect.waiting:
        metadata["annotations"] = {WAITING_ANNOTATION: ",".join(effect.waiting)}
    return {
        "apiVersion": CDCS.api_version,
        "kind": CDCS.kind,
        "metadata": metadata,
        "daemons": [_row(row, effect.clique) for row in effect.rows],
    }


def _cdc_patch(effect: WriteCdc, position: str) -> Json:
    waiting = ",".join(effect.waiting) or None  # null takes the annotation off
    return {
        "metadata": {"annotations": {POSITION_ANNOTATION: position, WAITING_ANNOTATION: waiting}},
        "daemons": [_row(row, effect.clique) for row in effect.rows],
    }


def _row(row: Row, clique: str) -> Json:
    """Give a row with every field, since a list in a merge patch replaces the whole list.

    An index that its writer left out stays out: written as 0 it would claim the place of another (failure case A61).
    """
    index = {} if row.index is None else {"index": row.index}
    return {"nodeName": row.node, "ipAddress": row.ip, "cliqueID": clique, **index, "status": _ready(row.status)}


def _ready(status: str) -> str:
    """Give one of the two values that the CRD's enum allows; anything else, and empty, is not ready (case A36)."""
    return "Ready" if status == "Ready" else "NotReady"


def _owner(owner: OwnerRef) -> Json:
    if owner.kind not in OWNERS:
        raise ValueError(f"no API version is known for an owner of kind {owner.kind!r}; add it to OWNERS")
    return {"apiVersion": OWNERS[owner.kind], "kind": owner.kind, "name": owner.name, "uid": owner.uid}


def _status(effect: WriteStatus, now: str) -> Json:
    since = dict(effect.since)
    return {
        "status": _ready(effect.status),
        "nodes": [_domain_node(node) for node in effect.nodes],
        "conditions": [_condition(one, since.get(one.type) or now) for one in effect.conditions],
    }


def _domain_node(node: DomainNode) -> Json:
    return {
        "name": node.name,
        "ipAddress": node.ip,
        "cliqueID": node.clique,
        "index": node.index,
        "status": _ready(node.status),
    }


def _condition(condition: Condition, since: str) -> Json:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": since,
    }


def _finalizers_patch(effect: SetFinalizers, position: str) -> Json:
    return {
        "metadata": {
            "finalizers": list(effect.finalizers),
            "annotations": {POSITION_ANNOTATION: position},
        }
    }


def _unlabel(effect: UnlabelNode) -> bytes:
    # "/" is written "~1" in a JSON pointer (RFC 6901).
    label = "/metadata/labels/" + DOMAIN_LABEL.replace("~", "~0").replace("/", "~1")
    return msgspec.json.encode(
        [
            {"op": "test", "path": "/metadata/uid", "value": effect.uid},
            {"op": "test", "path": label, "value": effect.domain},
            {"op": "remove", "path": label},
        ]
    )


def _rfc3339(now_ms: int) -> str:
    return datetime.datetime.fromtimestamp(now_ms // 1000, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

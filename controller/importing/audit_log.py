"""The audit log of a Kubernetes API server: one `audit.k8s.io` Event a line.

Source: the audit API `audit.k8s.io/v1` and the stages and levels in the Kubernetes documentation. What a level can
prove is in docs/history.md. Only the answer counts (`ResponseComplete`, or `Panic`): a request that was received may
still be refused. A dry run changes nothing and is passed over; so is what goes through to a pod, or asks for its
eviction. A read shows what a write made before, so its time is not that of the write.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec.structs import replace

from controller.importing.told import (
    UNDECODABLE,
    Answered,
    Lost,
    NotUnderstood,
    Objects,
    ObjectTold,
    Outline,
    Removed,
    Told,
    WantedRow,
    milliseconds,
)
from controller.importing.wrapping import unwrapped
from eventlog.events import WriteAnswered
from kube.client import Resource
from kube.names import CDCS, PODS
from kube.objects import Integer, Struct
from projections.fold import is_clique

NODE_CLAIM = "authentication.kubernetes.io/node-name"
"""What a service account's token says of the node of its pod."""

Name = Annotated[str, msgspec.Meta(max_length=1000)]
REQUESTS_ONLY = "the log holds the request and not the answer, so that the version is only known to be later"

READ = "a read that shows it: it was written before"
LISTED_BEFORE = "the answer to the deletion of a whole collection lists the object as it was before"

WRAPPINGS_MAX = 4
"""Wrappings in wrappings: a shipper's around a service's around a list."""
_WRITES = {"create", "update", "patch", "delete", "deletecollection"}
_READS = {"get", "list"}
_NO_WRITES = {"attach", "eviction", "exec", "log", "portforward", "proxy"}
"""Subresources of a pod, requests to which are no writes of it."""


class _Claims(Struct, frozen=True):
    node: tuple[str, ...] = msgspec.field(name=NODE_CLAIM, default=())


class _User(Struct, frozen=True):
    username: Name = ""
    extra: _Claims = _Claims()


class _Reference(Struct, frozen=True):
    resource: Name = ""
    namespace: Name = ""
    name: Name = ""
    api_group: Name = ""
    subresource: Name = ""


class _Details(Struct, frozen=True):
    retry_after_seconds: Integer = 0


class _Answer(Struct, frozen=True):
    code: Integer = 0
    details: _Details | None = None


class _AuditEvent(Struct, frozen=True):
    audit_id: str = msgspec.field(name="auditID")
    stage: str
    verb: str
    stage_timestamp: datetime
    user: _User = _User()
    impersonated_user: _User | None = None
    object_ref: _Reference | None = None
    response_status: _Answer | None = None
    request_uri: str = msgspec.field(name="requestURI", default="")
    request_object: msgspec.Raw = msgspec.Raw(b"")
    response_object: msgspec.Raw = msgspec.Raw(b"")

    @property
    def writer(self) -> str:
        """As whom it was done, and by whom if that is another."""
        if self.impersonated_user is None:
            return self.user.username
        return f"{self.impersonated_user.username} (impersonated by {self.user.username})"


class _Base(Struct, frozen=True):
    version: str = msgspec.field(name="resourceVersion", default="")


class _Wanted(Struct, frozen=True):
    metadata: _Base = _Base()
    daemons: tuple[WantedRow, ...] | None = None


class _Options(Struct, frozen=True):
    dry_run: tuple[str, ...] = ()


class _Deleted(Struct, frozen=True):
    uid: str = ""


class _Status(Struct, frozen=True):
    details: _Deleted | None = None


class _Page(Struct, frozen=True):
    items: tuple[msgspec.Raw, ...] = ()


class AuditLog:
    """Reads the lines."""

    timed = True

    def __init__(self, objects: Objects) -> None:
        """Read with these decoders."""
        self._objects = objects
        self._events = msgspec.json.Decoder(_AuditEvent)

    def read(self, line: bytes, source: str) -> Sequence[Told]:
        """Give what the line tells. Raises NotUnderstood."""
        return self._read(line, source, WRAPPINGS_MAX)

    def _read(self, line: bytes, source: str, wrappings: int) -> Sequence[Told]:
        try:
            event = self._events.decode(line)
            return tuple(self._told(event, source))
        except UNDECODABLE as error:
            return self._wrapped(line, source, error, wrappings)

    def _wrapped(self, line: bytes, source: str, error: Exception, wrappings: int) -> Sequence[Told]:
        """Read what the line wraps. Raises NotUnderstood."""
        try:
            inside = list(unwrapped(line)) if wrappings else []
        except UNDECODABLE:
            inside = []
        if not inside:
            raise NotUnderstood(f"it is not an audit event: {error}") from error
        numbered = [(one, source if len(inside) == 1 else f"{source}#{number}") for number, one in enumerate(inside, 1)]
        return tuple(told for one, place in numbered for told in self._read(one, place, wrappings - 1))

    def _told(self, event: _AuditEvent, source: str) -> Iterator[Told]:
        reference = event.object_ref
        if event.stage not in {"ResponseComplete", "Panic"} or reference is None or reference.subresource in _NO_WRITES:
            return
        resource = self._objects.resource(reference.api_group, reference.resource)
        if resource is None or event.verb not in _WRITES | _READS or _is_dry_run(event):
            return
        if _accepted(event):
            yield from (self._from_answer if _is_object(event.response_object) else self._without_answer)(
                event, resource, source
            )
        elif event.verb in _WRITES:
            yield self._answered(event, resource, source)

    def _without_answer(self, event: _AuditEvent, resource: Resource, source: str) -> Iterator[Told]:
        """Take that it was done, where the log holds no more: what was written is not known."""
        if event.verb == "delete":
            yield self._removed(event, resource, source)
        elif event.verb == "deletecollection":
            cause = "a whole collection was deleted, and the log does not hold which objects that were"
            namespace = event.object_ref.namespace if event.object_ref is not None else ""
            yield Lost(source, milliseconds(event.stage_timestamp), resource.plural, cause, namespace)
        elif event.verb == "update" and resource == CDCS and (from_request := self._from_request(event, source)):
            yield from_request
        elif event.verb in _WRITES:
            yield self._answered(event, resource, source)

    def _from_request(self, event: _AuditEvent, source: str) -> ObjectTold | None:
        """Take a CDC from the body of an update that was accepted; None if the log does not hold the whole of it.

        The body names the version and the generation that it was computed from, so what came of it is later.
        """
        if not _is_object(event.request_object):
            return None
        try:
            found = self._objects.object(CDCS, event.request_object)
            generation = self._objects.outline(event.request_object).metadata.generation
        except UNDECODABLE:
            return None
        meta = replace(found.metadata, version=str(found.metadata.resource_version + 1))
        return ObjectTold(
            source,
            milliseconds(event.stage_timestamp),
            CDCS,
            replace(found, metadata=meta),
            generation + 1 if generation else 0,
            writer=event.writer,
            inferred=REQUESTS_ONLY,
        )

    def _from_answer(self, event: _AuditEvent, resource: Resource, source: str) -> Iterator[Told]:
        """Take what it was answered with: the object, a list of them, or a Status that says that it is done."""
        if event.verb in {"list", "deletecollection"}:
            for raw in msgspec.json.decode(event.response_object, type=_Page).items:
                found = self._object(event, resource, raw, self._objects.outline(raw), source)
                yield self._listed_before(found, raw) if event.verb == "deletecollection" else found
            return
        outline = self._objects.outline(event.response_object)
        if outline.kind == "Status":
            if event.verb == "delete":
                details = msgspec.json.decode(event.response_object, type=_Status).details
                yield self._removed(event, resource, source, details.uid if details else "")
        elif self._objects.resource_of(outline) == resource:
            yield self._object(event, resource, event.response_object, outline, source)

    def _object(
        self, event: _AuditEvent, resource: Resource, raw: msgspec.Raw, outline: Outline, source: str
    ) -> ObjectTold:
        is_write = event.verb in _WRITES
        return ObjectTold(
            source,
            milliseconds(event.stage_timestamp),
            resource,
            self._objects.object(resource, raw),
            outline.metadata.generation,
            dated="" if is_write else READ,
            gone=is_write and outline.ended,
            writer=event.writer if is_write else "",
        )

    def _listed_before(self, found: ObjectTold, raw: msgspec.Raw) -> ObjectTold:
        """Take an object that was deleted with its collection for gone, unless something holds it back for a while."""
        if found.gone or found.resource == PODS or self._objects.outline(raw).metadata.finalizers:
            return found
        return replace(found, gone=True, inferred=LISTED_BEFORE)

    def _removed(self, event: _AuditEvent, resource: Resource, source: str, uid: str = "") -> Removed:
        reference = event.object_ref or _Reference()
        time_ms = milliseconds(event.stage_timestamp)
        return Removed(source, time_ms, resource, reference.namespace, reference.name, event.writer, uid)

    def _answered(self, event: _AuditEvent, resource: Resource, source: str) -> Answered:
        reference = event.object_ref or _Reference()
        answer = event.response_status or _Answer()
        wanted = self._wanted(event) if resource == CDCS else _Wanted()
        domain, clique = _place(resource, reference.name)
        told = WriteAnswered(
            domain,
            resource.plural,
            reference.namespace,
            reference.name,
            event.verb,
            answer.code if event.stage != "Panic" else 500,
            clique,
            next(iter(event.user.extra.node), ""),
            answer.details.retry_after_seconds if answer.details else 0,
        )
        base = wanted.metadata.version
        return Answered(
            source,
            milliseconds(event.stage_timestamp),
            told,
            event.writer,
            event.audit_id,
            wanted.daemons,
            int(base) if base.isascii() and base.isdecimal() and len(base) < 20 else 0,
        )

    def _wanted(self, event: _AuditEvent) -> _Wanted:
        """Read the body of a write to a CDC; a patch may be of a form that says nothing of rows."""
        try:
            return msgspec.json.decode(event.request_object or b"{}", type=_Wanted)
        except UNDECODABLE:
            return _Wanted()


def _is_object(raw: msgspec.Raw) -> bool:
    """Say whether the log holds the object: some services put a word in the place of one that is too large."""
    return bytes(memoryview(raw)[:1]) == b"{"


def _is_dry_run(event: _AuditEvent) -> bool:
    """Say whether it was only tried: the address tells, and of a deletion the options in its body."""
    if "dryRun=" in event.request_uri:
        return True
    if not event.verb.startswith("delete") or not _is_object(event.request_object):
        return False
    try:
        return bool(msgspec.json.decode(event.request_object, type=_Options).dry_run)
    except UNDECODABLE:
        return False


def _accepted(event: _AuditEvent) -> bool:
    return event.stage == "ResponseComplete" and 200 <= (event.response_status or _Answer()).code < 300


def _place(resource: Resource, name: str) -> tuple[str, str]:
    """Give domain and clique that a CDC's name tells; both empty for other kinds."""
    domain, _, clique = name.partition(".")
    return (domain, clique) if resource == CDCS and is_clique(clique) else ("", "")

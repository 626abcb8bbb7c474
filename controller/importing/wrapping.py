"""What managed services and log shippers wrap audit events in, taken off.

Sources: the export formats as the services document them. Amazon CloudWatch gives an event as text in `message`, alone
or in `logEvents` or `events`; Azure Monitor as text in `properties.log`, alone or in `records`; Google Cloud Logging
gives a LogEntry whose `protoPayload` tells the same in other words; container runtimes put text into `log`; the API
server's own webhook sends an EventList.
"""

from collections.abc import Iterator

import msgspec

from kube.objects import Struct

_GRPC = {3: 422, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400, 12: 501, 13: 500, 14: 503, 16: 401}
"""HTTP statuses for the codes of google.rpc.Code, as the API server's answers are mapped; 0 is done."""


class _Message(Struct, frozen=True):
    message: str = ""


class _Properties(Struct, frozen=True):
    log: str = ""


class _Principal(Struct, frozen=True):
    email: str = msgspec.field(name="principalEmail", default="")


class _Outcome(Struct, frozen=True):
    code: int = 0
    message: str = ""


class _Payload(Struct, frozen=True):
    method: str = msgspec.field(name="methodName")
    resource: str = msgspec.field(name="resourceName")
    principal: _Principal = msgspec.field(name="authenticationInfo", default=_Principal())
    outcome: _Outcome = msgspec.field(name="status", default=_Outcome())
    request: msgspec.Raw = msgspec.Raw(b"null")
    response: msgspec.Raw = msgspec.Raw(b"null")


class _Wrapper(Struct, frozen=True):
    items: tuple[msgspec.Raw, ...] = ()
    records: tuple[msgspec.Raw, ...] = ()
    log_events: tuple[_Message, ...] = ()
    events: tuple[_Message, ...] = ()
    message: msgspec.Raw = msgspec.Raw(b"")
    log: msgspec.Raw = msgspec.Raw(b"")
    properties: _Properties | None = None
    payload: _Payload | None = msgspec.field(name="protoPayload", default=None)
    insert_id: str = ""
    timestamp: msgspec.Raw = msgspec.Raw(b"")


def unwrapped(line: bytes) -> Iterator[bytes]:
    """Give what is one wrapping deeper, each as JSON; nothing if there is no wrapping that is known.

    Raises msgspec.DecodeError for what is no JSON object.
    """
    brace = line.find(b"{")
    if brace < 0:
        return
    if line[:brace].strip():
        yield line[brace:]  # What stands before is a runtime's time and stream.
        return
    wrapper = msgspec.json.decode(line, type=_Wrapper)
    yield from (bytes(raw) for raw in (*wrapper.items, *wrapper.records))
    texts = [one.message for one in (*wrapper.log_events, *wrapper.events)]
    texts += [_text(raw) for raw in (wrapper.message, wrapper.log)]
    texts += [wrapper.properties.log] if wrapper.properties else []
    yield from (text.encode() for text in texts if "{" in text)
    if wrapper.payload is not None:
        yield _audit_event(wrapper.payload, wrapper)


def _text(raw: msgspec.Raw) -> str:
    """Give the text, of a field that others use for other things as well."""
    return str(msgspec.json.decode(raw)) if bytes(memoryview(raw)[:1]) == b'"' else ""


def _audit_event(payload: _Payload, entry: _Wrapper) -> bytes:
    """Say in the words of `audit.k8s.io` what a LogEntry tells.

    `resourceName` is GROUP/VERSION/[namespaces/NAMESPACE/]PLURAL/[NAME[/SUBRESOURCE]], where `core` is the empty group.
    """
    group, _, rest = payload.resource.partition("/")
    path = rest.split("/")[1:]
    namespace = path[1] if path[:1] == ["namespaces"] and len(path) > 2 else ""
    plural, name, subresource = [*(path[2:] if namespace else path), "", "", ""][:3]
    outcome = payload.outcome.code
    return msgspec.json.encode(
        {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "auditID": entry.insert_id,
            "stage": "ResponseComplete",
            "verb": payload.method.rpartition(".")[2],
            "stageTimestamp": entry.timestamp,
            "user": {"username": payload.principal.email},
            "objectRef": {
                "apiGroup": "" if group == "core" else group,
                "resource": plural,
                "namespace": namespace,
                "name": name,
                "subresource": subresource,
            },
            "responseStatus": {"code": _GRPC.get(outcome, 500) if outcome else 200},
            "requestObject": payload.request,
            "responseObject": payload.response,
        }
    )

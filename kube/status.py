"""From an answer of the API server to the error class that callers treat differently.

Problem: one meaning comes in several shapes. "Your resourceVersion is too old" alone arrives as HTTP 410, as a bare
Status in an answer with status 200, as an ERROR event in the stream, and as a server error with a telling message
(failure case B3). Invariant: all shapes pass through `from_status`, so the same meaning is the same class.
"""

import math

import msgspec

from kube import client
from kube.envelopes import Status

MESSAGE_LIMIT = 500
"""Characters kept of what a server says: it goes into logs and records, and a proxy may send whole pages."""

_BY_CODE: dict[int, type[client.ApiError]] = {
    401: client.Unauthorized,
    403: client.Forbidden,
    404: client.NotFound,
    408: client.ServerError,
    409: client.Conflict,
    410: client.Expired,
    429: client.Throttled,
}


def refusal(code: int, body: bytes, retry_after: str | None) -> client.ApiError:
    """Give the error for an answer with this HTTP status, body and Retry-After header (None: absent)."""
    wait_s = seconds(retry_after)
    try:
        status = msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:
        status = Status()
    if status.kind == "Status":
        return from_status(status, code, wait_s)
    text = body.decode("utf-8", "replace").strip()[:MESSAGE_LIMIT] or "the answer has no body"
    # A path that no API serves is answered in plain text: the kind itself is unknown, not the object.
    error = client.ResourceMissing if code == 404 else _class_of(code)
    return error(code, "", text, wait_s)


def from_status(status: Status, code: int, retry_after_s: float | None = None) -> client.ApiError:
    """Give the error for a Status; `code` counts where the Status has none, the header before its own wait."""
    code = status.code or code
    error = _class_of(code)
    if status.reason in {"Expired", "Gone"} or "too old resource version" in status.message:
        error = client.Expired
    elif status.reason == "AlreadyExists":
        error = client.AlreadyExists
    elif code == 404 and "could not find the requested resource" in status.message:
        error = client.ResourceMissing
    if retry_after_s is None and status.details is not None and status.details.retry_after_seconds:
        retry_after_s = status.details.retry_after_seconds
    return error(code, status.reason[:MESSAGE_LIMIT], status.message[:MESSAGE_LIMIT], retry_after_s)


def seconds(retry_after: str | None) -> float | None:
    """Read a Retry-After header in seconds; None if absent, or in a form that Kubernetes does not use (a date)."""
    try:
        value = float(retry_after or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _class_of(code: int) -> type[client.ApiError]:
    """Give the class of an HTTP status; what is neither known nor the server's fault is the request's fault."""
    return _BY_CODE.get(code) or (client.ServerError if code >= 500 else client.BadRequest)

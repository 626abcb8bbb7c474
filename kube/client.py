"""The client port: the few requests that cliquelog makes, on raw bytes.

Answers stay bytes until a slim msgspec struct decodes what is needed: on the hot path the model classes of the client
library cost 180 times as much. Errors are the API server's answers, one class for each that a caller treats
differently; whoever retries decides by class and by `retry_after_s`, never by text.

    KubeError
    +- ApiError                    the server answered, with a status
    |  +- BadRequest       400, 422
    |  +- Unauthorized     401
    |  +- Forbidden        403
    |  +- NotFound         404
    |  |  +- ResourceMissing       the kind itself is not served: its CRD is missing
    |  +- Conflict         409     the object changed
    |  |  +- AlreadyExists 409     the name is taken
    |  +- Expired          410     this resourceVersion or continue token is too old
    |  +- Throttled        429     (also: storage is being initialized)
    |  +- ServerError      5xx
    +- Unreachable                 no answer: refused, reset, timed out, TLS. The request may have taken effect
    +- TooLarge                    the answer is longer than the client is willing to hold
    +- Undecodable                 the answer is not what the API says, or comes in an impossible order
    +- ConfigError                 it is not known where the API server is, or as whom to speak to it
"""

from collections.abc import AsyncGenerator
from typing import Protocol

import msgspec


class KubeError(Exception):
    """A request that did not succeed."""


class ApiError(KubeError):
    """The API server's answer to a request that it did not carry out."""

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float | None = None) -> None:
        """Keep the answer's parts; `retry_after_s` is None where the server did not say."""
        super().__init__(f"{message or reason} (HTTP {status})")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s


class BadRequest(ApiError):
    """The request is wrong; the same one will never succeed."""


class Unauthorized(ApiError):
    """The credentials are not accepted."""


class Forbidden(ApiError):
    """The credentials do not allow this request."""


class NotFound(ApiError):
    """The object does not exist."""


class ResourceMissing(NotFound):
    """The API server does not serve this kind: its CRD is not installed."""


class Conflict(ApiError):
    """The object is no longer the one that the request was computed from."""


class AlreadyExists(Conflict):
    """An object of that name exists."""


class Expired(ApiError):
    """The server no longer has the history that was asked for."""


class Throttled(ApiError):
    """The server asks to slow down."""


class ServerError(ApiError):
    """The server failed."""


class Unreachable(KubeError):
    """No answer came; a write may or may not have taken effect."""


class TooLarge(KubeError):
    """The answer, or one line of a watch, is longer than the client is willing to hold."""


class Undecodable(KubeError):
    """The answer is not what the API says, or comes in an impossible order."""


class ConfigError(KubeError):
    """The kubeconfig or the credentials that it names cannot be used; the message says what to mend."""


class Resource(msgspec.Struct, frozen=True):
    """A kind as the API's paths name it. `group` is empty for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`group/version`, or `version` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version


class Selector(msgspec.Struct, frozen=True):
    """Which objects of a kind: in a namespace ("" = all), with a label selector in the API's own syntax ("" = any)."""

    resource: Resource
    namespace: str = ""
    labels: str = ""


class ViewClient(Protocol):
    """The requests of a reflector: they read, and change nothing."""

    async def list(self, selector: Selector, *, limit: int = 500, token: str = "", resource_version: str = "") -> bytes:
        """Give one page of a list; `token` continues one. No resourceVersion means the newest data, by quorum."""

    def watch(self, selector: Selector, *, resource_version: str, timeout_s: float) -> AsyncGenerator[bytes, None]:
        """Give watch events (with bookmarks) after `resource_version`, one JSON line each, until the server ends it.

        The server is asked to end it after `timeout_s`; a connection that stays silent for longer is cut and raises
        Unreachable. An ERROR event is given like any other line. A line may be as long as an object may be (etcd's
        1.5 MiB and the metadata around it); a longer one raises TooLarge. Whoever stops early closes the generator.
        """


class KubeClient(ViewClient, Protocol):
    """Requests to one API server, each tried once. Every method raises KubeError.

    The one exception: a request that is answered 401 was not carried out, so it is sent again if the credentials have
    changed on disk meanwhile (tokens of service accounts rotate; failure case B18).
    """

    async def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        """Give the object as it is now."""

    async def create(self, resource: Resource, namespace: str, body: bytes) -> bytes:
        """Create the object and give it as stored."""

    async def patch(
        self, resource: Resource, namespace: str, name: str, body: bytes, *, kind: str, subresource: str = ""
    ) -> bytes:
        """Patch the object and give it as stored; `kind` is `merge` (RFC 7386) or `json` (RFC 6902).

        A merge patch that states `metadata.resourceVersion` raises Conflict if the object has another one.
        """

    async def replace(self, resource: Resource, namespace: str, name: str, body: bytes) -> bytes:
        """Put the object (PUT); the body's resourceVersion is the precondition."""

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str, propagation: str = "Background"
    ) -> bytes:
        """Delete the object if it still has this UID; Conflict if it has another."""

    async def close(self) -> None:
        """Close the connections."""

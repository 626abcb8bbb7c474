"""The client port over HTTP: `HttpKubeClient`. The one file in kube that imports aiohttp.

Problem: watches hang for ever when the network drops a connection silently, lines are longer than a client library's
buffer, and a client that retries by itself hides what the server said (failure cases B4 to B6, B11, B14).
Invariant: each request is sent once, ends within a known time, and what is held of an answer is bounded.

Compression is not asked for: it costs the API server's CPU and ours, and a bounded read of compressed bytes is not
bounded. Redirects are not followed: they could carry the token elsewhere.
"""

import asyncio
import os
import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from kube import status
from kube.client import ApiError, ConfigError, KubeClient, Resource, Selector, TooLarge, Unreachable
from kube.clock import SystemClock
from kube.credentials import SERVICE_ACCOUNT, Access, Credentials, KubeConfig, Loader, ServiceAccount

BODY_LIMIT = 256 * 1024 * 1024
"""Bytes of an answer that is not a watch. A page of 500 pods of 10 kB each has 5 MB."""
LINE_LIMIT = 4 * 1024 * 1024
"""Bytes of one watch event. etcd stores 1.5 MiB at most; managedFields and encoding come on top."""
REFUSAL_LIMIT = 64 * 1024
"""Bytes that are read of an error's body."""
READ_BUFFER = 1024 * 1024
TLS_CLOSES_LATE = sys.version_info < (3, 12, 7)
"""Whether asyncio leaves a TLS connection open until the peer agrees to its end (cpython #109534): a watch that is left
early would outlive its client, so aiohttp is asked to abort such connections when it is closed."""

PATCH_TYPES: Mapping[str, str] = {"merge": "application/merge-patch+json", "json": "application/json-patch+json"}


class Timeouts(msgspec.Struct, frozen=True):
    """Bounds in seconds: to connect, for a whole request, for a watch's silence beyond the end that it asked for."""

    connect_s: float = 10.0
    request_s: float = 30.0
    watch_slack_s: float = 10.0


async def connect(kubeconfig: str | None, context: str | None) -> KubeClient:
    """Give a client for a kubeconfig (None: the pod's service account, or ~/.kube/config outside of a cluster).

    Raises ConfigError, with one sentence, for a configuration that cannot be used. Sends nothing.
    """
    clock = SystemClock()
    credentials = Credentials(choose_loader(kubeconfig, context, os.environ), clock)
    timeouts = Timeouts()
    try:
        async with asyncio.timeout(timeouts.request_s):
            await credentials.current()
    except TimeoutError as error:
        raise ConfigError(
            f"the credential plugin gave nothing within {timeouts.request_s:.0f} s; run it by hand"
        ) from error
    return HttpKubeClient(credentials, timeouts)


def choose_loader(kubeconfig: str | None, context: str | None, environ: Mapping[str, str]) -> Loader:
    """Give where the credentials come from: a file that is named, else the pod, else the user's own file."""
    if kubeconfig is None and context is None and environ.get("KUBERNETES_SERVICE_HOST"):
        return ServiceAccount(environ, SERVICE_ACCOUNT)
    return KubeConfig(kubeconfig or str(Path(environ.get("HOME", "/")) / ".kube" / "config"), context)


class HttpKubeClient:
    """The client port on one aiohttp session. Make it inside a running event loop; close it."""

    def __init__(self, credentials: Credentials, timeouts: Timeouts) -> None:
        """Open no connection yet. Callers bound how many requests they have in flight; the pool does not."""
        self._credentials = credentials
        self._timeouts = timeouts
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, enable_cleanup_closed=TLS_CLOSES_LATE),
            headers={
                "User-Agent": f"cliquelog/{version('cliquelog')}",
                "Accept": "application/json",
                "Accept-Encoding": "identity",
            },
            read_bufsize=READ_BUFFER,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            middlewares=(send_once,),
        )

    async def list(self, selector: Selector, *, limit: int = 500, token: str = "", resource_version: str = "") -> bytes:
        """Give one page of a list. A limit of 0 asks for all in one page."""
        query = {"labelSelector": selector.labels, "limit": str(limit) if limit else "", "continue": token}
        if resource_version:
            query |= {"resourceVersion": resource_version, "resourceVersionMatch": "NotOlderThan"}
        return await self._request("GET", path_of(selector.resource, selector.namespace), query=query)

    async def watch(
        self, selector: Selector, *, resource_version: str, timeout_s: float
    ) -> AsyncGenerator[bytes, None]:
        """Give watch events, one JSON line each."""
        path = path_of(selector.resource, selector.namespace)
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": selector.labels,
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, round(timeout_s))),
        }
        silence = aiohttp.ClientTimeout(
            total=None, sock_connect=self._timeouts.connect_s, sock_read=timeout_s + self._timeouts.watch_slack_s
        )
        try:
            async with asyncio.timeout(self._timeouts.request_s):
                response = await self._open("GET", path, query=query, body=None, headers={}, timeout=silence)
            try:
                async for line in split_lines(response.content.iter_any(), LINE_LIMIT):
                    yield line
            finally:
                response.close()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"watch {path}: {reason_of(error)}") from error

    async def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        """Give the object as it is now."""
        return await self._request("GET", path_of(resource, namespace, name))

    async def create(self, resource: Resource, namespace: str, body: bytes) -> bytes:
        """Create the object and give it as stored."""
        return await self._request("POST", path_of(resource, namespace), body=body)

    async def patch(
        self, resource: Resource, namespace: str, name: str, body: bytes, *, kind: str, subresource: str = ""
    ) -> bytes:
        """Patch the object and give it as stored; `kind` is `merge` or `json`."""
        path = path_of(resource, namespace, name, subresource)
        return await self._request("PATCH", path, body=body, content_type=PATCH_TYPES[kind])

    async def replace(self, resource: Resource, namespace: str, name: str, body: bytes) -> bytes:
        """Put the object; the body's resourceVersion is the precondition."""
        return await self._request("PUT", path_of(resource, namespace, name), body=body)

    async def delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str, propagation: str = "Background"
    ) -> bytes:
        """Delete the object if it still has this UID."""
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": propagation,
        }
        return await self._request("DELETE", path_of(resource, namespace, name), body=msgspec.json.encode(options))

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """Send one request that is not a watch and give its answer's body."""
        headers = {"Content-Type": content_type} if body is not None else {}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._timeouts.connect_s)
        try:
            # Around all of it: a credential plugin that hangs is part of the request.
            async with asyncio.timeout(self._timeouts.request_s):
                response = await self._open(
                    method, path, query=query or {}, body=body, headers=headers, timeout=timeout
                )
                async with response:
                    return await _read_bounded(response, f"{method} {path}")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"{method} {path}: {reason_of(error)}") from error

    async def _open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - it bounds each read, not this call
    ) -> aiohttp.ClientResponse:
        """Send the request, once more after 401 if the credentials have changed; raise ApiError for a refusal."""
        text = "&".join(f"{key}={quote(value, safe='')}" for key, value in query.items() if value)

        async def send(access: Access) -> aiohttp.ClientResponse:
            return await self._session.request(
                method,
                URL(f"{access.server}{path}{'?' if text else ''}{text}", encoded=True),
                data=body,
                headers={**headers, **({"Authorization": access.authorization} if access.authorization else {})},
                timeout=timeout,
                ssl=access.tls if access.tls is not None else True,
                server_hostname=access.tls_server_name,
                proxy=access.proxy,
                allow_redirects=False,
            )

        access = await self._credentials.current()
        response = await send(access)
        if response.status == 401:
            newer = await self._credentials.renewed(access)
            if newer is not access:
                response.close()
                response = await send(newer)
        if response.status >= 300:
            raise await _refusal(response)
        return response


async def send_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Raise Unreachable where aiohttp would send an idempotent request again by itself: at once, and unseen."""
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise Unreachable(f"{request.method} {request.url.path}: {reason_of(error)}") from error


def path_of(resource: Resource, namespace: str, name: str | None = None, subresource: str = "") -> str:
    """Give the path of a collection, or of one object of it. ValueError for a name that would be another path."""
    parts = ["apis", resource.group, resource.version] if resource.group else ["api", resource.version]
    if resource.namespaced and namespace:
        parts += ["namespaces", namespace]
    parts.append(resource.plural)
    if name is not None:
        parts.append(name)
    if subresource:
        parts.append(subresource)
    if any(part in {"", ".", ".."} for part in parts):
        raise ValueError(f"not a path of an object: {parts!r}")
    return "/" + "/".join(quote(part, safe="") for part in parts)


async def split_lines(chunks: AsyncIterator[bytes], limit: int) -> AsyncGenerator[bytes, None]:
    """Give the lines of a stream without their ends, without empty ones; TooLarge for one longer than `limit` bytes."""
    held: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            if size + len(piece) > limit:
                raise TooLarge(f"a watch event is longer than {limit} bytes")
            line = b"".join((*held, piece))
            held, size = [], 0
            if line:
                yield line
        held.append(rest)
        size += len(rest)
        if size > limit:
            raise TooLarge(f"a watch event is longer than {limit} bytes")
    if size:
        yield b"".join(held)


async def _read_bounded(response: aiohttp.ClientResponse, what: str) -> bytes:
    """Read a body of at most `BODY_LIMIT` bytes."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > BODY_LIMIT:
            raise TooLarge(f"{what}: the answer is longer than {BODY_LIMIT} bytes; ask for smaller pages")
    return bytes(body)


async def _refusal(response: aiohttp.ClientResponse) -> ApiError:
    """Read the answer's account of why it was not carried out."""
    async with response:
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > REFUSAL_LIMIT:
                break
        return status.refusal(response.status, bytes(body[:REFUSAL_LIMIT]), response.headers.get("Retry-After"))


def reason_of(error: Exception) -> str:
    """Say what kept an answer from coming. aiohttp's own text speaks of its settings, asyncio's of its calls."""
    match error:
        case TimeoutError():
            return "no answer in time"
        case aiohttp.ClientConnectorCertificateError():
            cause = error.certificate_error
            why = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else "it is another's"
            mend = "certificate-authority in the kubeconfig must name its issuer"
            return f"the certificate of {error.host}:{error.port} is not trusted ({why}); {mend}"
        case aiohttp.ClientConnectorSSLError():
            return f"no TLS connection to {error.host}:{error.port}: it may speak plain HTTP there"
        case aiohttp.ClientConnectorError():
            return f"no connection to {error.host}:{error.port} ({_of_system(error)})"
        case aiohttp.ServerDisconnectedError():
            return "the connection was closed before the answer"
        case aiohttp.ClientPayloadError():
            return "the answer broke off"
        case OSError():
            return f"the connection broke ({_of_system(error)})"
        case _:
            return f"it cannot be asked over HTTP ({type(error).__name__})"


def _of_system(error: OSError) -> str:
    # A name that is not known has no errno of the system; several addresses that were tried have none in common.
    number = error.errno or 0
    return (
        os.strerror(number) if number > 0 else (error.strerror if number else None) or "none of its addresses answers"
    )

"""A small Kubernetes API server over HTTP, for simulations and tests: `simulation.api` behind aiohttp.

It passes the same contract suite as a real one.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from aiohttp import web
from aiohttp.typedefs import Middleware

from kube.client import Resource, Selector
from simulation.api import Api, encode, status
from simulation.store import Key, Refused

BODY_LIMIT = 3 * 1024 * 1024
"""Bytes of a request, as in the real server."""

PATCHES = {"application/merge-patch+json": "merge", "application/json-patch+json": "json"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(api: Api, *middlewares: Middleware) -> web.Application:
    """Give the routes of all kinds; middlewares see each request before them, and may raise Refused."""
    made = web.Application(client_max_size=BODY_LIMIT, middlewares=[answer_refusals, *middlewares])

    async def close(_: web.Application) -> None:
        api.close()

    made.on_shutdown.append(close)
    for resource in api.store.resources:
        root = f"/apis/{resource.group}" if resource.group else "/api"
        _Routes(api, resource).add_to(made.router, f"{root}/{resource.version}")
    return made


class _Routes:
    """The handlers of one kind."""

    def __init__(self, api: Api, resource: Resource) -> None:
        self._api = api
        self._resource = resource

    def add_to(self, router: web.UrlDispatcher, root: str) -> None:
        resource = self._resource
        scope = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
        one = f"{scope}/{resource.plural}/{{name}}"
        for collection in sorted({f"{root}/{resource.plural}", f"{scope}/{resource.plural}"}):
            router.add_get(collection, self._collection)
        router.add_post(f"{scope}/{resource.plural}", self._create)
        router.add_get(one, self._get)
        router.add_delete(one, self._delete)
        changed = [one]
        if resource in self._api.store.with_status:
            changed.append(f"{one}/{{subresource:status}}")
        for path in changed:
            router.add_put(path, self._update)
            router.add_patch(path, self._update)

    async def _collection(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        selector = Selector(self._resource, request.match_info.get("namespace", ""), query.get("labelSelector", ""))
        if query.get("watch") not in {"1", "true"}:
            limit, token = int(query.get("limit", "0")), query.get("continue", "")
            return _json(self._api.list(selector, limit=limit, token=token))
        lines = self._api.watch(
            selector,
            resource_version=query.get("resourceVersion", ""),
            timeout_s=float(query.get("timeoutSeconds", "1800")),
            bookmarks=query.get("allowWatchBookmarks") == "true",
        )
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        with suppress(ConnectionResetError):
            await response.prepare(request)
            async for some in lines:
                await response.write(some)
        return response

    async def _get(self, request: web.Request) -> web.Response:
        return _json(self._api.get(self._resource, _key(request)))

    async def _create(self, request: web.Request) -> web.Response:
        return _json(self._api.create(self._resource, _key(request)[0], await request.read()), 201)

    async def _update(self, request: web.Request) -> web.Response:
        body, subresource = await request.read(), request.match_info.get("subresource", "")
        if request.method == "PUT":
            return _json(self._api.replace(self._resource, _key(request), body, subresource=subresource))
        kind = PATCHES.get(request.content_type)
        if kind is None:
            raise Refused(415, "UnsupportedMediaType", f"not a patch that is known here: {request.content_type}")
        return _json(self._api.patch(self._resource, _key(request), body, kind=kind, subresource=subresource))

    async def _delete(self, request: web.Request) -> web.Response:
        options = await request.read() if request.can_read_body else b""
        return _json(self._api.delete(self._resource, _key(request), options))


@web.middleware
async def answer_refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn a refusal into a Status, and an unknown path into the plain text that a real server sends."""
    try:
        return await handler(request)
    except Refused as refused:
        wait_s = refused.retry_after_s
        return _json(encode(status(refused)), refused.code, {} if wait_s is None else {"Retry-After": f"{wait_s:g}"})
    except ConnectionResetError:
        return web.Response(status=400)  # Who asked is gone in the middle of the body: nobody reads this.
    except web.HTTPNotFound:
        return web.Response(status=404, text="404 page not found\n")


def _key(request: web.Request) -> Key:
    return request.match_info.get("namespace", ""), request.match_info.get("name", "")


def _json(body: bytes, code: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=body, status=code, headers=headers, content_type="application/json")

"""A small Kubernetes API server over HTTP, for simulations and tests.

It has lists in pages, watches with bookmarks, patches, preconditions and finalizers; the rules are in
`simulation.store`. It passes the same contract suite as a real one.

Invariant: it answers only what a real server would, and refuses what it does not know.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress

import msgspec
from aiohttp import web
from aiohttp.typedefs import Middleware

from kube.client import Resource, Selector
from simulation.patches import Json, PatchFailed, json_patch, merge_patch
from simulation.selectors import BadSelector, parse
from simulation.store import Object, Refused, Store

BODY_LIMIT = 3 * 1024 * 1024
"""Bytes of a request, as in the real server."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ApiServer:
    """The server. `application()` gives what aiohttp serves; `store` is the state behind it."""

    def __init__(self, resources: Sequence[Resource], with_status: Collection[Resource]) -> None:
        """Serve these kinds, those in `with_status` with a status subresource."""
        self.store = Store(resources, with_status)
        self._resources = resources
        self._with_status = with_status
        self._changed = {resource: asyncio.Condition() for resource in resources}
        self._closing = False
        self._lists: dict[str, tuple[int, list[Object]]] = {}

    def application(self, *middlewares: Middleware) -> web.Application:
        """Give the routes of all kinds; middlewares see each request before them, and may raise Refused."""
        application = web.Application(client_max_size=BODY_LIMIT, middlewares=[answer_refusals, *middlewares])
        application.on_shutdown.append(self._close)
        for resource in self._resources:
            root = f"/apis/{resource.group}" if resource.group else "/api"
            self._route(application, f"{root}/{resource.version}", resource)
        return application

    def compact(self) -> None:
        """Forget the history and the lists that are under way."""
        self.store.compact()
        self._lists.clear()

    def _route(self, application: web.Application, root: str, resource: Resource) -> None:
        def bound(method: Callable[[web.Request, Resource], Awaitable[web.StreamResponse]]) -> Handler:
            async def handler(request: web.Request) -> web.StreamResponse:
                return await method(request, resource)

            return handler

        scope = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
        one = f"{scope}/{resource.plural}/{{name}}"
        router = application.router
        for collection in {f"{root}/{resource.plural}", f"{scope}/{resource.plural}"}:
            router.add_get(collection, bound(self._collection))
        router.add_post(f"{scope}/{resource.plural}", bound(self._create))
        router.add_get(one, bound(self._get))
        router.add_put(one, bound(self._update))
        router.add_patch(one, bound(self._update))
        router.add_delete(one, bound(self._delete))
        if resource in self._with_status:
            router.add_put(f"{one}/{{subresource:status}}", bound(self._update))
            router.add_patch(f"{one}/{{subresource:status}}", bound(self._update))

    async def _collection(self, request: web.Request, resource: Resource) -> web.StreamResponse:
        labels = request.query.get("labelSelector", "")
        parse(labels)  # before a watch has begun its answer
        selector = Selector(resource, request.match_info.get("namespace", ""), labels)
        if request.query.get("watch") in {"1", "true"}:
            return await self._watch(request, selector)
        return self._list(request, selector)

    def _list(self, request: web.Request, selector: Selector) -> web.Response:
        token = request.query.get("continue")
        if token is None:
            version, items = self.store.version, self.store.snapshot(selector)
        elif token in self._lists:
            version, items = self._lists.pop(token)
        else:
            raise Refused(410, "Expired", "The provided continue parameter is too old")
        limit = int(request.query.get("limit", "0")) or len(items)
        metadata = {"resourceVersion": str(version)}
        if len(items) > limit:
            metadata["continue"] = uuid.uuid4().hex
            self._lists[metadata["continue"]] = (version, items[limit:])
        kind, api = f"{selector.resource.kind}List", selector.resource.api_version
        return _json({"kind": kind, "apiVersion": api, "metadata": metadata, "items": items[:limit]})

    async def _watch(self, request: web.Request, selector: Selector) -> web.StreamResponse:
        version = request.query.get("resourceVersion", "")
        if not version.isdecimal() or int(version) == 0:
            raise Refused(400, "BadRequest", "this server watches from a stated resourceVersion only")
        told = sent = int(version)
        self.store.check_version(sent)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        deadline = asyncio.get_running_loop().time() + float(request.query.get("timeoutSeconds", "1800"))
        with suppress(ConnectionResetError):
            await response.prepare(request)
            while True:
                upto = self.store.version
                try:
                    changes = list(self.store.changes(selector, sent))
                except Refused as refused:
                    await response.write(_line("ERROR", _status(refused)))
                    return response
                if changes:
                    await response.write(b"".join(_line(kind, thing) for kind, thing in changes))
                    told = int(changes[-1][1]["metadata"]["resourceVersion"])
                sent = upto
                if not await self._news(selector.resource, sent, deadline):
                    break
            # As in a real server: a bookmark is sent if it says more than the last event did.
            if request.query.get("allowWatchBookmarks") == "true" and sent > told:
                await response.write(_bookmark(selector.resource, sent))
        return response

    async def _news(self, resource: Resource, sent: int, deadline: float) -> bool:
        """Wait for a change of this kind after `sent`; False at the deadline or when the server closes."""
        changed = self._changed[resource]
        try:
            async with asyncio.timeout_at(deadline), changed:
                await changed.wait_for(lambda: self._closing or self.store.version > sent)
        except TimeoutError:
            return False
        return not self._closing

    async def _get(self, request: web.Request, resource: Resource) -> web.Response:
        return _json(self.store.get(resource, _key(request)))

    async def _create(self, request: web.Request, resource: Resource) -> web.Response:
        body = await _body(request)
        return await self._stored(resource, self.store.create(resource, _key(request)[0], body), status=201)

    async def _update(self, request: web.Request, resource: Resource) -> web.Response:
        body = await _body(request)
        edit = _editor(request, body)
        subresource = request.match_info.get("subresource", "")
        return await self._stored(resource, self.store.update(resource, _key(request), subresource, edit))

    async def _delete(self, request: web.Request, resource: Resource) -> web.Response:
        options = await _body(request) if request.can_read_body else {}
        uid = options.get("preconditions", {}).get("uid")
        return await self._stored(resource, self.store.delete(resource, _key(request), uid))

    async def _stored(self, resource: Resource, thing: Object, status: int = 200) -> web.Response:
        await self._announce(resource)
        return _json(thing, status)

    async def _announce(self, resource: Resource) -> None:
        async with self._changed[resource]:
            self._changed[resource].notify_all()

    async def _close(self, _: web.Application) -> None:
        self._closing = True
        for resource in self._resources:
            await self._announce(resource)


@web.middleware
async def answer_refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn a refusal into a Status, and an unknown path into the plain text that a real server sends."""
    try:
        return await handler(request)
    except Refused as refused:
        return _json(_status(refused), refused.code)
    except BadSelector as error:
        return _json(_status(Refused(400, "BadRequest", str(error))), 400)
    except web.HTTPNotFound:
        return web.Response(status=404, text="404 page not found\n")


def _editor(request: web.Request, body: Json) -> Callable[[Object], Object]:
    """Give what a PUT or PATCH does to the object."""
    if request.method == "PUT":
        return lambda _: body
    if request.content_type == "application/merge-patch+json":
        return lambda before: merge_patch(before, body)
    if request.content_type != "application/json-patch+json":
        raise Refused(415, "UnsupportedMediaType", f"not a patch that is known here: {request.content_type}")

    def edit(before: Object) -> Object:
        try:
            patched: Object = json_patch(before, body)
        except PatchFailed as error:
            raise Refused(422, "Invalid", str(error)) from error
        return patched

    return edit


def _key(request: web.Request) -> tuple[str, str]:
    return request.match_info.get("namespace", ""), request.match_info.get("name", "")


async def _body(request: web.Request) -> Json:
    try:
        return msgspec.json.decode(await request.read())
    except msgspec.DecodeError as error:
        raise Refused(400, "BadRequest", f"the body is no JSON: {error}") from error


def _status(refused: Refused) -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": str(refused),
        "reason": refused.reason,
        "code": refused.code,
    }


def _json(value: Object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


def _line(kind: str, thing: Object) -> bytes:
    return msgspec.json.encode({"type": kind, "object": thing}) + b"\n"


def _bookmark(resource: Resource, version: int) -> bytes:
    metadata = {"resourceVersion": str(version)}
    return _line("BOOKMARK", {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata})

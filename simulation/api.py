"""What an API server does, without HTTP: lists in pages, watches with bookmarks, patches, deletions, on bytes.

`simulation.apiserver` puts it behind HTTP, `simulation.client` behind the client port in memory, so that both mean the
same. The rules on objects are in `simulation.store`.

Invariant: it answers only what a real server would, and refuses what it does not know.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable

import msgspec

from kube.client import Resource, Selector
from simulation.patches import Json, PatchFailed, json_patch, merge_patch
from simulation.selectors import BadSelector, parse
from simulation.store import Change, Key, Object, Refused, Store

Edit = Callable[[Object], Json]


class Api:
    """Requests on the objects of a store. Every method raises Refused."""

    def __init__(self, store: Store) -> None:
        """Serve what the store has."""
        self.store = store
        self._news = {resource: asyncio.Event() for resource in store.resources}
        self._closing = False
        self._tokens = itertools.count(1)
        self._lists: dict[str, tuple[int, list[Object]]] = {}
        store.subscribe(self._announce)

    def compact(self) -> None:
        """Forget the history and the lists that are under way."""
        self.store.compact()
        self._lists.clear()

    def close(self) -> None:
        """End all watches."""
        self._closing = True
        for news in self._news.values():
            news.set()

    def list(self, selector: Selector, *, limit: int, token: str) -> bytes:
        """Give one page of a list; a limit of 0 asks for all."""
        _check(selector)
        if not token:
            version, items = self.store.version, self.store.snapshot(selector)
        elif token in self._lists:
            version, items = self._lists.pop(token)
        else:
            raise Refused(410, "Expired", "The provided continue parameter is too old")
        limit = limit or len(items)
        metadata = {"resourceVersion": str(version)}
        if len(items) > limit:
            metadata["continue"] = f"page-{next(self._tokens)}"
            self._lists[metadata["continue"]] = (version, items[limit:])
        kind, api = f"{selector.resource.kind}List", selector.resource.api_version
        return encode({"kind": kind, "apiVersion": api, "metadata": metadata, "items": items[:limit]})

    def watch(
        self, selector: Selector, *, resource_version: str, timeout_s: float, bookmarks: bool
    ) -> AsyncGenerator[bytes, None]:
        """Give the changes after a version, some lines at a time. What is refused at once is raised here."""
        _check(selector)
        if not resource_version.isdecimal() or int(resource_version) == 0:
            raise Refused(400, "BadRequest", "this server watches from a stated resourceVersion only")
        self.store.check_version(int(resource_version))
        return self._watch(selector, int(resource_version), timeout_s, bookmarks=bookmarks)

    async def _watch(
        self, selector: Selector, sent: int, timeout_s: float, *, bookmarks: bool
    ) -> AsyncGenerator[bytes, None]:
        told = sent
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            news, upto = self._news[selector.resource], self.store.version
            try:
                changes = list(self.store.changes(selector, sent))
            except Refused as refused:
                yield _line("ERROR", status(refused))
                return
            if changes:
                yield b"".join(_line(kind, thing) for kind, thing in changes)
                told = int(changes[-1][1]["metadata"]["resourceVersion"])
            sent = upto
            try:
                async with asyncio.timeout_at(deadline):
                    await news.wait()
            except TimeoutError:
                break
            if self._closing:
                break
        # As in a real server: a bookmark is sent if it says more than the last event did.
        if bookmarks and sent > told:
            yield _bookmark(selector.resource, sent)

    def get(self, resource: Resource, key: Key) -> bytes:
        """Give an object."""
        return encode(self.store.get(resource, key))

    def create(self, resource: Resource, namespace: str, body: bytes) -> bytes:
        """Store a new object and give it."""
        return encode(self.store.create(resource, namespace, decode(body)))

    def patch(self, resource: Resource, key: Key, body: bytes, *, kind: str, subresource: str) -> bytes:
        """Change an object by a patch of this kind, `merge` or `json`, and give it."""
        patch = decode(body)
        edit = _json_editor(patch) if kind == "json" else lambda before: merge_patch(before, patch)
        return encode(self.store.update(resource, key, subresource, edit))

    def replace(self, resource: Resource, key: Key, body: bytes, *, subresource: str) -> bytes:
        """Change an object to what the body says, and give it."""
        after = decode(body)
        return encode(self.store.update(resource, key, subresource, lambda _: after))

    def delete(self, resource: Resource, key: Key, options: bytes) -> bytes:
        """Delete an object, if the options have no precondition that it fails, and give it."""
        uid = decode(options).get("preconditions", {}).get("uid") if options else None
        return encode(self.store.delete(resource, key, uid))

    def _announce(self, resource: Resource, _: Change) -> None:
        """Wake the watches of this kind; they wait on another event from now on."""
        self._news[resource].set()
        self._news[resource] = asyncio.Event()


def encode(value: Object) -> bytes:
    """Give JSON."""
    return msgspec.json.encode(value)


def decode(body: bytes) -> Json:
    """Read JSON; Refused 400."""
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise Refused(400, "BadRequest", f"the body is no JSON: {error}") from error


def status(refused: Refused) -> Object:
    """Give the Status that tells a refusal."""
    told = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": str(refused),
        "reason": refused.reason,
        "code": refused.code,
    }
    wait_s = refused.retry_after_s
    return told if wait_s is None else {**told, "details": {"retryAfterSeconds": wait_s}}


def _check(selector: Selector) -> None:
    try:
        parse(selector.labels)
    except BadSelector as error:
        raise Refused(400, "BadRequest", str(error)) from error


def _json_editor(patch: Json) -> Edit:
    def edit(before: Object) -> Object:
        try:
            patched: Object = json_patch(before, patch)
        except PatchFailed as error:
            raise Refused(422, "Invalid", str(error)) from error
        return patched

    return edit


def _line(kind: str, thing: Object) -> bytes:
    return encode({"type": kind, "object": thing}) + b"\n"


def _bookmark(resource: Resource, version: int) -> bytes:
    metadata = {"resourceVersion": str(version)}
    return _line("BOOKMARK", {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata})

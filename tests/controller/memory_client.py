"""A few objects in memory behind the client port: versions, preconditions, and faults on demand. No watch, no lists."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from kube import client as kube
from kube.clock import Clock

Key = tuple[str, str, str]


def merged(target: Any, patch: Any) -> Any:  # noqa: ANN401
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def json_patched(now: dict[str, Any], patch: list[dict[str, Any]]) -> dict[str, Any]:
    """RFC 6902, the operations `test` and `remove`."""
    body: dict[str, Any] = json.loads(json.dumps(now))
    for step in patch:
        *path, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
        place = body
        for part in path:
            place = place.get(part, {})
        if step["op"] == "test" and place.get(last) != step["value"]:
            raise kube.BadRequest(422, "Invalid", "testing path failed")
        if step["op"] == "remove":
            del place[last]
    return body


class MemoryClient:
    """Each of `interferences` happens right before a patch is carried out: another writer who is faster.

    A merge patch that changes nothing leaves the version as it is; `unknown` fields of a status are dropped, as an API
    server drops what a CRD does not know.
    """

    def __init__(self, clock: Clock, latency_s: float) -> None:
        self._clock = clock
        self._latency_s = latency_s
        self._version = 100
        self.objects: dict[Key, dict[str, Any]] = {}
        self.requests: list[tuple[str, Key]] = []
        self.errors: list[kube.KubeError] = []
        self.faults: list[tuple[str, kube.KubeError, bool]] = []
        self.interferences: list[Callable[[], None]] = []
        self.unknown: set[str] = set()
        self.changed: Callable[[Key, dict[str, Any]], None] = lambda _key, _object: None
        self.out: dict[Key, int] = {}
        self.most_out = 0

    def fail(self, verb: str, error: kube.KubeError, *, after: bool = False) -> None:
        """Answer the next request of that verb with the error, `after` carrying it out or instead."""
        self.faults.append((verb, error, after))

    def put(self, key: Key, body: dict[str, Any]) -> dict[str, Any]:
        """Store the object under a new version, as any writer would."""
        self._version += 1
        metadata = {"uid": f"uid-{self._version}", **body.get("metadata", {}), "resourceVersion": str(self._version)}
        self.objects[key] = {**body, "metadata": metadata}
        self.changed(key, self.objects[key])
        return self.objects[key]

    async def get(self, resource: kube.Resource, namespace: str, name: str) -> bytes:
        key = (resource.plural, namespace, name)
        return await self._request("get", key, lambda: self._existing(key))

    async def create(self, resource: kube.Resource, namespace: str, body: bytes) -> bytes:
        content = json.loads(body)
        key = (resource.plural, namespace, content["metadata"]["name"])

        def store() -> dict[str, Any]:
            if key in self.objects:
                raise kube.AlreadyExists(409, "AlreadyExists", "exists")
            return self.put(key, content)

        return await self._request("create", key, store)

    async def patch(
        self, resource: kube.Resource, namespace: str, name: str, body: bytes, *, kind: str, subresource: str = ""
    ) -> bytes:
        key = (resource.plural, namespace, name)

        def store() -> dict[str, Any]:
            if self.interferences:
                self.interferences.pop(0)()
            now = self._existing(key)
            patch = json.loads(body)
            if kind == "json":
                return self.put(key, json_patched(now, patch))
            self._same_version(now, patch)
            if subresource:
                patch = {subresource: patch[subresource]}
                patch = {part: {k: v for k, v in patch[part].items() if k not in self.unknown} for part in patch}
            result = merged(now, patch)
            return now if result == now else self.put(key, result)

        return await self._request("patch", key, store)

    async def replace(self, resource: kube.Resource, namespace: str, name: str, body: bytes) -> bytes:
        key = (resource.plural, namespace, name)

        def store() -> dict[str, Any]:
            self._same_version(self._existing(key), json.loads(body))
            return self.put(key, json.loads(body))

        return await self._request("replace", key, store)

    async def delete(
        self, resource: kube.Resource, namespace: str, name: str, *, uid: str, propagation: str = "Background"
    ) -> bytes:
        assert propagation == "Background"
        key = (resource.plural, namespace, name)

        def remove() -> dict[str, Any]:
            if self._existing(key)["metadata"]["uid"] != uid:
                raise kube.Conflict(409, "Conflict", "another uid")
            del self.objects[key]
            return {"kind": "Status", "status": "Success", "metadata": {}}

        return await self._request("delete", key, remove)

    async def list(
        self, selector: kube.Selector, *, limit: int = 500, token: str = "", resource_version: str = ""
    ) -> bytes:
        raise NotImplementedError

    def watch(self, selector: kube.Selector, *, resource_version: str, timeout_s: float) -> AsyncIterator[bytes]:
        raise NotImplementedError

    async def close(self) -> None:
        pass

    async def _request(self, verb: str, key: Key, act: Callable[[], dict[str, Any]]) -> bytes:
        self.requests.append((verb, key))
        self.out[key] = self.out.get(key, 0) + 1
        self.most_out = max(self.most_out, sum(self.out.values()))
        assert self.out[key] == 1, f"two requests for {key} are out"
        try:
            await self._clock.sleep(self._latency_s / 2)
            fault = next((one for one in self.faults if one[0] == verb), None)
            if fault is not None:
                self.faults.remove(fault)
                if fault[2]:
                    act()
                raise fault[1]
            answer = json.dumps(act()).encode()
            await self._clock.sleep(self._latency_s / 2)
        except kube.KubeError as error:
            self.errors.append(error)
            raise
        finally:
            self.out[key] -= 1
        return answer

    def _existing(self, key: Key) -> dict[str, Any]:
        if key not in self.objects:
            raise kube.NotFound(404, "NotFound", f"{key} not found")
        return self.objects[key]

    def _same_version(self, now: dict[str, Any], body: dict[str, Any]) -> None:
        wanted = body.get("metadata", {}).get("resourceVersion")
        if wanted is not None and wanted != now["metadata"]["resourceVersion"]:
            raise kube.Conflict(409, "Conflict", "the object has been modified")

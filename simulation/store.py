"""The objects of a simulated API server, with one resourceVersion counter and the history that watches read.

It keeps the API's rules on which a client's correctness rests: a write that changes nothing gets no new version;
a finalizer turns a deletion into a mark; a resourceVersion that is not in the history is refused, never taken for
"from now on" (failure case B21); an object that stops matching a selector is DELETED for who watches with it.
Invariant: stored objects are never changed in place, so a snapshot is a copy of the table.

What it lacks, on purpose: schemas and defaults (`simulation.schema` has those of custom resources), admission, garbage
collection (`simulation.collector`), grace periods, generateName. The history grows until `compact` is called.
"""

import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec

from kube.client import Resource, Selector
from kube.clock import Clock
from simulation.patches import Json
from simulation.selectors import Matcher

Object = dict[str, Json]
Key = tuple[str, str]
"""Namespace (empty for a kind without) and name."""

FIXED = ("name", "namespace", "uid", "creationTimestamp", "generation", "resourceVersion", "deletionTimestamp")
"""The metadata that a writer cannot change."""


class Refused(Exception):
    """The API's answer to a request that is not carried out: HTTP status, reason and message."""

    def __init__(self, code: int, reason: str, message: str, retry_after_s: float | None = None) -> None:
        """Keep the parts of the Status, and after how many seconds to ask again (None: not said)."""
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after_s = retry_after_s


class Change(msgspec.Struct, frozen=True):
    """One change: the object before and after (None: did not exist, does not exist any more)."""

    version: int
    before: Object | None
    after: Object | None


Listener = Callable[[Resource, Change], None]
"""Told of each change, in the write itself."""


Admit = Callable[[Resource, Object | None, Object], Object]
"""Takes an object before and after a write, and gives what is stored (`simulation.schema`). Raises Refused."""


class Store:
    """All objects of a fixed set of kinds."""

    def __init__(
        self, resources: Sequence[Resource], with_status: Collection[Resource], clock: Clock, uids: Callable[[], str]
    ) -> None:
        """Take the kinds, and which of them have a status subresource. `uids` gives a new UID at each call."""
        self.resources = tuple(resources)
        self.with_status = frozenset(with_status)
        self.version = 1
        self._oldest = 1
        self._clock = clock
        self._uids = uids
        self._admit: Admit | None = None
        self._listeners: list[Listener] = []
        self._objects: dict[Resource, dict[Key, Object]] = {resource: {} for resource in resources}
        self._history: dict[Resource, list[Change]] = {resource: [] for resource in resources}

    def subscribe(self, listener: Listener) -> None:
        """Tell the listener of every change from now on."""
        self._listeners.append(listener)

    def guard(self, admit: Admit) -> None:
        """Let every object pass this before it is stored, from now on."""
        self._admit = admit

    def snapshot(self, selector: Selector) -> list[Object]:
        """Give the objects that match now, in the order of their keys."""
        matches = Matcher(selector)
        return [each for _, each in sorted(self._objects[selector.resource].items()) if matches(each)]

    def get(self, resource: Resource, key: Key) -> Object:
        """Give an object; Refused 404."""
        try:
            return self._objects[resource][key]
        except KeyError:
            raise Refused(404, "NotFound", f'{resource.plural} "{key[1]}" not found') from None

    def create(self, resource: Resource, namespace: str, body: Object) -> Object:
        """Store a new object; Refused 409 AlreadyExists, 422."""
        name = body.get("metadata", {}).get("name", "")
        if not name:
            raise Refused(422, "Invalid", "metadata.name: a name is required")
        key = (namespace, name)
        if key in self._objects[resource]:
            raise Refused(409, "AlreadyExists", f'{resource.plural} "{name}" already exists')
        metadata = {
            **body["metadata"],
            **({"namespace": namespace} if namespace else {}),
            "uid": self._uids(),
            "creationTimestamp": self._now(),
            "generation": 1,
        }
        new = {**body, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        if resource in self.with_status:
            new.pop("status", None)
        if self._admit is not None:
            new = self._admit(resource, None, new)
        return self._commit(resource, key, None, new)

    def update(self, resource: Resource, key: Key, subresource: str, edit: Callable[[Object], Json]) -> Object:
        """Store `edit(object)`; a resourceVersion in it is the precondition. Refused 404, 409."""
        before = self.get(resource, key)
        edited = edit(before)
        if not isinstance(edited, dict) or not isinstance(edited.get("metadata"), dict):
            raise Refused(422, "Invalid", "metadata: an object with metadata is required")
        wanted, had = edited["metadata"], before["metadata"]
        if wanted.get("resourceVersion", had["resourceVersion"]) != had["resourceVersion"]:
            raise Refused(409, "Conflict", f'{resource.plural} "{key[1]}": the object has been modified')
        if wanted.get("uid", had["uid"]) != had["uid"]:
            raise Refused(409, "Conflict", f'{resource.plural} "{key[1]}": the UID in the precondition is another')
        if subresource == "status":
            after = {**before, "status": edited.get("status", {})}
        else:
            free = {name: value for name, value in wanted.items() if name not in FIXED}
            after = {**edited, "metadata": free | {name: had[name] for name in FIXED if name in had}}
            if resource in self.with_status:
                after.pop("status", None)
                after |= {"status": before["status"]} if "status" in before else {}
        if self._admit is not None:
            after = self._admit(resource, before, after)
        if after == before:
            return before
        if _payload(after) != _payload(before):
            after["metadata"]["generation"] = had["generation"] + 1
        if "deletionTimestamp" in had and not after["metadata"].get("finalizers"):
            return self._commit(resource, key, before, None)
        return self._commit(resource, key, before, after)

    def delete(self, resource: Resource, key: Key, uid: str | None) -> Object:
        """Remove an object, or mark it if it has finalizers; Refused 404, 409 if it has another UID."""
        before = self.get(resource, key)
        metadata = before["metadata"]
        if uid is not None and uid != metadata["uid"]:
            raise Refused(409, "Conflict", f'{resource.plural} "{key[1]}": the UID in the precondition is another')
        if not metadata.get("finalizers"):
            return self._commit(resource, key, before, None)
        if "deletionTimestamp" in metadata:
            return before
        marked = {**metadata, "deletionTimestamp": self._now()}
        return self._commit(resource, key, before, {**before, "metadata": marked})

    def changes(self, selector: Selector, after: int) -> Iterator[tuple[str, Object]]:
        """Give the watch events (type, object) after a version; Refused 410 if that is not in the history."""
        self.check_version(after)
        matches = Matcher(selector)
        history = self._history[selector.resource]
        for change in history[bisect_right(history, after, key=lambda change: change.version) :]:
            was = change.before if change.before is not None and matches(change.before) else None
            now = change.after if change.after is not None and matches(change.after) else None
            if now is not None:
                yield ("MODIFIED" if was is not None else "ADDED"), now
            elif was is not None:
                yield "DELETED", {**was, "metadata": {**was["metadata"], "resourceVersion": str(change.version)}}

    def check_version(self, version: int) -> None:
        """Refuse (410) a version that is older than the history, or that never was."""
        if not self._oldest <= version <= self.version:
            raise Refused(410, "Expired", f"too old resource version: {version} ({self._oldest} to {self.version})")

    def compact(self) -> None:
        """Forget the history up to now, as etcd's compaction does."""
        self._oldest = self.version
        for history in self._history.values():
            history.clear()

    def _commit(self, resource: Resource, key: Key, before: Object | None, after: Object | None) -> Object:
        self.version += 1
        if after is not None:
            after = {**after, "metadata": {**after["metadata"], "resourceVersion": str(self.version)}}
            self._objects[resource][key] = after
        else:
            del self._objects[resource][key]
        change = Change(self.version, before, after)
        self._history[resource].append(change)
        for listener in self._listeners:
            listener(resource, change)
        return after if after is not None else before or {}

    def _now(self) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock.now_ms() / 1000))


def _payload(value: Object) -> Object:
    """Give what counts for `generation`."""
    return {name: each for name, each in value.items() if name not in {"metadata", "status"}}

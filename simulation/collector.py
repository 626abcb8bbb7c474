"""The garbage collector: what is owned goes when its last owner is gone (background propagation).

An owner that is gone while others remain is taken out of the list, as the real one does. Not simulated: foreground
deletion, orphaning, owners of kinds that the store does not serve (they count as gone).
"""

from collections import defaultdict

from kube.client import Resource
from simulation.store import Change, Key, Object, Refused, Store
from simulation.timing import Delays, Timers, Timing

Place = tuple[Resource, Key]


class Collector:
    """Follows owners and what they own."""

    def __init__(self, store: Store, timers: Timers, delays: Delays, timing: Timing) -> None:
        self._store = store
        self._timers = timers
        self._delays = delays
        self._timing = timing
        self._alive: set[str] = set()
        self._owned: defaultdict[str, dict[Place, None]] = defaultdict(dict)
        """By the owner's UID. An ordered set: the order of what follows from it must be the same in every run."""
        self._count = 0

    def observe(self, resource: Resource, change: Change) -> None:
        """Take in a change of any object."""
        before, after = _owners(change.before), _owners(change.after)
        thing = change.after or change.before or {}
        place = (resource, (thing["metadata"].get("namespace", ""), thing["metadata"]["name"]))
        for owner in before:
            if owner not in after:
                self._owned[owner].pop(place, None)
        for owner in after:
            self._owned[owner][place] = None
        uid = thing["metadata"]["uid"]
        if change.after is None:
            self._alive.discard(uid)
            for dependent in self._owned.pop(uid, {}):
                self._look_at(dependent)
        else:
            self._alive.add(uid)
            if before != after and not self._alive.issuperset(after):
                self._look_at(place)

    def _look_at(self, place: Place) -> None:
        self._count += 1
        delay = self._delays.draw(self._timing.collected, "collected", *place[1], self._count)
        self._timers.after(delay, lambda: self._collect(place))

    def _collect(self, place: Place) -> None:
        """Delete the object if no owner is left, else take out those that are gone."""
        resource, key = place
        try:
            found = self._store.get(resource, key)
        except Refused:
            return  # It is gone already.
        owners = found["metadata"].get("ownerReferences", [])
        left = [owner for owner in owners if owner["uid"] in self._alive]
        if owners and not left:
            self._store.delete(resource, key, found["metadata"]["uid"])
        elif left != owners:
            self._store.update(resource, key, "", lambda thing: _with_owners(thing, left))


def _owners(thing: Object | None) -> list[str]:
    if thing is None:
        return []
    return [owner["uid"] for owner in thing["metadata"].get("ownerReferences", [])]


def _with_owners(thing: Object, owners: list[Object]) -> Object:
    return {**thing, "metadata": {**thing["metadata"], "ownerReferences": owners}}

"""The DaemonSet controller and the scheduler: a pod on each node that a DaemonSet selects.

As in a real cluster: a pod is made once the node has the label and ended when it has it no longer; a pod that failed is
replaced; a DaemonSet that is being deleted makes and ends nothing (its pods go with it, by the garbage collector). The
pod is a separate write from its place on the node. Not simulated: taints, room on the node, rolling updates, status.
"""

import itertools
import string
from collections.abc import Iterator, Mapping

import msgspec

from kube.client import Resource
from kube.names import DAEMON_SETS, NODES, PODS
from simulation.store import Change, Key, Object, Refused, Store
from simulation.timing import Delays, Timers, Timing

ENDING = "simulation.cliquelog.dev/grace-period"
"""A finalizer on pods that have a node. It stands for the grace period: a pod that is deleted stays, marked, until its
kubelet has ended it."""

DIGITS = string.digits + string.ascii_lowercase


class Slot(msgspec.Struct):
    """A DaemonSet's place on a node: the pod that is there, how many there were, and the name of the next one."""

    pod: Key | None = None
    pods: int = 0
    coming: bool = False
    next_name: str = ""


class DaemonSets:
    """Reacts to nodes, DaemonSets and pods."""

    def __init__(self, store: Store, timers: Timers, delays: Delays, timing: Timing) -> None:
        self._store = store
        self._timers = timers
        self._delays = delays
        self._timing = timing
        self._labels: dict[str, Mapping[str, str]] = {}
        self._sets: dict[str, Object] = {}
        self._slots: dict[tuple[str, str], Slot] = {}

    def observe(self, resource: Resource, change: Change) -> None:
        """Take in a change."""
        thing = change.after or change.before or {}
        if resource == NODES:
            self._see_node(thing["metadata"], gone=change.after is None)
        elif resource == DAEMON_SETS:
            self._see_set(thing, gone=change.after is None)
        elif resource == PODS:
            self._see_pod(change)

    def keep_name(self, node: str) -> None:
        """Let the next pod on this node have its predecessor's name, which no real DaemonSet does but others do."""
        for slot in self._on(node):
            if slot.pod is not None:
                slot.next_name = slot.pod[1]

    def pods_on(self, node: str) -> list[Key]:
        """Give the daemon pods on a node."""
        return [slot.pod for slot in self._on(node) if slot.pod is not None]

    def end(self, pod: Key) -> None:
        """Delete a pod, as a person or the controller does; one that has a node stays for its grace period."""
        try:
            self._store.delete(PODS, pod, None)
        except Refused:
            return  # It is gone already.

    def _on(self, node: str) -> Iterator[Slot]:
        return (slot for (_, name), slot in self._slots.items() if name == node)

    def _see_node(self, metadata: Object, *, gone: bool) -> None:
        name, labels = metadata["name"], metadata.get("labels", {})
        if gone:
            self._labels.pop(name, None)
        elif self._labels.get(name) == labels:
            return
        else:
            self._labels[name] = labels
        for uid in self._sets:
            self._reconcile(uid, name)

    def _see_set(self, found: Object, *, gone: bool) -> None:
        uid = found["metadata"]["uid"]
        if gone:
            del self._sets[uid]
            return
        self._sets[uid] = found
        for name in self._labels:
            self._reconcile(uid, name)

    def _see_pod(self, change: Change) -> None:
        thing = change.after or change.before or {}
        key = (thing["metadata"]["namespace"], thing["metadata"]["name"])
        node = _meant_for(thing)
        for owner in thing["metadata"].get("ownerReferences", []):
            slot = self._slots.get((owner["uid"], node))
            if slot is not None and change.after is None and slot.pod == key:
                slot.pod = None
            if change.after is None or thing.get("status", {}).get("phase") == "Failed":
                self._reconcile(owner["uid"], node)

    def _reconcile(self, uid: str, node: str) -> None:
        """Make a pod, or end it, a little later, if it is still to be so then."""
        slot = self._slots.setdefault((uid, node), Slot()) if self._wants(uid, node) else self._slots.get((uid, node))
        if slot is None or slot.coming or uid not in self._sets or (slot.pod is None and not self._wants(uid, node)):
            return
        if slot.pod is not None and self._wants(uid, node) and not self._failed(slot.pod):
            return
        slot.coming = True
        delay = self._delays.draw(self._timing.created, "created", node, slot.pods, slot.pod is None)
        self._timers.after(delay, lambda: self._act(uid, node, slot))

    def _act(self, uid: str, node: str, slot: Slot) -> None:
        slot.coming = False
        if uid not in self._sets or "deletionTimestamp" in self._sets[uid]["metadata"]:
            return
        if slot.pod is None:
            if self._wants(uid, node):
                self._create(uid, node, slot)
        elif not self._wants(uid, node) or self._failed(slot.pod):
            self.end(slot.pod)

    def _wants(self, uid: str, node: str) -> bool:
        found = self._sets.get(uid)
        if found is None or "deletionTimestamp" in found["metadata"] or node not in self._labels:
            return False
        labels = self._labels[node]
        selector = found["spec"]["template"]["spec"].get("nodeSelector", {})
        return all(labels.get(name) == value for name, value in selector.items())

    def _failed(self, pod: Key) -> bool:
        return bool(self._store.get(PODS, pod).get("status", {}).get("phase") == "Failed")

    def _create(self, uid: str, node: str, slot: Slot) -> None:
        found = self._sets[uid]
        metadata, template = found["metadata"], found["spec"]["template"]
        namespace, name = metadata["namespace"], slot.next_name or self._new_name(metadata, node, slot.pods)
        owner = {"apiVersion": DAEMON_SETS.api_version, "kind": DAEMON_SETS.kind, "name": metadata["name"], "uid": uid}
        body = {
            "metadata": {
                "name": name,
                "labels": template["metadata"].get("labels", {}),
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": {**template["spec"], "affinity": _affinity(node)},
        }
        slot.pods, slot.pod, slot.next_name = slot.pods + 1, (namespace, name), ""
        made = self._store.create(PODS, namespace, body)["metadata"]
        delay = self._delays.draw(self._timing.bound, "bound", node, slot.pods)
        self._timers.after(delay, lambda: self._bind((namespace, name), made["uid"], node))

    def _new_name(self, metadata: Object, node: str, pods: int) -> str:
        """Give a name with five characters of its own, as the API server does for a `generateName`."""
        for attempt in itertools.count():
            drawn = self._delays.draw((0, 36**5), "name", node, pods, attempt)
            suffix = "".join(DIGITS[int(drawn) // 36**place % 36] for place in range(5))
            name = f"{metadata['name']}-{suffix}"
            try:
                self._store.get(PODS, (metadata["namespace"], name))
            except Refused:
                return name
        raise AssertionError("itertools.count ends")

    def _bind(self, pod: Key, uid: str, node: str) -> None:
        """Place the pod on its node, if both are there still."""
        try:
            found = self._store.get(PODS, pod)
        except Refused:
            return
        if found["metadata"]["uid"] == uid and node in self._labels:
            self._store.update(PODS, pod, "", lambda thing: _bound(thing, node))


def _bound(pod: Object, node: str) -> Object:
    metadata = {**pod["metadata"], "finalizers": [*pod["metadata"].get("finalizers", []), ENDING]}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}}


def _affinity(node: str) -> Object:
    """Give the affinity by which the real controller says for which node a pod is."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def _meant_for(pod: Object) -> str:
    """Give the node of a pod that may not be bound yet; empty for one that no DaemonSet made."""
    spec = pod.get("spec", {})
    if "nodeName" in spec:
        return str(spec["nodeName"])
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = required.get("nodeSelectorTerms", [])
    return str(terms[0]["matchFields"][0]["values"][0]) if terms else ""

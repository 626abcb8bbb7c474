"""The trace of a run: who did what when, in virtual time. Its hash is the proof that a run was repeated exactly."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable

from kube.client import Resource
from kube.names import CDCS, CLIQUE_LABEL, DOMAIN_LABEL, LEASES, NODE_CLIQUE_LABEL, NODES, PODS, POSITION_ANNOTATION
from simulation.store import Change, Object, Store

UID = re.compile(r"([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Trace:
    """Lines in the order in which things happened."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Take the time from `now`, in seconds."""
        self._now = now
        self.lines: list[str] = []
        self.faults: Counter[str] = Counter()
        """Faults that were injected, and what else took part in the run, by kind."""

    def note(self, who: str, what: str) -> None:
        """Add a line."""
        self.lines.append(f"{self._now():10.3f}  {who:<12} {what}")

    def fault(self, who: str, kind: str, what: str) -> None:
        """Add a line for a fault that was injected, and count it."""
        self.faults[kind] += 1
        self.note(who, f"[{kind}] {what}")

    def count(self, kinds: Iterable[str]) -> None:
        """Count what took part in a run without being a fault."""
        self.faults.update(kinds)

    def digest(self) -> str:
        """Give the hash of all lines."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()


def follow(trace: Trace, store: Store) -> None:
    """Add a line for every change of an object, but for Leases, which change for ever."""

    def observe(resource: Resource, change: Change) -> None:
        if resource == LEASES:
            return
        thing = change.after or change.before or {}
        name = f"{resource.plural} {_short(thing['metadata']['name'])} @{change.version}"
        trace.note("api", f"{name} {'gone' if change.after is None else _essence(resource, change.after)}")

    store.subscribe(observe)


def _essence(resource: Resource, thing: Object) -> str:
    """Give what matters of an object, in a line."""
    metadata = thing["metadata"]
    going = " going" if "deletionTimestamp" in metadata else ""
    if resource == CDCS:
        rows = " ".join(
            f"{row.get('index')}={row['nodeName']}/{row['ipAddress'] or '-'}/{row['status']}"
            for row in thing.get("daemons", [])
        )
        return f"[{rows}] at {(metadata.get('annotations') or {}).get(POSITION_ANNOTATION, 'nowhere')}{going}"
    if resource == PODS:
        status = thing.get("status", {})
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", []))
        node, phase = thing.get("spec", {}).get("nodeName", "-"), status.get("phase", "Pending")
        clique = (metadata.get("labels") or {}).get(CLIQUE_LABEL, "?")[-1:] or "none"
        return f"on {node} {phase} {status.get('podIP', '-')} clique {clique}{' ready' if ready else ''}{going}"
    if resource == NODES:
        labels = metadata.get("labels") or {}
        return f"domain {labels.get(DOMAIN_LABEL, '-')[:8]} clique {labels.get(NODE_CLIQUE_LABEL, '-')[-1]}{going}"
    return f"finalizers {len(metadata.get('finalizers') or [])}{going}"


def _short(name: str) -> str:
    """Give a name with UIDs cut to their first block, which tells them apart within a run."""
    return UID.sub(r"\1", name)

"""CDCs as upstream's components write them: whole objects, by optimistic locking.

Source: interop facts 1.2 and 4.3.
"""

from collections.abc import Sequence

import msgspec

from kube.names import CDCS, CLIQUE_LABEL, DOMAIN_LABEL
from simulation.informer import version_of
from simulation.store import Object
from simulation.work_queue import NotYet


class Told(msgspec.Struct, frozen=True):
    """What a watch told of a CDC at this resourceVersion; `clique` is None if it is gone, or was never there (0)."""

    version: int
    clique: Object | None


def newest(seen: Told, own: Object | None) -> Object | None:
    """Give the CDC as a client knows it that reads its own writes: the later of what it saw and what it wrote."""
    return own if version_of(own) > seen.version else seen.clique


def new_clique(domain: str, clique: str, pod: Object, rows: Sequence[Object]) -> Object:
    """Give the body that creates a clique's CDC."""
    metadata = {
        "name": f"{domain}.{clique}",
        "labels": {DOMAIN_LABEL: domain, CLIQUE_LABEL: clique},
        "ownerReferences": [_owner(pod)],
    }
    return {"apiVersion": CDCS.api_version, "kind": CDCS.kind, "metadata": metadata, "daemons": list(rows)}


def with_rows(clique: Object, rows: Sequence[Object], owner: Object | None) -> Object:
    """Give the CDC with these rows and, if there is an owner, its pod among the owners; the version stays its own."""
    owners = clique["metadata"].get("ownerReferences", [])
    if owner is not None and all(one["uid"] != owner["metadata"]["uid"] for one in owners):
        owners = [*owners, _owner(owner)]
    return {**clique, "metadata": {**clique["metadata"], "ownerReferences": owners}, "daemons": list(rows)}


def rows_of(clique: Object) -> list[Object]:
    """Give the rows."""
    rows: list[Object] = clique.get("daemons") or []
    return rows


def row_of(clique: Object, node: str) -> Object | None:
    """Give the node's row."""
    return next((row for row in rows_of(clique) if row["nodeName"] == node), None)


def lowest_free(rows: Sequence[Object], capacity: int) -> int:
    """Give the lowest index that no row has; NotYet if all are taken."""
    taken = {row.get("index") for row in rows}
    index = next((index for index in range(capacity) if index not in taken), None)
    if index is None:
        raise NotYet(f"all {capacity} indices are taken")
    return index


def is_ready(pod: Object) -> bool:
    """Tell whether the pod runs and its Ready condition is true."""
    status = pod.get("status", {})
    conditions = {one["type"]: one["status"] for one in status.get("conditions") or []}
    return status.get("phase") == "Running" and conditions.get("Ready") == "True"


def _owner(pod: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}

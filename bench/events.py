"""Records as a domain's formation makes them, for measurements."""

from collections.abc import Iterator

from eventlog.codec import entry
from eventlog.events import CdcSeen, DaemonPodSeen, Row
from eventlog.record import Entry

NODES_PER_CLIQUE = 18
CLIQUES = 280


def formation(count: int) -> Iterator[Entry]:
    """Give `count` entries over 5,040 nodes in 280 cliques: pods, and every 18th time a clique's CDC."""
    for number in range(count):
        node = number % (CLIQUES * NODES_PER_CLIQUE)
        clique = f"7b0a3c52-5d3e-4f0c-9c1e-3f1f6f5b2a11.{node // NODES_PER_CLIQUE}"
        event = cdc(clique, number) if node % NODES_PER_CLIQUE == 17 else pod(clique, node, number)
        yield entry(clique, event, timestamp_ms=1_780_000_000_000 + number, controller="cliquelog-0")


def pod(clique: str, node: int, version: int) -> DaemonPodSeen:
    """Give an observation of the node's daemon pod, ready."""
    return DaemonPodSeen(
        domain="3f1c8a1e-6a64-4c3e-8f5b-0d6c1d1b7a90",
        node=f"node-{node:05}",
        namespace="nvidia-dra-driver",
        name=f"computedomain-daemon-{node:05}",
        uid=f"a1b2c3d4-0000-4000-8000-{node:012}",
        resource_version=version,
        clique=clique,
        ip=f"10.42.{node // 250}.{node % 250}",
        ready=True,
        reader=True,
    )


def cdc(clique: str, version: int) -> CdcSeen:
    """Give an observation of the clique's CDC with all its rows."""
    rows = tuple(Row(f"node-{index:05}", f"10.42.0.{index}", index, "Ready") for index in range(NODES_PER_CLIQUE))
    return CdcSeen(
        domain="3f1c8a1e-6a64-4c3e-8f5b-0d6c1d1b7a90",
        clique=clique,
        namespace="nvidia-dra-driver",
        name="computedomain-clique",
        uid="c0c0c0c0-0000-4000-8000-000000000001",
        resource_version=version,
        rows=rows,
        position="17/4021",
    )

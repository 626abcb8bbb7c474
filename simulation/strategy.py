"""What gives the daemons of a simulated cluster their rows: the part that is compared, behind one interface.

`simulate` composes one of them with the same stand-ins for nodes, DaemonSet controller and kubelets: our controller (a
process of its own), `simulation.negotiation` (each daemon negotiates its index, as upstream does) or
`simulation.central_queue` (upstream's early central controller). The stand-ins only see what each of them writes.
"""

from collections.abc import Callable
from typing import Protocol

from kube.client import KubeClient

CliqueOf = Callable[[str], str]
"""Gives a node's clique ID, empty for a node without a fabric: what the kubelet plugin reads from the driver and tells
a daemon in its environment. It never comes from the API server."""


class Strategy(Protocol):
    """One way to give each daemon its row in its clique's CDC."""

    async def run(self, client: KubeClient) -> None:
        """Give rows to all daemons that come, until cancelled. It leaves no task behind."""

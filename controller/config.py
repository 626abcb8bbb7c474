"""What a controller is told at start, and where its log is."""

import msgspec

from controller.coalescer import Limits
from controller.consumer import ConsumerConfig
from controller.lease import LeaseConfig
from controller.manifests import DaemonDeployment
from controller.pacing import Pace
from kube import names
from kube.client import Selector
from projections.settings import Settings


class RunConfig(msgspec.Struct, frozen=True):
    """All that `cliquelog run` is told.

    `identity` is this process's name in records, Leases and Events. `lease` is None without leader election. `listen`
    is host and port for metrics and probes, None for none. `everywhere` watches daemons, DaemonSets and CDCs in all
    namespaces instead of the driver's alone (failure case A52: an earlier install elsewhere). `workers` bounds requests
    in flight. `recheck_s` is how often a name that somebody else has taken is looked at again, and what
    no watch can prove.
    """

    identity: str
    version: str
    log: str
    partitions: int | None
    settings: Settings
    deployment: DaemonDeployment
    lease: LeaseConfig | None
    listen: tuple[str, int] | None
    everywhere: bool
    workers: int
    pace: Pace = Pace()
    limits: Limits = Limits()
    recheck_s: float = 60.0
    consumer: ConsumerConfig = ConsumerConfig()

    def selectors(self) -> tuple[list[Selector], list[Selector]]:
        """Give what is watched; see `watched`."""
        return watched("" if self.everywhere else self.settings.namespace)

    def shown(self) -> dict[str, str]:
        """Give the settings that a record of the start states."""
        return {
            "namespace": self.settings.namespace,
            "capacity": str(self.settings.capacity),
            "image": self.deployment.image,
            "workers": str(self.workers),
            "pace": msgspec.json.encode(self.pace).decode(),
            "limits": msgspec.json.encode(self.limits).decode(),
        }


def watched(namespace: str) -> tuple[list[Selector], list[Selector]]:
    """Give what is watched, in two groups: what the second group's first lists prove concerns the first.

    A complete list of pods proves which rows have no daemon, one of ComputeDomains which labels have no domain: both
    only of what was seen before the list began. `namespace` is the driver's, "" for daemons and CDCs anywhere.
    """
    labelled = names.DOMAIN_LABEL
    first = [
        Selector(names.CDCS, namespace),
        Selector(names.DAEMON_SETS, namespace, labelled),
        Selector(names.CLAIM_TEMPLATES, "", labelled),
        Selector(names.NODES, "", labelled),
    ]
    return first, [Selector(names.PODS, namespace, labelled), Selector(names.COMPUTE_DOMAINS)]

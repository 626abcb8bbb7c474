"""What a controller is told at start, and where its log is."""

from pathlib import Path

import msgspec

from controller.engines.consumer import ConsumerConfig
from controller.engines.stall import Patience
from controller.lease import LeaseConfig
from controller.writing.coalescer import Limits
from controller.writing.manifests import DaemonDeployment
from controller.writing.pacing import Pace
from kube import names
from kube.client import Selector
from projections.settings import Settings


class GroupConfig(msgspec.Struct, frozen=True):
    """The consumer group that shares the partitions, and this process's name in it if it is a static member.

    `ending_s` is how long the process may take to end before it is cut off.
    """

    name: str
    instance: str | None
    patience: Patience = Patience()
    ending_s: float = 20.0


class RunConfig(msgspec.Struct, frozen=True):
    """All that `cliquelog run` is told.

    `log` is the log's place, and `kafka_config` the file that says how to speak to its brokers.
    `identity` is this process's name in records, Leases and Events. `lease` is None without leader election. `listen`
    is host and port for metrics and probes, None for none. `everywhere` watches daemons, DaemonSets and CDCs in all
    namespaces instead of the driver's alone (failure case A52: an earlier install elsewhere). `workers` bounds requests
    in flight. `group` is None where this process has all partitions. `recheck_s` is how often a name that
    somebody else has taken is looked at again, and what no watch can prove.
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
    group: GroupConfig | None = None
    pace: Pace = Pace()
    limits: Limits = Limits()
    recheck_s: float = 60.0
    consumer: ConsumerConfig = ConsumerConfig()
    kafka_config: Path | None = None

    def selectors(self) -> tuple[list[Selector], list[Selector]]:
        """Give what is watched; see `watched`."""
        return watched("" if self.everywhere else self.settings.namespace)

    def shown(self) -> dict[str, str]:
        """Give the settings that a record of the start states."""
        engine = {"engine": "embedded"} if self.group is None else {"engine": "faust", "group": self.group.name}
        return {
            **engine,
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

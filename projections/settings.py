"""What the fold's readers are told from outside. The fold itself takes none of it: it depends on records only."""

import msgspec


class Settings(msgspec.Struct, frozen=True):
    """Settings that decisions and effects are computed with.

    `namespace` is the driver's namespace, where CDCs, DaemonSets and daemon claim templates live. `capacity` is the
    most daemons that one clique may have (18 on GB200/GB300), used for a domain whose DaemonSet does not state its own.
    `finalizer` is the finalizer on ComputeDomains, their DaemonSets and claim templates. `status_rows` bounds
    `status.nodes` (rule 11): a larger domain's status lists only the nodes without a fabric, which have no CDC.
    `host_managed` says that the hosts run IMEX: no DaemonSet and no daemon claim template are made (failure case A22).
    `conditions` says that the installed ComputeDomain CRD keeps `status.conditions`. Upstream's drops them without a
    word: asked for there, they would call for a write that changes nothing, so then Events alone tell people.
    """

    namespace: str
    capacity: int = 18
    finalizer: str = "resource.nvidia.com/computeDomain"
    status_rows: int = 100
    host_managed: bool = False
    conditions: bool = True

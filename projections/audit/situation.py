"""Situation: all that a history, and a live controller, tell of one node at one time."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from eventlog.events import DaemonPodSeen, DomainSeen
from projections.audit.standing import Standing, Trail
from projections.buckets import values
from projections.clique import CliqueState, Membership
from projections.domain import DomainState
from projections.visibility import WatchState

Delay = Literal["in-flight", "held", "paced", "backing-off", "throttled", "futile", "queued"]


class Pending(msgspec.Struct, frozen=True):
    """A write of the node's CDC that a live controller has not made yet: why, and for how many seconds it still waits.

    `in-flight`: it is sent. `held`: the watch has not shown the write before it. `paced`: it waits for company.
    `backing-off`: the one before failed. `throttled`: the API server asked for a pause, or the ceiling is reached.
    `futile`: the server took the same write for no change. `queued`: others come first.
    """

    delay: Delay
    wait_s: float


class Situation(msgspec.Struct, frozen=True):
    """What is known of `node` at `at_ms`.

    `subject` is what was asked for: the node's name, or a daemon pod's (`pod` is its UID then, else empty). `trail` is
    None if no record speaks of it; `clique` is empty if it is not known. `decides` says that a controller of ours gives
    the indices in this history. `watches` are the visibility marks by kind. `pending` only a live controller knows.
    """

    subject: str
    node: str
    pod: str
    clique: str
    trail: Trail | None
    state: CliqueState | None
    overall: DomainState | None
    watches: Mapping[str, WatchState]
    decides: bool
    at_ms: int
    pending: Pending | None = None

    @property
    def standing(self) -> Standing:
        """The node's standing."""
        return self.trail.standing if self.trail is not None else Standing()

    @property
    def domain(self) -> str:
        """UID of the ComputeDomain, empty if the node is in none."""
        return self.trail.domain if self.trail is not None else ""

    @property
    def membership(self) -> Membership:
        """What is known of the domain in the clique."""
        return self.state.domains.get(self.domain, Membership()) if self.state is not None else Membership()

    @property
    def seen(self) -> DomainSeen | None:
        """The ComputeDomain itself."""
        return self.overall.domain if self.overall is not None else None

    @property
    def domain_name(self) -> str:
        """The domain as people call it: `namespace/name`, else its UID."""
        return f"{self.seen.namespace}/{self.seen.name}" if self.seen is not None and self.seen.name else self.domain

    def daemon(self) -> DaemonPodSeen | None:
        """Give the daemon pod that counts, with its name, if the domain's own records tell it."""
        pod = self.standing.pod
        if pod is None or isinstance(pod, DaemonPodSeen):
            return pod
        pods = () if self.overall is None else (*values(self.overall.fabric_pods), *values(self.overall.bare_pods))
        return next((one for one in pods if one.uid == pod.uid), None)

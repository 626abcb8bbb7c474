"""Metrics in Prometheus' format; `docs/metrics.md` lists them for people.

One object, made by the composition root, holds a registry of its own: nothing is registered at import, so two
controllers in one process (a test, a simulation) do not share counts. Labels have few values by construction: kinds,
verbs, statuses, event types; never names of objects.
"""

import functools
from collections.abc import Callable, Mapping

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from controller.writing.coalescer import Depth

LATENCY_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""From a request that an idle API server answers to one that a client gives up on."""


class Metrics:
    """What a controller counts."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "cliquelog_requests", "Requests sent by the applier", ["resource", "verb", "code"], registry=registry
        )
        self._conflicts = Counter(
            "cliquelog_conflicts", "Requests answered with 409", ["resource", "verb"], registry=registry
        )
        self._throttles = Counter(
            "cliquelog_throttles", "Requests answered with 429", ["resource", "verb"], registry=registry
        )
        self._latency = Histogram(
            "cliquelog_request_duration_seconds",
            "Time from a request to its answer",
            ["resource", "verb"],
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )
        self._appended = Counter("cliquelog_records_appended", "Records appended", ["event"], registry=registry)
        self._folded = Counter("cliquelog_records_folded", "Records folded", ["partition"], registry=registry)
        self._inadmissible = Counter(
            "cliquelog_decisions_inadmissible", "Decisions that the fold did not admit", ["decision"], registry=registry
        )
        self._undecodable = Counter(
            "cliquelog_records_undecodable", "Records passed over: no events", ["partition"], registry=registry
        )
        self._relists = Counter("cliquelog_relists", "Complete lists begun", ["resource", "cause"], registry=registry)
        self._gaps = Counter("cliquelog_watch_gaps", "Gaps in the view of a kind", ["resource"], registry=registry)
        self._rows = Gauge("cliquelog_rows", "Rows that the folded state wants", ["status"], registry=registry)
        self._leader = Gauge("cliquelog_leader", "1 while this process leads", registry=registry)
        self._leader.set(0)
        self._partitions = Gauge("cliquelog_partitions_assigned", "Partitions that this process has", registry=registry)
        self._rebalances = Counter("cliquelog_rebalances", "Rebalances of the consumer group", registry=registry)
        self._restore = Histogram(
            "cliquelog_restore_seconds",
            "Time from the assignment of a partition until its state is that of the log's end",
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )
        self._lag = Gauge(
            "cliquelog_lag_records", "Records of the assigned partitions that are not folded yet", registry=registry
        )
        self._others = Gauge(
            "cliquelog_other_groups", "Other groups, or single controllers, that work on this log", registry=registry
        )
        self._queue = Gauge("cliquelog_queue_length", "Objects in the coalescer", ["state"], registry=registry)

    def request(self, resource: str, verb: str, code: str, seconds: float) -> None:
        """Count a request; `code` is 2xx, the error's HTTP status, or `none` where no answer came."""
        self._requests.labels(resource, verb, code).inc()
        self._latency.labels(resource, verb).observe(seconds)
        if code == "409":
            self._conflicts.labels(resource, verb).inc()
        if code == "429":
            self._throttles.labels(resource, verb).inc()

    def appended(self, event: str, records: int) -> None:
        """Count records that were appended; `event` is their event's tag."""
        self._appended.labels(event).inc(records)

    def folded(self, partition: int, records: int) -> None:
        """Count records that were folded."""
        self._folded.labels(str(partition)).inc(records)

    def inadmissible(self, decision: str) -> None:
        """Count a decision that came too late or was wrong; `decision` is its event's tag."""
        self._inadmissible.labels(decision).inc()

    def undecodable(self, partition: int) -> None:
        """Count a record that is no event of the schema version that it states."""
        self._undecodable.labels(str(partition)).inc()

    def relist(self, resource: str, cause: str) -> None:
        """Count a complete list; `cause` as in the event RelistBegan, one of few."""
        self._relists.labels(resource, cause).inc()

    def gap(self, resource: str) -> None:
        """Count a gap in the watch of a kind."""
        self._gaps.labels(resource).inc()

    def watch_rows(self, count: Callable[[], Mapping[str, int]]) -> None:
        """Take the number of rows that the folded state wants, by status, whenever the metrics are read."""
        for status in ("Ready", "NotReady"):
            self._rows.labels(status).set_function(functools.partial(_rows_of, count, status))

    def leading(self, *, leads: bool) -> None:
        """Set whether this process leads."""
        self._leader.set(int(leads))

    def partitions(self, assigned: int) -> None:
        """Set how many partitions this process has."""
        self._partitions.set(assigned)

    def rebalanced(self) -> None:
        """Count a rebalance."""
        self._rebalances.inc()

    def restored(self, seconds: float) -> None:
        """Count a partition that was restored, and how long that took."""
        self._restore.observe(seconds)

    def lag(self, records: int) -> None:
        """Set how many records of the assigned partitions are not folded yet."""
        self._lag.set(records)

    def other_groups(self, groups: int) -> None:
        """Set how many other groups, or single controllers, were found to work on this log."""
        self._others.set(groups)

    def watch_queue(self, depth: Callable[[], Depth]) -> None:
        """Take the coalescer's depth whenever the metrics are read."""
        for state in Depth.__struct_fields__:
            self._queue.labels(state).set_function(functools.partial(_count, depth, state))

    def render(self) -> bytes:
        """Give all of it in the text format."""
        return generate_latest(self._registry)


def _count(depth: Callable[[], Depth], state: str) -> float:
    return float(getattr(depth(), state))


def _rows_of(count: Callable[[], Mapping[str, int]], status: str) -> float:
    return float(count().get(status, 0))

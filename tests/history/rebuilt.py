"""Rebuilds the audit logs of `docs/incidents/`: public reports, told with names of our own.

`python -m tests.history.rebuilt` writes them; a test sees to it that they are current. What happened and in which
order is from the reports that each walkthrough names; times between what a report tells are made up.
"""

import json
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

INCIDENTS = Path(__file__).parents[2] / "docs" / "incidents"
START_MS = 1_789_120_800_000  # 2026-09-11T10:00:00Z
CLIQUE = "7b0a3c52-5d3e-4f0c-9c1e-3f1f6f5b2a11.32766"
DOMAIN = "3f1c8a1e-6a64-4c3e-8f5b-0d6c1d1b7a90"
OTHER = "9d2e7c44-1b0f-4e6d-8c35-5a7e9b1f2c03"
NAMESPACE = "dra-driver-nvidia-gpu"
SERVICE_ACCOUNT = f"system:serviceaccount:{NAMESPACE}:"
DAEMON = f"{SERVICE_ACCOUNT}compute-domain-daemon-service-account"
CONTROLLER = f"{SERVICE_ACCOUNT}compute-domain-controller"
KUBELET = "system:node"
DAEMON_SET = "system:serviceaccount:kube-system:daemon-set-controller"
USER = "trainer@example.com"
API = "resource.nvidia.com/v1beta1"

Json = dict[str, Any]
Rows = list[Json]


def rfc3339(at_ms: int) -> str:
    seconds, fraction = divmod(at_ms, 1000)
    minutes, second = divmod(seconds - START_MS // 1000, 60)
    return f"2026-09-11T{10 + minutes // 60:02}:{minutes % 60:02}:{second:02}.{fraction:03}000Z"


class AuditLog:
    """An API server that keeps nothing but versions, and logs what it is told to have answered."""

    def __init__(self) -> None:
        self.at_ms = 0
        self.lines: list[str] = []
        self._version = 1000
        self._generation: dict[str, int] = {}
        self._versions: dict[str, int] = {}

    def domain(self, uid: str = DOMAIN, name: str = "llama", *, by: str = USER, **metadata: object) -> None:
        spec = {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": f"{name}-channel"}}}
        body = {"kind": "ComputeDomain", "apiVersion": API, "spec": spec}
        self._write(by, "computedomains", "training", name, uid, body, metadata)

    def pod(
        self,
        node: str,
        ip: str = "",
        *,
        by: str = KUBELET,
        ready: bool = False,
        domain: str = DOMAIN,
        deleted: bool = False,
    ) -> None:
        labels = {"resource.nvidia.com/computeDomain": domain, "resource.nvidia.com/computeDomain.cliqueID": CLIQUE}
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        status = {"phase": "Running" if ip else "Pending", "conditions": [condition], **({"podIP": ip} if ip else {})}
        body = {"kind": "Pod", "apiVersion": "v1", "spec": {"nodeName": node}, "status": status}
        uid = f"00000000-0000-4000-8000-{zlib.crc32((node + domain).encode()):012}"
        end = {"deletionTimestamp": rfc3339(START_MS + self.at_ms), "deletionGracePeriodSeconds": 0} if deleted else {}
        self._write(by, "pods", NAMESPACE, f"computedomain-daemon-{node}", uid, body, {"labels": labels, **end})

    def rows(self, rows: Rows, *, by: str = DAEMON, domain: str = DOMAIN) -> None:
        """Log an accepted write of the clique object."""
        labels = {"resource.nvidia.com/computeDomain": domain, "resource.nvidia.com/computeDomain.cliqueID": CLIQUE}
        body = {"kind": "ComputeDomainClique", "apiVersion": API, "daemons": rows}
        uid = f"c0c0c0c0-0000-4000-8000-{domain[:8]:0>12}"
        self._write(by, "computedomaincliques", NAMESPACE, f"{domain}.{CLIQUE}", uid, body, {"labels": labels})

    def refused(self, code: int, rows: Rows, *, base: int, retry_after_s: int = 0) -> None:
        """Log a write of the clique object that was refused; `base` is the version that it was computed from."""
        reasons = {409: "Conflict", 429: "TooManyRequests"}
        answer: Json = {"code": code, "reason": reasons[code]}
        if retry_after_s:
            answer["details"] = {"retryAfterSeconds": retry_after_s}
        request = {"metadata": {"resourceVersion": str(base)}, "daemons": rows}
        reference = self._reference("computedomaincliques", NAMESPACE, f"{DOMAIN}.{CLIQUE}")
        self._line(DAEMON, "update", reference, answer, request, None)

    @property
    def base(self) -> int:
        """The newest version of the clique object."""
        return self._versions[f"{DOMAIN}.{CLIQUE}"]

    def _write(self, by: str, plural: str, namespace: str, name: str, uid: str, body: Json, metadata: Json) -> None:
        self._version += 1
        self._generation[uid] = self._generation.get(uid, 0) + 1
        self._versions[name] = self._version
        meta = {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "resourceVersion": str(self._version),
            "generation": self._generation[uid],
            **metadata,
        }
        verb = "create" if self._generation[uid] == 1 else "update"
        reference = self._reference(plural, namespace, name)
        code = 201 if verb == "create" else 200
        self._line(by, verb, reference, {"code": code}, None, {**body, "metadata": meta})

    def _reference(self, plural: str, namespace: str, name: str) -> Json:
        group = {} if plural == "pods" else {"apiGroup": API.partition("/")[0]}
        version = "v1" if plural == "pods" else "v1beta1"
        return {"resource": plural, "namespace": namespace, "name": name, **group, "apiVersion": version}

    def _line(
        self, by: str, verb: str, reference: Json, answer: Json, request: Json | None, response: Json | None
    ) -> None:
        event: Json = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "RequestResponse",
            "auditID": f"{len(self.lines) + 1:08}-0000-4000-8000-000000000000",
            "stage": "ResponseComplete",
            "verb": verb,
            "user": {"username": by},
            "objectRef": reference,
            "responseStatus": answer,
            "requestReceivedTimestamp": rfc3339(START_MS + self.at_ms),
            "stageTimestamp": rfc3339(START_MS + self.at_ms),
        }
        if request is not None:
            event["requestObject"] = request
        if response is not None:
            event["responseObject"] = response
        self.lines.append(json.dumps(event, separators=(",", ":")))


def row(node: str, ip: str, index: int, status: str = "NotReady") -> Json:
    return {"nodeName": node, "ipAddress": ip, "cliqueID": CLIQUE, "index": index, "status": status}


def index_swap() -> AuditLog:
    """Rows are pruned because the list of pods has no addresses yet; the daemons choose anew, the other way round."""
    log = AuditLog()
    a, b = ("gb200-07", "10.42.7.15"), ("gb200-08", "10.42.8.3")
    log.domain()
    for at_ms, node in ((2000, a[0]), (2040, b[0])):
        log.at_ms = at_ms
        log.pod(node, by=DAEMON_SET)
    log.at_ms = 5990
    log.rows([])
    for at_ms, rows, by in (
        (6000, [row(*a, 0)], DAEMON),
        (6123, [row(*a, 0), row(*b, 1)], DAEMON),
        (6169, [], CONTROLLER),
        (6320, [row(*b, 0)], DAEMON),
        (6410, [row(*b, 0), row(*a, 1)], DAEMON),
    ):
        log.at_ms = at_ms
        log.rows(rows, by=by)
    for at_ms, (node, ip), ready in ((6900, a, False), (6950, b, False), (9000, a, True), (9100, b, True)):
        log.at_ms = at_ms
        log.pod(node, ip, ready=ready)
    log.at_ms = 9300
    log.rows([row(*b, 0, "Ready"), row(*a, 1, "Ready")])
    return log


def retry_storm() -> AuditLog:
    """Ten daemons write one object at once: conflicts, then the server asks to wait for half a minute."""
    log, rng = AuditLog(), random.Random(810)
    log.domain()
    nodes = [(f"gb200-{number:02}", f"10.42.{number}.9") for number in range(10)]
    for number, (node, ip) in enumerate(nodes):
        log.at_ms = 1000 + 20 * number
        log.pod(node, ip, by=DAEMON_SET)
    log.at_ms = 2000
    log.rows([])
    rows: Rows = []
    waiting = nodes.copy()
    rng.shuffle(waiting)
    while waiting:
        base = log.base
        for node, ip in waiting[1:]:
            log.at_ms += rng.randrange(3, 9)
            log.refused(409, [*rows, row(node, ip, len(rows))], base=base)
        if len(waiting) == 5:
            for node, ip in waiting[1:]:
                log.at_ms += rng.randrange(3, 9)
                log.refused(429, [*rows, row(node, ip, len(rows))], base=base, retry_after_s=30)
            log.at_ms += 30_000
        node, ip = waiting.pop(0)
        log.at_ms += rng.randrange(10, 60)
        rows = [*rows, row(node, ip, len(rows))]
        log.rows(rows)
    for number, (node, ip) in enumerate(nodes):
        log.at_ms += rng.randrange(20, 80)
        log.pod(node, ip, ready=True)
        rows = [{**one, "status": "Ready"} if one["nodeName"] == node else one for one in rows]
        if number % 5 == 4:
            log.rows(rows)
    return log


def two_domains() -> AuditLog:
    """Two jobs' domains place daemons on different nodes of one NVLink partition."""
    log = AuditLog()
    jobs = (
        (DOMAIN, "llama", 0, (("gb200-07", "10.42.7.15"), ("gb200-08", "10.42.8.3"))),
        (OTHER, "mixtral", 60_000, (("gb200-09", "10.42.9.21"), ("gb200-10", "10.42.10.4"))),
    )
    for uid, name, begin_ms, nodes in jobs:
        log.at_ms = begin_ms
        log.domain(uid, name)
        rows: Rows = []
        log.at_ms += 3000
        log.rows(rows, domain=uid)
        for number, (node, ip) in enumerate(nodes):
            log.at_ms += 400
            log.pod(node, ip, by=DAEMON_SET, domain=uid)
            rows = [*rows, row(node, ip, number)]
            log.rows(rows, domain=uid)
        for node, ip in nodes:
            log.at_ms += 900
            log.pod(node, ip, ready=True, domain=uid)
        log.rows([{**one, "status": "Ready"} for one in rows], domain=uid)
    for node, ip in jobs[0][3]:
        log.at_ms += 60_000
        log.pod(node, ip, deleted=True)
    log.at_ms += 1500
    log.rows([], domain=DOMAIN, by=CONTROLLER)
    return log


def stuck_deletion() -> AuditLog:
    """A domain is deleted, and a finalizer that nobody takes off holds it for more than eleven minutes."""
    log = AuditLog()
    finalizers = ["resource.nvidia.com/computeDomain"]
    log.domain(finalizers=finalizers)
    node, ip = "gb200-07", "10.42.7.15"
    log.at_ms = 2000
    log.pod(node, ip, by=DAEMON_SET)
    log.at_ms = 2500
    log.rows([])
    log.at_ms = 2600
    log.rows([row(node, ip, 0)])
    log.at_ms = 60_000
    deleted = {"deletionTimestamp": rfc3339(START_MS + 60_000)[:19] + "Z", "deletionGracePeriodSeconds": 0}
    log.domain(finalizers=finalizers, **deleted)
    for minute in range(2, 13):
        log.at_ms = 60_000 * minute
        log.pod(node, ip, ready=True)
    return log


REBUILT: dict[str, Callable[[], AuditLog]] = {
    "index-swap": index_swap,
    "retry-storm": retry_storm,
    "stuck-deletion": stuck_deletion,
    "two-domains": two_domains,
}


def text_of(name: str) -> str:
    return "\n".join(REBUILT[name]().lines) + "\n"


if __name__ == "__main__":
    for incident in REBUILT:
        (INCIDENTS / f"{incident}.audit.jsonl").write_text(text_of(incident), encoding="utf-8")

"""How long an import and an audit take, and how much memory: what somebody with an incident waits for.

A fleet lives through restart after restart: each daemon's pod comes, gets its address, becomes ready and goes, and the
clique objects are written as rows come. The same history is written as a capture and as an audit log, imported into a
log in a file, and one node is asked for twice: first the whole log is folded and its index kept, then the index
answers. A controller's own log of as many records is replayed, and a page made of it. Each step is a process of its
own, as it is for a user.
"""

import asyncio
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.fold import fill
from bench.tables import Cell, Table
from bench.workload import DOMAIN, FABRIC, NAMESPACE, START_MS, Shape
from controller.moments import rfc3339
from controller.recording.capturing import FORM, Header, Watched, encode
from kube.names import CLIQUE_LABEL, DOMAIN_LABEL

STEP_MS = 5
PLURALS = {"Pod": "pods", "ComputeDomainClique": "computedomaincliques"}
GROUP = "resource.nvidia.com"
MEASURED = """
import json, resource, sys
from controller.commands.cli import main
try:
    main(args=sys.argv[1:], standalone_mode=False)
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(json.dumps([used.ru_utime + used.ru_stime, int(peak)]), file=sys.stderr)
"""
"""Runs a command, and says its CPU seconds and the peak of its memory in KiB."""

Object = dict[str, object]


def measure(shape: Shape, lines: int, folder: Path) -> list[Table]:
    """Write both files, import them, and ask for a node."""
    rows: list[tuple[Cell, ...]] = []
    log = f"sqlite:{folder / 'capture.sqlite'}"
    for form, write in (("capture", write_capture), ("audit log", _write_audit_log)):
        path = folder / f"{form}.jsonl"
        write(path, shape, lines)
        size = path.stat().st_size
        to = f"sqlite:{folder / form.split()[0]}.sqlite"
        wall, cpu, peak, said = _run("import", str(path), "--to", to, "--json")
        records = json.loads(said)["records"]
        rows.append((form, lines, records, size // 1_000_000, wall, cpu, int(lines / cpu), peak))
        path.unlink()
    imports = Table(
        f"Import of {lines:,} lines, {shape.total:,} nodes (goal 50,000 lines/s for captures, 300 MB)",
        ("input", "lines", "records", "MB", "s", "CPU s", "lines/CPU s", "peak MB"),
        tuple(rows),
        ("lines/CPU s: what one free core does in a second",),
    )
    return [imports, _audits(log, folder), _whole(shape, lines, folder)]


def _audits(log: str, folder: Path) -> Table:
    """Ask for one node, with no index and with the one that the first question left."""
    rows: list[tuple[Cell, ...]] = []
    for name in ("folded", "from the index"):
        wall, cpu, peak, said = _run("audit", log, "--node", "node-0000-00", "--json", cache=folder / "cache")
        found = json.loads(said)
        rows.append((name, found["records"], len(found["holdings"]), wall, cpu, peak))
    title = "Audit of one node of that capture (goal 2 s once the index exists, 300 MB)"
    return Table(title, ("", "records", "holdings", "s", "CPU s", "peak MB"), tuple(rows))


def _whole(shape: Shape, records: int, folder: Path) -> Table:
    """Replay a controller's own log, and make a page of it: a log that shows the domain, so that our rules decide."""
    path, page = folder / "own.sqlite", folder / "page.html"
    asyncio.run(fill(path, shape, records))
    rows: list[tuple[Cell, ...]] = []
    for name, options in (("replay", ("--summary",)), ("report", ("-o", str(page)))):
        wall, cpu, peak, _ = _run(name, f"sqlite:{path}", *options)
        rows.append((name, wall, cpu, peak))
    title = f"A controller's own log of {records:,} records (goal 300 MB)"
    note = f"the page has {page.stat().st_size / 1e6:.1f} MB"
    return Table(title, ("", "s", "CPU s", "peak MB"), tuple(rows), (note,))


def _run(*arguments: str, cache: Path | None = None) -> tuple[float, float, int, str]:
    """Give seconds, CPU seconds, peak memory in MB, and what the command printed."""
    environment = {**os.environ, **({"XDG_CACHE_HOME": str(cache)} if cache else {})}
    began = os.times().elapsed
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *arguments], capture_output=True, text=True, check=False, env=environment
    )
    wall = os.times().elapsed - began
    lines = done.stderr.splitlines()
    if not lines or not lines[-1].startswith("["):
        raise RuntimeError(f"{arguments[0]} failed: {done.stderr[-500:]}")
    cpu, peak = json.loads(lines[-1])
    return round(wall, 2), round(cpu, 2), peak // 1000, done.stdout


def write_capture(path: Path, shape: Shape, lines: int) -> None:
    """Write the history as a capture of so many lines, its header included."""
    with path.open("wb") as file:
        file.write(encode(Header(FORM, "bench")))
        for number, (event, found) in enumerate(itertools.islice(_told(shape), lines - 1)):
            raw = msgspec.Raw(msgspec.json.encode({"type": event, "object": found}))
            file.write(encode(Watched(START_MS + number * STEP_MS, PLURALS[str(found["kind"])], raw)))


def _write_audit_log(path: Path, shape: Shape, lines: int) -> None:
    verbs = {"ADDED": "create", "MODIFIED": "update", "DELETED": "delete"}
    with path.open("wb") as file:
        for number, (event, found) in enumerate(itertools.islice(_told(shape), lines)):
            time = rfc3339(START_MS + number * STEP_MS)
            plural, meta = PLURALS[str(found["kind"])], found["metadata"]
            name = meta["name"] if isinstance(meta, dict) else ""
            group = GROUP if plural == "computedomaincliques" else ""
            line = {
                "kind": "Event",
                "apiVersion": "audit.k8s.io/v1",
                "level": "RequestResponse",
                "auditID": f"{number:032}",
                "stage": "ResponseComplete",
                "verb": verbs[event],
                "user": {"username": "system:serviceaccount:driver:daemon", "groups": ["system:authenticated"]},
                "sourceIPs": ["10.0.0.1"],
                "userAgent": "daemon/v1 (linux/arm64)",
                "objectRef": {"resource": plural, "namespace": NAMESPACE, "name": name, "apiGroup": group},
                "responseStatus": {"metadata": {}, "code": 200},
                "requestObject": found,
                "responseObject": found,
                "requestReceivedTimestamp": time,
                "stageTimestamp": time,
                "annotations": {"authorization.k8s.io/decision": "allow"},
            }
            file.write(msgspec.json.encode(line) + b"\n")


def _told(shape: Shape) -> Iterator[tuple[str, Object]]:
    """Give what a watch would tell, for ever: type of the event, and object."""
    versions = itertools.count(1)
    rows: list[dict[str, Object]] = [{} for _ in range(shape.cliques)]
    generations = [0] * shape.cliques
    for life in itertools.count():
        for number in range(shape.cliques):
            for place in range(shape.nodes):
                ip = f"10.{life % 250}.{number % 250}.{place}"
                pod = _Pod(life, number, place)
                yield "ADDED", pod.told(next(versions))
                yield "MODIFIED", pod.told(next(versions), ip)
                node = f"node-{number:04}-{place:02}"
                rows[number][node] = {"nodeName": node, "ipAddress": ip, "index": place, "status": "Ready"}
                if place % 3 == 2:
                    generations[number] += 1
                    yield (
                        "ADDED" if generations[number] == 1 else "MODIFIED",
                        _clique_object(number, generations[number], next(versions), list(rows[number].values())),
                    )
                yield "MODIFIED", pod.told(next(versions), ip, ready=True)
                yield "DELETED", pod.told(next(versions), ip, deleted=True)


class _Pod:
    """A daemon pod in one of its lives."""

    def __init__(self, life: int, clique: int, place: int) -> None:
        self._node = f"node-{clique:04}-{place:02}"
        self._uid = f"{clique:08x}-{place:04x}-4000-8000-{life:012x}"
        self._labels = _labels(clique)

    def told(self, version: int, ip: str = "", *, ready: bool = False, deleted: bool = False) -> Object:
        end = {"deletionTimestamp": "2026-11-29T12:00:00Z", "deletionGracePeriodSeconds": 0} if deleted else {}
        meta = {"name": f"daemon-{self._uid}", "namespace": NAMESPACE, "uid": self._uid, "labels": self._labels, **end}
        status = {"phase": "Running" if ip else "Pending", "podIP": ip}
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        return {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {**meta, "resourceVersion": str(version), "generation": 1},
            "spec": {"nodeName": self._node, "containers": [{"name": "daemon", "image": "registry.invalid/daemon:1"}]},
            "status": {**status, "conditions": conditions},
        }


def _clique_object(number: int, generation: int, version: int, rows: list[Object]) -> Object:
    name = f"{DOMAIN}.{FABRIC}.{number}"
    meta = {"name": name, "namespace": NAMESPACE, "uid": f"cdc-{number}", "labels": _labels(number)}
    return {
        "kind": "ComputeDomainClique",
        "apiVersion": f"{GROUP}/v1beta1",
        "metadata": {**meta, "resourceVersion": str(version), "generation": generation},
        "daemons": rows,
    }


def _labels(clique: int) -> dict[str, str]:
    return {DOMAIN_LABEL: DOMAIN, CLIQUE_LABEL: f"{FABRIC}.{clique}"}

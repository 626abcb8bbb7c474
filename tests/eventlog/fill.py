"""A program that fills a log until its place is full, makes room, goes on, and prints what it saw as JSON.

    fill.py quota FOLDER    the kernel refuses files above a size (RLIMIT_FSIZE); room: the limit is lifted
    fill.py tmpfs FOLDER    a small tmpfs is mounted on the folder; room: a ballast file is deleted

The second needs the right to mount, for example that of `unshare --mount`.
"""

import asyncio
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from eventlog.codec import entry
from eventlog.events import IndexAssigned
from eventlog.integrity import check
from eventlog.log import LogUnavailable
from eventlog.record import Position
from eventlog.sqlite import SqliteLog


def quota(_: Path) -> Callable[[], None]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def tmpfs(folder: Path) -> Callable[[], None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "cliquelog-test", str(folder)], check=True)
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(20 << 20))
    return ballast.unlink


async def fill(path: Path, make_room: Callable[[], None]) -> dict[str, object]:
    log = await SqliteLog.open(path, partitions=4)
    acknowledged: dict[Position, int] = {}
    refusals: list[str] = []

    async def append(number: int) -> None:
        event = IndexAssigned("domain", "node", number, 18, cause="x" * 2_000)
        places = await log.append(
            [entry(f"clique.{key}", event, timestamp_ms=number, controller="fill") for key in range(3)]
        )
        acknowledged.update(dict.fromkeys(places, number))

    number = 0
    while len(refusals) < 3:
        number += 1
        if number > 10_000:
            raise SystemExit("the place never became full")
        try:
            await append(number)
        except LogUnavailable as error:
            refusals.append(str(error))
    before = len(acknowledged)
    make_room()
    for more in range(100):
        await append(number + 1 + more)
    await log.close()
    return {
        "acknowledged_before": before,
        "acknowledged": len(acknowledged),
        "refusals": refusals,
        **await examine(path, acknowledged),
    }


async def examine(path: Path, acknowledged: dict[Position, int]) -> dict[str, object]:
    log = await SqliteLog.open_readonly(path)
    reports = await check(log, {}, dense=True)
    found = {}
    for report in reports:
        for record in await log.read(report.partition, 0, limit=100_000, timeout_s=0):
            found[Position(record.partition, record.offset)] = record.timestamp_ms
    damage = list(await log.damage())
    await log.close()
    findings = [str(finding) for report in reports for finding in report.findings]
    return {"same": found == acknowledged, "findings": findings, "damage": damage}


if __name__ == "__main__":
    room = {"quota": quota, "tmpfs": tmpfs}[sys.argv[1]](Path(sys.argv[2]))
    print(json.dumps(asyncio.run(fill(Path(sys.argv[2]) / "log.sqlite", room))))

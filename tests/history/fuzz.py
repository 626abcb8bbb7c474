"""Mutated inputs: whatever is in a file, an import ends with a log and a report, or refuses the file in a sentence.

`python -m tests.history.fuzz --files 20000` tries so many, each seed another, in a process of bounded memory; it prints
the seeds that failed, and `--seed N` repeats one.
"""

import argparse
import asyncio
import base64
import copy
import gzip
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import yaml
from rich.console import Console

from controller.commands.replay import rules_of
from controller.history.audit_report import as_csv, document, show
from controller.history.auditing import audit
from controller.history.rerunning import rerun
from controller.history.timeline import Until
from controller.importing.inputs import InputError
from controller.importing.reading import UnfitInput
from eventlog.memory import MemoryLog
from tests.history.histories import Complaints, audit_log, import_into, lines, watches
from tests.history.rebuilt import REBUILT, text_of

NOW_MS = 1_800_000_000_000
MEMORY = 2 << 30
SECONDS = 60
HOSTILE: tuple[Any, ...] = (
    None,
    -1,
    0,
    10**30,
    1e308,
    True,
    "",
    "\x00",
    "\ud800",
    "<script>alert(1)</script>",
    "[bold]\x1b[31m[/]",
    "../../etc/passwd",
    "a" * 5000,
    [],
    {},
    [[[[]]]],
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:60Z",
    "2026-11-29",
    "9" * 40,
    "watch/pods",
    "a.b/c",
)

Mutation = Callable[[bytes, random.Random], bytes]


def sources(rng: random.Random) -> bytes:
    """Give a sound input of some form."""
    kind = rng.randrange(7)
    if kind == 0:
        return text_of(rng.choice(sorted(REBUILT))).encode()
    if kind == 1:
        start = rng.randrange(900)
        return b"".join(lines(audit_log("peer-churn-54"))[start : start + 25])
    watched = lines(rng.choice(watches("peer-churn-54")))
    some = watched[: rng.randrange(1, 20)]
    objects = [json.loads(line)["object"] for line in some]
    if kind == 2:
        return json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}, indent=1).encode()
    if kind == 3:
        return yaml.safe_dump({"kind": "List", "apiVersion": "v1", "items": objects[:3]}).encode()
    if kind == 4:
        told = [{"told": "watch", "at": 1, "resource": "pods", "event": json.loads(line)} for line in some]
        return b"".join(json.dumps(one).encode() + b"\n" for one in told)
    if kind == 5:
        events = text_of(rng.choice(sorted(REBUILT))).splitlines()[:30]
        return "\n".join(json.dumps({"message": event}) for event in events).encode()
    return b"".join(some)


def truncated(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def flipped(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.randrange(1, 30)):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def inserted(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    middle = rng.choice(
        [
            b"\x00" * 100,
            rng.randbytes(300),
            b"\xff\xfe",
            b"[" * 3000,
            b'{"a":' * 3000,
            b"9" * 5000,
            b"\n" * 100,
            b"\r\n",
        ]
    )
    return content[:place] + middle + content[place:]


def encoded(content: bytes, rng: random.Random) -> bytes:
    text = content.decode(errors="replace")
    return rng.choice(
        [
            lambda: text.encode("utf-16"),
            lambda: text.encode("utf-32"),
            lambda: b"\xef\xbb\xbf" + content,
            lambda: gzip.compress(content)[: rng.randrange(20, 2000)],
            lambda: gzip.compress(gzip.compress(content)),
            lambda: base64.b64encode(content),
            lambda: b"\x1f\x8b" + content,
        ]
    )()


def shuffled(content: bytes, rng: random.Random) -> bytes:
    parts = content.splitlines(keepends=True)
    rng.shuffle(parts)
    return b"".join(parts[: rng.randrange(len(parts) + 1)] + parts[: rng.randrange(3)])


def replaced(content: bytes, rng: random.Random) -> bytes:
    """Put something hostile in the place of some fields, in lines that are JSON."""
    out = []
    for line in content.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            out.append(line)
            continue
        for _ in range(rng.randrange(3)):
            _put(value, rng)
        out.append(json.dumps(value).encode())
    return b"\n".join(out)


def _put(value: object, rng: random.Random) -> None:
    while isinstance(value, dict | list) and value:
        key = rng.choice(sorted(value)) if isinstance(value, dict) else rng.randrange(len(value))
        inner = value[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.15:
            value[key] = copy.deepcopy(rng.choice(HOSTILE))
            return
        value = inner


MUTATIONS: tuple[Mutation, ...] = (truncated, flipped, inserted, encoded, shuffled, replaced, replaced, replaced)


def mutated(seed: int) -> bytes:
    """Give the input of a seed."""
    rng = random.Random(seed)
    content = sources(rng)
    for _ in range(rng.randrange(1, 4)):
        content = rng.choice(MUTATIONS)(content, rng)
    return content


async def tried(path: Path) -> str:
    """Import the file, audit and replay what came of it; give the refusal, empty if it was taken. Raises defects."""
    log = MemoryLog(partitions=3)
    try:
        await import_into(log, [path], strict=False, observer=Complaints())
    except (UnfitInput, InputError) as error:
        return str(error)
    found = await audit(log)
    document(found, NOW_MS)
    as_csv(found, NOW_MS)
    show(found, NOW_MS, Console(file=io.StringIO(), width=80))
    await rerun(log, rules_of("driver", ()), None, Until(), speed=None, show=[].append)
    return ""


def _too_long(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise TimeoutError(f"it takes longer than {SECONDS} s")


def main() -> int:
    """Try the seeds, and give the number of those that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, _too_long)
    failed = taken = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "input"
        for seed in range(options.seed, options.seed + options.files):
            path.write_bytes(mutated(seed))
            signal.alarm(SECONDS)
            try:
                taken += not asyncio.run(tried(path))
            except Exception:  # noqa: BLE001 - each is a finding
                failed += 1
                sys.stdout.write(f"seed {seed}\n{traceback.format_exc(limit=-4)}\n")
            finally:
                signal.alarm(0)
    sys.stdout.write(f"{options.files} files: {taken} taken, {failed} failed\n")
    return min(failed, 100)


if __name__ == "__main__":
    os.environ.setdefault("TERM", "dumb")
    sys.exit(main())

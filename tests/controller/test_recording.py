"""What a recording keeps of what an API server sends, and what an import makes of it."""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog

from controller import exits
from controller.config import watched
from controller.exits import Failure, explain
from controller.recording.capture_files import CaptureFiles, Rotation
from controller.recording.capturing import AnyLine
from controller.recording.recorder import PIECE_MAX, Recording, _pieces
from eventlog import codec
from eventlog.events import AnyEvent, CdcGone, CdcSeen, RelistBegan, RelistCompleted, WatchGap
from eventlog.memory import MemoryLog
from kube.client import Expired, Selector
from kube.clock import SystemClock
from tests.history.histories import Complaints, import_into

CLIQUE = "4d1f3a9e-8a64-4d0a-9f0e-1c35f0c6b001.7"
CDCS = "computedomaincliques"


def cdc(version: int, index: int = 0) -> dict[str, Any]:
    row = {"nodeName": "n0", "ipAddress": "10.0.0.1", "cliqueID": CLIQUE, "index": index, "status": "Ready"}
    meta = {"name": f"d0.{CLIQUE}", "namespace": "driver", "uid": "u", "resourceVersion": str(version), "generation": 1}
    return {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomainClique",
        "metadata": meta | {"annotations": {"note": "not read, and kept"}},
        "daemons": [row],
    }


def page(version: int, *items: dict[str, Any]) -> bytes:
    """Give a page as an API server ends it, with a line break."""
    return json.dumps({"metadata": {"resourceVersion": str(version)}, "items": items}).encode() + b"\n"


class ScriptedView:
    """Answers lists and watches of CDCs by script, those of other kinds with nothing; at its end it tells `done`."""

    def __init__(self, lists: Sequence[bytes], watches: Sequence[Sequence[bytes | Exception]]) -> None:
        self._lists = list(lists)
        self._watches = list(watches)
        self.done = asyncio.Event()

    async def list(self, selector: Selector, *, limit: int = 500, token: str = "", resource_version: str = "") -> bytes:
        del limit, token, resource_version
        await asyncio.sleep(0)
        return self._lists.pop(0) if selector.resource.plural == CDCS else page(1)

    async def watch(
        self, selector: Selector, *, resource_version: str, timeout_s: float
    ) -> AsyncGenerator[bytes, None]:
        del resource_version, timeout_s
        if selector.resource.plural == CDCS and self._watches:
            for one in self._watches.pop(0):
                if isinstance(one, Exception):
                    raise one
                yield one
            if self._watches:
                return
            self.done.set()
        await asyncio.sleep(3600)


def paths_in(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


async def recorded(folder: Path, view: ScriptedView) -> list[dict[str, Any]]:
    """Record until the script is at its end, and give the lines about CDCs."""
    clock, stop = SystemClock(), asyncio.Event()
    files = CaptureFiles(folder, Rotation(1 << 30, 1e9, 1.0), clock, "1")
    recording = Recording(view, files, clock=clock, rng=random.Random(0), logger=structlog.get_logger())
    running = asyncio.create_task(recording.run(watched(""), 0.01, stop))
    async with asyncio.timeout(30):
        await view.done.wait()
        stop.set()
        await running
    files.close()
    (path,) = paths_in(folder)
    found = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [one for one in found if one.get("resource") == CDCS]


async def imported(folder: Path, *, partitions: int = 3) -> dict[str, list[AnyEvent]]:
    log = MemoryLog(partitions=partitions)
    paths = [str(path) for path in paths_in(folder)]
    await import_into(log, paths, observer=Complaints())
    events: dict[str, list[AnyEvent]] = {}
    for partition in range(partitions):
        for record in await log.read(partition, 0, limit=1000, timeout_s=0):
            events.setdefault(record.key, []).append(codec.decode(record))
    return events


def event(kind: str, body: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode()


async def test_objects_are_kept_as_they_came_between_the_marks_of_the_list(tmp_path: Path) -> None:
    view = ScriptedView([page(10, cdc(5))], [[event("MODIFIED", cdc(12, 1)), event("DELETED", cdc(13, 1))]])
    lines = await recorded(tmp_path, view)
    assert [one["told"] for one in lines] == ["list-began", "page", "list-completed", "watch", "watch"]
    assert lines[1]["page"]["items"] == [cdc(5)]
    assert lines[3]["event"] == {"type": "MODIFIED", "object": cdc(12, 1)}
    assert [one["at"] for one in lines] == sorted(one["at"] for one in lines)

    events = await imported(tmp_path)
    seen = [one for one in events[CLIQUE] if isinstance(one, CdcSeen)]
    assert [one.resource_version for one in seen] == [5, 12]
    assert isinstance(events[CLIQUE][-1], CdcGone)
    marks = events[f"watch/{CDCS}"]
    assert [type(one) for one in marks] == [RelistBegan, RelistCompleted]


async def test_a_gap_is_marked_and_the_list_after_it_proves_what_went_meanwhile(tmp_path: Path) -> None:
    view = ScriptedView(
        [page(10, cdc(5)), page(20)],
        [
            [event("MODIFIED", cdc(12)), Expired(410, "Expired", "too old resource version")],
            [event("BOOKMARK", cdc(21))],
        ],
    )
    lines = await recorded(tmp_path, view)
    assert [one["told"] for one in lines if one["told"] != "watch"] == [
        *("list-began", "page", "list-completed"),
        "gap",
        *("list-began", "page", "list-completed"),
    ]
    events = await imported(tmp_path)
    gone = events[CLIQUE][-1]
    assert isinstance(gone, CdcGone)
    assert gone.inferred
    assert any(isinstance(one, WatchGap) for one in events[f"watch/{CDCS}"])


async def test_a_line_that_is_no_event_is_left_out_and_its_gap_is_kept(tmp_path: Path) -> None:
    view = ScriptedView(
        [page(10, cdc(5)), page(20, cdc(5))], [[b'{"type": "MODIFIED", "obj'], [event("MODIFIED", cdc(22))]]
    )
    lines = await recorded(tmp_path, view)
    assert "gap" in [one["told"] for one in lines]
    assert [one["event"]["object"]["metadata"]["resourceVersion"] for one in lines if one["told"] == "watch"] == ["22"]
    seen = [one for one in (await imported(tmp_path))[CLIQUE] if isinstance(one, CdcSeen)]
    assert [one.resource_version for one in seen] == [5, 22]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_page_becomes_lines_of_bounded_length_with_all_its_items(indent: int | None) -> None:
    items = [cdc(number) | {"filler": "x" * 100_000} for number in range(100)]
    body = json.dumps({"metadata": {"resourceVersion": "9"}, "items": items}, indent=indent).encode() + b"\n"
    pieces = list(_pieces(body))
    assert len(pieces) > 1
    assert all(len(piece) < PIECE_MAX + 200_000 and b"\n" not in piece for piece in pieces)
    assert [item for piece in pieces for item in json.loads(piece)["items"]] == items
    small = page(1, cdc(1))
    assert list(_pieces(small)) == [small.strip()]


class FullFiles(CaptureFiles):
    """Files on a disk that is full after a few lines."""

    def write(self, line: AnyLine) -> None:
        if self.counted.lines == 8:
            raise Failure("the capture ends: the disk is full", exits.OUTPUT)
        super().write(line)


async def test_a_full_disk_ends_the_recording_with_one_sentence(tmp_path: Path) -> None:
    view = ScriptedView([page(10, cdc(5))], [[event("MODIFIED", cdc(12))]])
    files = FullFiles(tmp_path, Rotation(1 << 30, 1e9, 1.0), SystemClock(), "1")
    recording = Recording(view, files, clock=SystemClock(), rng=random.Random(0), logger=structlog.get_logger())
    async with asyncio.timeout(30):
        with pytest.raises(ExceptionGroup) as ended:
            await recording.run(watched(""), 1.0, asyncio.Event())
    files.close()
    failure = explain(ended.value)
    assert failure is not None
    assert (failure.message, failure.exit_code) == ("the capture ends: the disk is full", exits.OUTPUT)

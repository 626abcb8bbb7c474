"""The files of a capture: whole lines, rotation, and what is left when the disk is full."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from controller import exits
from controller.exits import Failure
from controller.recording.capture_files import CaptureFiles, Rotation
from controller.recording.capturing import Completed, Watched
from tests.kube.scripted import ScriptedClock
from tests.mounts import mounted

LASTING = Rotation(1 << 30, 1e9, 1.0)


def files(output: Path, rotation: Rotation = LASTING, clock: ScriptedClock | None = None) -> CaptureFiles:
    return CaptureFiles(output, rotation, clock or ScriptedClock(), "1.2.3")


def line(number: int) -> Completed:
    return Completed(number, "pods", number, 1)


def lines(path: Path) -> list[dict[str, object]]:
    content = path.read_bytes()
    assert content.endswith(b"\n")
    return [json.loads(one) for one in content.splitlines()]


def test_a_file_begins_with_its_form_and_holds_a_line_each(tmp_path: Path) -> None:
    output = tmp_path / "capture.jsonl"
    made = files(output)
    made.write(line(1))
    made.write(Watched(2, "pods", msgspec.Raw(b'{"type":"ADDED","object":{"a":1}}')))
    made.close()
    made.close()
    assert lines(output) == [
        {"told": "capture", "form": "cliquelog-capture/1", "version": "1.2.3"},
        {"told": "list-completed", "at": 1, "resource": "pods", "version": 1, "objects": 1},
        {"told": "watch", "at": 2, "resource": "pods", "event": {"type": "ADDED", "object": {"a": 1}}},
    ]
    assert (made.counted.lines, made.counted.files, made.counted.bytes) == (2, 1, output.stat().st_size)


def test_a_capture_is_for_its_owner_alone(tmp_path: Path) -> None:
    files(tmp_path / "folder" / "deeper").close()
    (path,) = (tmp_path / "folder" / "deeper").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0


def test_a_folder_gets_a_new_file_by_size_and_none_of_them_is_longer(tmp_path: Path) -> None:
    made = files(tmp_path, Rotation(300, 1e9, 1.0))
    for number in range(20):
        made.write(line(number))
    made.close()
    paths = sorted(tmp_path.iterdir())
    assert len(paths) == made.counted.files > 3
    assert all(path.stat().st_size <= 300 for path in paths)
    told = [one["at"] for path in paths for one in lines(path) if one["told"] != "capture"]
    assert told == list(range(20))
    assert all(lines(path)[0]["told"] == "capture" for path in paths)


def test_a_folder_gets_a_new_file_by_age_but_none_without_lines(tmp_path: Path) -> None:
    clock = ScriptedClock()
    made = files(tmp_path, Rotation(1 << 20, 60.0, 1.0), clock)
    for seconds, number in ((0.0, 1), (59.0, 2), (2.0, 3), (600.0, 4)):
        clock.now_s += seconds
        made.write(line(number))
    made.close()
    told = [[one["at"] for one in lines(path)[1:]] for path in sorted(tmp_path.iterdir())]
    assert told == [[1, 2], [3], [4]]


def test_a_line_longer_than_a_file_may_be_is_kept_whole(tmp_path: Path) -> None:
    made = files(tmp_path, Rotation(200, 1e9, 1.0))
    long = Watched(1, "pods", msgspec.Raw(json.dumps({"type": "ADDED", "object": "x" * 1000}).encode()))
    made.write(line(0))
    made.write(long)
    made.write(line(2))
    made.close()
    assert [len(lines(path)) for path in sorted(tmp_path.iterdir())] == [2, 2, 2]


@pytest.mark.parametrize("name", ["capture.jsonl", "capture"])
def test_what_is_there_already_is_not_written_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(Failure, match="is there") as refused:
        files(tmp_path / name)
    assert refused.value.exit_code == exits.OUTPUT
    assert (tmp_path / name).read_text() == "mine"


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="cannot be written"):
        files(tmp_path / "missing" / "capture.jsonl")


PROGRAM = """
import resource
import sys
from pathlib import Path
from controller.recording.capture_files import CaptureFiles, Rotation
from controller.exits import Failure
from kube.clock import SystemClock
from controller.recording.capturing import Completed
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
made = CaptureFiles(Path(sys.argv[1]), Rotation(int(sys.argv[2]), 1e9, 0.0), SystemClock(), "1")
try:
    for number in range(100_000):
        made.write(Completed(number, "pods", number, 1))
except Failure as failure:
    print(made.counted.lines)
    print(failure.message)
    made.close()
"""


def fill(output: Path, *, rotated_at: int, limit: int = 1 << 30, prefix: tuple[str, ...] = ()) -> str:
    """Write until it ends, and give what it said: how many lines it wrote, and its sentence."""
    command = [*prefix, sys.executable, "-c", PROGRAM, str(output), str(rotated_at), str(limit)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def assert_whole(output: Path, told: str) -> None:
    """Check that exactly the lines that were told of are there, each whole, and in order."""
    count, sentence = told.splitlines()
    paths = sorted(output.iterdir()) if output.is_dir() else [output]
    kept = [one["at"] for path in paths for one in lines(path) if one["told"] != "capture"]
    assert kept == list(range(int(count)))
    assert int(count) > 100
    assert f"{count} whole lines are kept in {output}" in sentence
    assert sentence.startswith("the capture ends: ")


def test_at_the_limit_of_file_size_it_ends_with_the_last_whole_line(tmp_path: Path) -> None:
    output = tmp_path / "capture.jsonl"

    assert_whole(output, fill(output, rotated_at=1_000_000, limit=20_001))


@pytest.mark.parametrize("size", [20_000, 10_000_000], ids=["rotated", "one"])
def test_on_a_full_disk_it_ends_with_the_last_whole_line(tmp_path: Path, size: int) -> None:
    place = tmp_path / "small"
    place.mkdir()
    keep = 'mount -t tmpfs -o size=256k cliquelog-test "$0" && "$@" && cp -r "$0/capture" "$0.kept"'
    prefix = mounted(keep, place)
    if not prefix:
        pytest.skip("no right to mount a tmpfs here; the test with the file size limit covers the same lines")
    told = fill(place / "capture", rotated_at=size, prefix=prefix)
    kept = tmp_path / "small.kept"
    assert "the disk is full" in told
    assert_whole(kept, told.replace(str(place / "capture"), str(kept)))

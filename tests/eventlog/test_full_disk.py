"""A log whose place is full, for real: a file size limit of the kernel, and a small file system."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mounts import may_mount

FILL = Path(__file__).parent / "fill.py"


def fill(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def assert_nothing_was_lost(found: dict[str, Any]) -> None:
    assert found["acknowledged_before"] > 0
    assert found["acknowledged"] == found["acknowledged_before"] + 300
    assert found["same"], "the log holds exactly what was acknowledged"
    assert found["findings"] == []
    assert found["damage"] == []


def test_at_the_limit_of_file_size_appends_are_refused_and_go_on_once_it_is_lifted(tmp_path: Path) -> None:
    found = fill([sys.executable, str(FILL), "quota", str(tmp_path)])
    assert_nothing_was_lost(found)
    assert all("log.sqlite cannot be written or read" in sentence for sentence in found["refusals"])


def test_on_a_full_file_system_appends_are_refused_and_go_on_once_there_is_space(tmp_path: Path) -> None:
    prefix = may_mount(tmp_path)
    if not prefix:
        pytest.skip("no right to mount a tmpfs here; the test with the file size limit covers the adapter")
    found = fill([*prefix, sys.executable, str(FILL), "tmpfs", str(tmp_path)])
    assert_nothing_was_lost(found)
    assert all("log.sqlite cannot grow because the disk is full" in sentence for sentence in found["refusals"])

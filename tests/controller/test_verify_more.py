"""`cliquelog verify` notices records that are missing at the beginning, and a snapshot that is spoilt."""

from pathlib import Path

import pytest

from controller import exits
from tests.controller.test_verify import PARTITION, change, run, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.sqlite"


@pytest.mark.parametrize("snapshot", [True, False])
def test_records_that_are_missing_at_the_beginning_are_named(path: Path, *, snapshot: bool) -> None:
    write(path, snapshot=snapshot)
    change(path, "DELETE FROM record WHERE position = (SELECT min(position) FROM record)")
    result = run(path)
    assert result.exit_code == exits.FOUND, result.output
    assert "offset-gap: the records from offset 0 to 0 are missing" in " ".join(result.output.split())


@pytest.mark.parametrize("state", [b"", b"\x81", None])
def test_a_snapshot_that_is_spoilt_is_named(path: Path, state: bytes | None) -> None:
    write(path, snapshot=True)
    if state is None:
        change(path, "UPDATE snapshot SET next_offset = 0 WHERE partition = ?", PARTITION)
    else:
        change(path, "UPDATE snapshot SET state = ? WHERE partition = ?", state, PARTITION)
    result = run(path)
    assert result.exit_code == exits.FOUND, result.output
    assert "snapshot" in result.output

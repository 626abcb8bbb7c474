"""`cliquelog import`: what it takes, what it refuses in a sentence, and what it goes on from."""

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from controller import exits
from controller.commands.cli import main
from tests.history.histories import audit_log, lines, watches

CHURN = "peer-churn-54"


def cliquelog(*arguments: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, [str(one) for one in arguments], input=stdin, catch_exceptions=False)


def holdings(log: str) -> list[dict[str, object]]:
    """Give the holdings without their sources."""
    found = json.loads(cliquelog("audit", log, "--json").stdout)["holdings"]
    return [{field: one[field] for field in one if "source" not in field} for one in found]


@pytest.fixture
def log(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'log.sqlite'}"


def test_a_folder_of_rotated_files_gives_what_the_whole_gives(tmp_path: Path, log: str) -> None:
    folder = tmp_path / "audit"
    folder.mkdir()
    whole = lines(audit_log(CHURN))
    (folder / "audit.log").write_bytes(b"".join(whole[600:]))
    (folder / "audit-1.log").write_bytes(b"".join(whole[300:600]))
    (folder / "audit-2.log.gz").write_bytes(gzip.compress(b"".join(whole[:300])))

    done = json.loads(cliquelog("import", folder, "--to", log, "--json").stdout)

    assert [one["lines"] for one in done["inputs"]] == [300, 300, 489]
    assert {one["format"] for one in done["inputs"]} == {"audit"}
    other = f"{log}-whole"
    cliquelog("import", audit_log(CHURN), "--to", other)
    assert holdings(log) == holdings(other)


def test_standard_input_is_read(log: str) -> None:
    done = cliquelog("import", "-", "--to", log, stdin=audit_log(CHURN).read_bytes())
    assert done.exit_code == 0
    assert "-: audit, 1089 lines" in done.stdout
    assert len(holdings(log)) == 62


def test_a_bad_line_is_named_and_is_a_gap_in_the_log_and_the_rest_goes_on(tmp_path: Path, log: str) -> None:
    bad = tmp_path / "audit.log"
    whole = lines(audit_log(CHURN))
    bad.write_bytes(b"".join(whole[:10]) + b'{"kind": 7}\n\x00\xff\n' + b"".join(whole[10:]))

    done = cliquelog("import", bad, "--to", log)

    assert done.exit_code == 0
    assert f"{bad}:11: it is not an audit event" in done.stderr.replace("\n", "")
    assert "1091 lines, 2 not understood" in done.stdout
    found = json.loads(cliquelog("audit", log, "--json").stdout)
    assert len(found["holdings"]) == 62
    gaps = [one["records"][0]["source"] for one in found["findings"] if one["code"] == "visibility-gap"]
    assert gaps == [f"{bad}:11", f"{bad}:12"]


def test_strict_ends_at_a_bad_line(tmp_path: Path, log: str) -> None:
    bad = tmp_path / "audit.log"
    bad.write_bytes(b"".join(lines(audit_log(CHURN))[:10]) + b"{}\n")
    done = cliquelog("import", bad, "--to", log, "--strict")
    assert done.exit_code == exits.INPUT
    assert f"{bad}:11: it is not an audit event" in done.stderr


def test_a_file_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path, log: str) -> None:
    cut = tmp_path / "audit.log.gz"
    cut.write_bytes(audit_log(CHURN).read_bytes()[:200_000])
    done = cliquelog("import", cut, "--to", log)
    assert done.exit_code == 0
    assert "the rest of the file cannot be read" in done.stderr.replace("\n", " ")
    assert holdings(log)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"no json at all\n", "is of no format that an import reads"),
        (b"\x00\x01\x02", "is of no format that an import reads"),
        (None, "there is no file"),
    ],
)
def test_what_cannot_be_imported_is_refused_in_a_sentence(
    content: bytes | None, sentence: str, tmp_path: Path, log: str
) -> None:
    path = tmp_path / "input"
    if content is not None:
        path.write_bytes(content)
    done = cliquelog("import", path, "--to", log)
    assert done.exit_code == exits.INPUT
    assert sentence in done.stderr
    assert str(path) in done.stderr


def test_an_empty_file_is_an_empty_history(tmp_path: Path, log: str) -> None:
    (tmp_path / "empty").touch()
    done = cliquelog("import", tmp_path / "empty", "--to", log)
    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, f"0 records in {log}")
    assert cliquelog("audit", log).stdout.splitlines()[0] == "0 records: the log is empty"


def test_a_log_that_holds_records_is_refused(log: str) -> None:
    assert cliquelog("import", *watches(CHURN), "--to", log).exit_code == 0
    again = cliquelog("import", *watches(CHURN), "--to", log)
    assert again.exit_code == exits.LOG
    assert "holds records already" in again.stderr


def test_a_log_that_was_imported_verifies(log: str) -> None:
    cliquelog("import", audit_log(CHURN), *watches(CHURN), "--to", log)
    assert cliquelog("verify", log).exit_code == 0

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


@pytest.mark.parametrize("name", ["snapshot", "watch", "capture"])
def test_a_format_that_the_input_is_not_of_is_refused_in_one_sentence(name: str, tmp_path: Path, log: str) -> None:
    done = cliquelog("import", audit_log(CHURN), "--format", name, "--to", log)
    assert (done.exit_code, done.stdout) == (exits.INPUT, "")
    assert done.stderr.splitlines() == [
        f"Error: {audit_log(CHURN)} is of format audit, not {name}; give --format audit, or leave it out"
    ]
    assert not list(tmp_path.iterdir())


def test_a_format_that_is_forced_upon_what_is_of_none_is_refused_in_one_sentence(tmp_path: Path, log: str) -> None:
    path = tmp_path / "input"
    path.write_bytes(b'{"a": 1}\n{"b": 2}\n')
    done = cliquelog("import", path, "--format", "watch", "--to", log)
    assert done.exit_code == exits.INPUT
    (sentence,) = done.stderr.splitlines()
    assert f"{path} is not of format watch, which --format names" in sentence


def test_a_note_in_a_folder_is_passed_over_and_counted(tmp_path: Path, log: str) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "audit.log").write_bytes(b"".join(lines(audit_log(CHURN))))
    (folder / "notes.txt").write_text("what we did that night\n")

    strict = cliquelog("import", folder, "--to", log, "--strict")
    assert strict.exit_code == exits.INPUT
    assert f"{folder / 'notes.txt'} is of no format" in strict.stderr

    done = cliquelog("import", folder, "--to", log, "--json")
    assert done.exit_code == 0
    assert f"{folder / 'notes.txt'}: passed over: " in done.stderr
    read, passed_over = json.loads(done.stdout)["inputs"]
    assert (read["lines"], read["passed_over"]) == (1089, "")
    assert (passed_over["format"], passed_over["lines"]) == (None, 0)
    assert "is of no format" in passed_over["passed_over"]
    assert len(holdings(log)) == 62


def test_a_folder_of_notes_only_is_refused(tmp_path: Path, log: str) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text("nothing of ours\n")
    done = cliquelog("import", folder, "--to", log)
    assert done.exit_code == exits.INPUT
    assert f"no input can be read: {folder / 'a.txt'} is of no format" in done.stderr
    assert done.stderr.splitlines()[-1].endswith("; so it is with 1 more")
    assert [one.name for one in tmp_path.iterdir()] == ["kept"]


def test_an_import_that_fails_leaves_no_log_that_it_made_and_left_empty(tmp_path: Path, log: str) -> None:
    bad = tmp_path / "audit.log"
    bad.write_bytes(b"".join(lines(audit_log(CHURN))[:10]) + b"{}\n")
    assert cliquelog("import", bad, "--to", log, "--strict").exit_code == exits.INPUT
    assert [one.name for one in tmp_path.iterdir()] == ["audit.log"]

    empty = tmp_path / "empty"
    empty.touch()
    cliquelog("import", empty, "--to", log)
    assert cliquelog("import", bad, "--to", log, "--strict").exit_code == exits.INPUT
    assert (tmp_path / "log.sqlite").exists(), "somebody else made it"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_text_of_another_encoding_is_refused_with_the_mend(encoding: str, tmp_path: Path, log: str) -> None:
    path = tmp_path / "cliques.json"
    path.write_bytes(gzip.decompress(watches(CHURN)[0].read_bytes()).decode().encode(encoding))
    done = cliquelog("import", path, "--to", log)
    assert done.exit_code == exits.INPUT
    assert f"{path} is text in UTF-16" in done.stderr
    assert f"iconv -f UTF-16 -t UTF-8 {path}" in done.stderr


@pytest.mark.parametrize("is_stdin", [False, True])
def test_a_mark_of_the_encoding_before_the_first_line_is_no_part_of_it(
    is_stdin: bool, tmp_path: Path, log: str
) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(b"\xef\xbb\xbf" + b"".join(lines(audit_log(CHURN))))
    done = cliquelog("import", "-" if is_stdin else path, "--to", log, stdin=path.read_bytes() if is_stdin else None)
    assert (done.exit_code, done.stderr) == (0, "")
    assert len(holdings(log)) == 62


@pytest.mark.parametrize("content", [b"[]", b" [\n]\n", b'{"apiVersion": "v1", "kind": "List", "items": []}'])
def test_an_empty_list_is_an_empty_history(content: bytes, tmp_path: Path, log: str) -> None:
    path = tmp_path / "pods.json"
    path.write_bytes(content)
    done = cliquelog("import", path, "--to", log)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == f"0 records in {log}"


def test_what_follows_a_compressed_log_is_told_in_our_words(tmp_path: Path, log: str) -> None:
    path = tmp_path / "audit.log.gz"
    path.write_bytes(gzip.compress(b"".join(lines(audit_log(CHURN)))) + b"trash")
    done = cliquelog("import", path, "--to", log)
    assert f"{path}:1090: the rest of the file cannot be read: it is compressed, and damaged here" in done.stderr
    assert len(holdings(log)) == 62

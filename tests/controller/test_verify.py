"""`cliquelog verify` on real log files: sound ones, changed ones, and files that are no logs."""

import asyncio
import contextlib
import json
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from controller import exits
from controller.commands.cli import main
from controller.history import verify
from eventlog import codec
from eventlog.events import AnyEvent, CdcSeen, DaemonSetSeen, DomainSeen, IndexAssigned, NodeSeen
from eventlog.partitioner import partition_for
from eventlog.record import Entry, Headers, Record
from eventlog.sqlite import SqliteLog, SqliteSnapshots
from projections.clique import CliqueState
from projections.partition import Folded, PartitionFold
from projections.visibility import ControllerState

CLIQUE = "4d1f3a9e-8a64-4d0a-9f0e-1c35f0c6b001.7"
PARTITIONS = 3
PARTITION = partition_for(CLIQUE, PARTITIONS)
NODES = 5


def history() -> list[AnyEvent]:
    events: list[AnyEvent] = [
        DomainSeen("d0", 1, "team", "d0", "template", "Single"),
        DaemonSetSeen("d0", "ds", 2, "driver", "daemons", 18, reader=True),
    ]
    for number in range(NODES):
        events.append(NodeSeen(f"n{number}", f"u{number}", 10 + number, CLIQUE, "d0"))
        events.append(IndexAssigned("d0", f"n{number}", number, 18, "never used"))
    return events


async def _write(path: Path, entries: list[Entry], *, snapshot: bool) -> None:
    log = await SqliteLog.open(path, partitions=PARTITIONS)
    await log.append(entries)
    if snapshot:
        fold = PartitionFold()
        for record in await log.read(PARTITION, 0, limit=1000, timeout_s=0):
            fold.apply(record)
        await SqliteSnapshots(log).save(PARTITION, fold.next_offset, fold.snapshot())
    await log.close()


def write(path: Path, *more: Entry, snapshot: bool = False) -> Path:
    entries = [codec.entry(CLIQUE, event, timestamp_ms=1, controller="test") for event in history()]
    asyncio.run(_write(path, [*entries, *more], snapshot=snapshot))
    return path


def change(path: Path, statement: str, *values: object) -> None:
    """Change the file behind the log's back."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        changed = connection.execute(statement, values).rowcount
        connection.commit()
        assert changed == 1, "the test did not change what it meant to"


def change_a_node_in_the_middle(path: Path) -> None:
    change(
        path,
        "UPDATE record SET value = CAST(replace(CAST(value AS TEXT), ?, ?) AS BLOB) WHERE CAST(value AS TEXT) LIKE ?",
        '"n2"',
        '"x2"',
        "%node-seen%n2%",
    )


def run(path: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["verify", f"sqlite:{path}", *options])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.sqlite"


def test_a_sound_log_is_found_sound(path: Path) -> None:
    write(path, snapshot=True)
    result = run(path)
    assert result.exit_code == 0
    assert result.output.splitlines()[0] == f"records     {2 + 2 * NODES} in {PARTITIONS} partitions"
    assert [line.split()[1] for line in result.output.splitlines()[2:]] == ["ok", "ok", "ok"]


def test_equal_logs_have_equal_digests_and_heads(tmp_path: Path) -> None:
    answers = [json.loads(run(write(tmp_path / name), "--json").output) for name in ("a", "b")]
    assert answers[0] == answers[1]
    assert answers[0]["heads"].keys() == {str(PARTITION)}


def test_a_record_that_was_changed_in_the_middle_does_not_fit_the_snapshot(path: Path) -> None:
    write(path, snapshot=True)
    change_a_node_in_the_middle(path)
    result = run(path, "--json")
    assert result.exit_code == exits.FOUND
    (finding,) = json.loads(result.output)["integrity"]
    assert "are not those that its snapshot was made of" in finding


def test_a_record_that_was_changed_changes_the_head_of_its_partition(path: Path) -> None:
    write(path)
    before = json.loads(run(path, "--json").output)
    change_a_node_in_the_middle(path)
    after = json.loads(run(path, "--json").output)
    assert before["heads"][str(PARTITION)] != after["heads"][str(PARTITION)]


def test_a_record_that_cannot_be_decoded_any_more_is_named(path: Path) -> None:
    write(path)
    change(path, "UPDATE record SET value = ? WHERE CAST(value AS TEXT) LIKE ?", b"{}", "%node-seen%n2%")
    result = run(path, "--json")
    verdict = json.loads(result.output)
    assert result.exit_code == exits.FOUND
    assert [finding.split()[:2] for finding in verdict["integrity"]] == [[f"{PARTITION}/6", "undecodable:"]]
    assert verdict["determinism"] == []


def test_a_record_of_a_newer_schema_is_named_and_its_partition_is_not_folded(path: Path) -> None:
    write(path, Entry(CLIQUE, 1, Headers("node-seen", codec.SCHEMA_VERSION + 1, "newer"), b"{}"))
    result = run(path, "--json")
    verdict = json.loads(result.output)
    assert result.exit_code == exits.FOUND
    assert [finding.split()[:2] for finding in verdict["integrity"]] == [[f"{PARTITION}/12", "newer-schema:"]]
    assert verdict["determinism"] == [f"partition {PARTITION} was not folded: it has records of a newer schema version"]


def test_more_undecodable_records_than_are_named_end_the_report_too(path: Path) -> None:
    poison = [Entry(CLIQUE, 1, Headers("node-seen", 1, "test"), b"{}")] * 150
    write(path, *poison)
    result = run(path, "--json")
    assert result.exit_code == exits.FOUND
    assert json.loads(result.output)["integrity"][-1] == f"partition {PARTITION}: 150 findings in all"


def test_a_record_that_is_missing_is_named(path: Path) -> None:
    write(path)
    change(path, "DELETE FROM record WHERE CAST(value AS TEXT) LIKE ?", "%node-seen%n2%")
    result = run(path, "--json")
    assert result.exit_code == exits.FOUND
    assert f"{PARTITION}/7 offset-gap" in json.loads(result.output)["integrity"][0]


def test_records_that_are_missing_at_the_end_are_known_from_the_snapshot(path: Path) -> None:
    write(path, snapshot=True)
    change(path, "DELETE FROM record WHERE position = (SELECT max(position) FROM record)")
    result = run(path, "--json")
    assert result.exit_code == exits.FOUND
    assert "records are missing at the end" in json.loads(result.output)["integrity"][0]


def test_a_record_in_the_wrong_partition_is_named(path: Path) -> None:
    write(path)
    other = next(f"c.{number}" for number in range(100) if partition_for(f"c.{number}", PARTITIONS) != PARTITION)
    change(path, "UPDATE record SET key = ? WHERE CAST(value AS TEXT) LIKE ?", other, "%node-seen%n2%")
    result = run(path, "--json")
    assert result.exit_code == exits.FOUND
    assert f"{PARTITION}/6 wrong-partition" in json.loads(result.output)["integrity"][0]


def test_a_broken_rule_is_told_with_its_place(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No log can break the rules while the fold keeps them, so here the rule is another: no node n3."""

    def no_n3(state: CliqueState) -> list[str]:
        return ["there is a node n3"] if "n3" in state.nodes else []

    monkeypatch.setattr(verify, "indices_are_unique", no_n3)
    write(path)
    result = run(path, "--json")
    violations = json.loads(result.output)["violations"]
    assert result.exit_code == exits.FOUND
    assert violations[0] == {"position": f"{PARTITION}/8", "key": CLIQUE, "message": "there is a node n3"}
    assert len(violations) == 4


def test_the_text_fits_80_columns(path: Path) -> None:
    write(path, snapshot=True)
    change_a_node_in_the_middle(path)
    lines = run(path).output.splitlines()
    assert "integrity   1 finding" in lines
    assert max(len(line) for line in lines) <= 80


def test_a_log_of_a_running_controller_can_be_verified(path: Path) -> None:
    write(path)

    async def beside_a_writer() -> Result:
        log = await SqliteLog.open(path, partitions=PARTITIONS)
        try:
            return await asyncio.to_thread(run, path)
        finally:
            await log.close()

    assert asyncio.run(beside_a_writer()).exit_code == 0


def sentence(result: Result) -> str:
    """Give the one line of an error, without click's word before it."""
    (line,) = result.output.splitlines()
    assert line.startswith("Error: ")
    return line.removeprefix("Error: ")


def test_a_file_that_is_not_there_is_one_sentence(path: Path) -> None:
    result = run(path)
    assert result.exit_code == exits.LOG
    assert str(path) in sentence(result)
    assert not path.exists()


def test_a_file_that_is_no_log_is_one_sentence(path: Path) -> None:
    path.write_text("some text\n" * 1000)
    result = run(path)
    assert result.exit_code == exits.LOG
    assert str(path) in sentence(result)


def test_a_log_of_a_newer_version_is_one_sentence(path: Path) -> None:
    write(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        connection.execute(f"PRAGMA user_version = {version + 1}")
    result = run(path)
    assert result.exit_code == exits.LOG
    assert "newer" in sentence(result)


def test_a_place_without_a_scheme_is_one_sentence(path: Path) -> None:
    result = CliRunner().invoke(main, ["verify", str(path)])
    assert result.exit_code == exits.LOG
    assert "write sqlite:PATH" in sentence(result)


def test_heads_that_were_noted_tell_later_which_record_was_changed(path: Path, tmp_path: Path) -> None:
    write(path)
    note = tmp_path / "heads.json"
    assert run(path, "--note", str(note)).exit_code == 0
    assert run(path, "--against", str(note)).exit_code == 0
    change_a_node_in_the_middle(path)
    result = run(path, "--against", str(note), "--json")
    assert result.exit_code == exits.FOUND
    (finding,) = json.loads(result.output)["integrity"]
    assert finding.startswith(f"{PARTITION}/6 changed-since: this record is not the one that was noted here")


def test_heads_that_were_noted_tell_later_that_records_are_missing_at_the_end(path: Path, tmp_path: Path) -> None:
    write(path)
    note = tmp_path / "heads.json"
    run(path, "--note", str(note))
    change(path, "DELETE FROM record WHERE position = (SELECT max(position) FROM record)")
    result = run(path, "--against", str(note), "--json")
    assert result.exit_code == exits.FOUND
    assert f"{PARTITION}/11 missing-since: the log ends here, and 1 more" in json.loads(result.output)["integrity"][0]


def test_a_log_that_grew_is_what_was_noted_and_is_noted_anew(path: Path, tmp_path: Path) -> None:
    write(path)
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    run(path, "--note", str(first))

    async def grow() -> None:
        log = await SqliteLog.open(path, partitions=PARTITIONS)
        await log.append([codec.entry(CLIQUE, NodeSeen("late", "u", 99, CLIQUE, "d0"), timestamp_ms=2, controller="t")])
        await log.close()

    asyncio.run(grow())
    assert run(path, "--against", str(first), "--note", str(second)).exit_code == 0
    assert run(path, "--against", str(second)).exit_code == 0
    assert first.read_bytes() != second.read_bytes()


def test_a_note_is_never_written_over(path: Path, tmp_path: Path) -> None:
    write(path)
    note = tmp_path / "heads.json"
    note.write_text("mine")
    result = run(path, "--note", str(note))
    assert result.exit_code == exits.CONFIGURATION
    assert "it is there already" in sentence(result)
    assert note.read_text() == "mine"


@pytest.mark.parametrize(
    ("content", "part"), [(None, "cannot be read"), ("{}", "cannot be used"), ('{"form": 1}', "cannot be used")]
)
def test_a_note_that_cannot_be_used_is_one_sentence(path: Path, tmp_path: Path, content: str | None, part: str) -> None:
    write(path)
    note = tmp_path / "heads.json"
    if content is not None:
        note.write_text(content)
    result = run(path, "--against", str(note))
    assert result.exit_code == exits.CONFIGURATION
    assert part in sentence(result)
    assert str(note) in sentence(result)


def test_a_fold_that_depends_on_the_number_of_partitions_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fold knows no partitions, so here one is made that counts those of its own partition."""
    write(path)
    apply = PartitionFold.apply

    def counting(fold: PartitionFold, record: Record) -> Folded:
        event = apply(fold, record)
        fold.aggregates[f"controller/{record.partition}"] = ControllerState(str(fold.next_offset))
        return event

    monkeypatch.setattr(PartitionFold, "apply", counting)
    result = run(path, "--json")
    assert result.exit_code == exits.FOUND
    assert json.loads(result.output)["determinism"] == [
        f"the state differs when the records are spread over {PARTITIONS + 1} partitions"
    ]


def cdc(version: int, position: str) -> Entry:
    seen = CdcSeen("d0", CLIQUE, "driver", f"d0.{CLIQUE}", "cdc", version, (), (), position)
    return codec.entry(CLIQUE, seen, timestamp_ms=1, controller="test")


def test_a_write_that_went_back_behind_a_newer_one_is_told(path: Path) -> None:
    write(path, cdc(50, f"{PARTITION}/11"), cdc(51, f"{PARTITION}/5"), cdc(52, f"{PARTITION}/7"))
    result = run(path, "--json")
    assert result.exit_code == exits.FOUND
    assert json.loads(result.output)["violations"] == [
        {
            "position": f"{PARTITION}/13",
            "key": CLIQUE,
            "message": f"d0.{CLIQUE}: a write computed at {PARTITION}/5 came after one computed at {PARTITION}/11",
        }
    ]


def test_places_in_an_earlier_log_and_texts_that_are_none_are_no_writes_that_went_back(path: Path) -> None:
    positions = [
        f"{PARTITION}/900",
        f"{PARTITION}/12",
        "9/3",
        "",
        "x",
        "1/2/3",
        f"{PARTITION}/{'9' * 50}",
        f"{PARTITION}/13",
    ]
    write(path, *(cdc(50 + number, position) for number, position in enumerate(positions)))
    assert run(path).exit_code == 0


def test_the_json_form_has_the_fields_that_are_documented(tmp_path: Path) -> None:
    document = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    fields = json.loads(run(write(tmp_path / "log"), "--json").output)
    for field in (*fields, *verify.Violation.__struct_fields__):
        assert f"`{field}`" in document, field

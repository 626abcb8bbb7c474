"""`cliquelog audit`: filters, forms and exit codes."""

import asyncio
import csv
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from controller import exits
from eventlog import codec
from eventlog.events import NodeGone
from eventlog.sqlite import SqliteLog
from tests.history.histories import audit_log, truth
from tests.history.test_import_command import CHURN, cliquelog

CLIQUE = "00000000-0000-4000-8000-000000000000.0"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = f"sqlite:{tmp_path_factory.mktemp('audit') / 'log.sqlite'}"
    assert cliquelog("import", audit_log(CHURN), "--to", place).exit_code == 0
    return place


def found(log: str, *options: str) -> dict[str, list[dict[str, object]]]:
    done: dict[str, list[dict[str, object]]] = json.loads(cliquelog("audit", log, "--json", *options).stdout)
    return done


def test_the_json_form_has_the_fields_that_are_documented(log: str) -> None:
    done = found(log)
    document = (Path(__file__).parents[2] / "docs" / "history.md").read_text()
    for part in (done, done["holdings"][0], done["findings"][0], done["findings"][0]["records"][0]):  # type: ignore[index]
        for field in part:
            assert f"`{field}`" in document, field


def test_a_holding_that_lasts_has_no_end(log: str) -> None:
    for one in found(log)["holdings"]:
        ends = [one["to_time"], one["to_resource_version"], one["to_offset"], one["end_cause"]]
        assert ends == [None] * 4 or None not in ends


def test_filters_leave_what_they_name(log: str) -> None:
    domain = next(iter(found(log)["domains"]))  # type: ignore[call-overload]
    assert {one["node"] for one in found(log, "--node", "node-00004")["holdings"]} == {"node-00004"}
    assert {one["clique"] for one in found(log, "--clique", CLIQUE)["holdings"]} == {CLIQUE}
    assert {one["index"] for one in found(log, "--index", "7")["holdings"]} == {7}
    for name in (domain, "domain", "workload/domain"):
        assert len(found(log, "--domain", name)["holdings"]) == len(truth(CHURN))


def test_at_and_between_take_absolute_and_relative_times(log: str) -> None:
    first, last = (found(log, "--at", time, "--node", "node-00004")["holdings"] for time in ("+10s", "+39s"))
    assert [one["index"] for one in (*first, *last)] == [6, 7]
    assert found(log, "--at", "2026-11-29T12:24:45Z", "--node", "node-00004")["holdings"] == []
    both = found(log, "--between", "+10s", "+39s", "--node", "node-00004")
    assert [one["index"] for one in both["holdings"]] == [6, 7]
    assert [one["code"] for one in both["findings"]] == ["index-not-kept", "row-pruned"]


def test_the_exit_code_says_whether_there_are_findings(log: str) -> None:
    assert cliquelog("audit", log).exit_code == exits.FOUND
    assert cliquelog("audit", log, "--node", "node-00000").exit_code == 0


def test_csv_has_a_line_for_each_holding(log: str) -> None:
    rows = list(csv.DictReader(io.StringIO(cliquelog("audit", log, "--csv").stdout)))
    held = sorted((one["clique"], one["node"], int(one["index"]), int(one["from_resource_version"])) for one in rows)
    assert held == [one[:4] for one in truth(CHURN)]


def test_the_tables_fit_into_80_columns(log: str) -> None:
    lines = cliquelog("audit", log).stdout.splitlines()
    assert max(len(line) for line in lines if not line.startswith(("clique", "domain"))) <= 80


@pytest.mark.parametrize(
    "options",
    [("--at", "yesterday"), ("--at", "+1s", "--between", "+1s", "+2s"), ("--json", "--csv"), ("--index", "-1")],
)
def test_a_wrong_command_line_is_refused(log: str, options: tuple[str, ...]) -> None:
    done = cliquelog("audit", log, *options)
    assert done.exit_code == 2
    assert "Error: " in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--node", "node-0004"), "speaks of node 'node-0004'; near it: 'node-00049', "),
        (("--clique", "nosuch.1"), "speaks of clique 'nosuch.1'"),
        (("--domain", "workload/domian"), "speaks of domain 'workload/domian'; near it: 'workload/domain'"),
        (("--at", "2020-01-01"), "'2020-01-01' is before the log begins, at 2026-11-29T"),
        (("--between", "2019-01-01", "2020-01-01"), "'2020-01-01' is before the log begins, at 2026-11-29T"),
        (("--between", "+20s", "+10s"), "--between ends at +10s, before it begins at +20s"),
    ],
)
def test_what_the_log_cannot_know_is_not_answered_with_no_findings(log: str, options: list[str], said: str) -> None:
    done = cliquelog("audit", log, *options)
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stdout == ""


def test_a_question_that_the_log_answers_with_nobody_says_so(log: str) -> None:
    assert cliquelog("audit", log, "--node", "node-00000", "--index", "17").stdout.splitlines()[2:] == [
        "no holdings: no record of the log shows one of what is asked for",
        "",
        "no findings",
    ]


def history(folder: Path, nodes: list[str], created: str = "2026-09-11T10:00:00Z") -> str:
    """Import a CDC with a row for each node, as a watch showed it, and give the log's place."""
    rows = [
        {"nodeName": node, "ipAddress": f"10.0.0.{index}", "cliqueID": CLIQUE, "index": index, "status": "Ready"}
        for index, node in enumerate(nodes)
    ]
    cdc = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomainClique",
        "metadata": {
            "name": f"d0.{CLIQUE}",
            "namespace": "driver",
            "uid": "u",
            "resourceVersion": "5",
            "generation": 1,
            "creationTimestamp": created,
        },
        "daemons": rows,
    }
    watch, place = folder / "watch.json", f"sqlite:{folder / 'log.sqlite'}"
    watch.write_text(json.dumps({"type": "ADDED", "object": cdc}) + "\n")
    assert cliquelog("import", watch, "--to", place).exit_code == 0
    return place


@pytest.mark.parametrize("length", [8, 16, 17, 40, 70])
def test_a_node_is_named_whole_in_80_columns_and_no_line_ends_with_spaces(tmp_path: Path, length: int) -> None:
    nodes = [f"ip-{number}".ljust(length, "x") for number in range(3)]
    shown = cliquelog("audit", history(tmp_path, nodes)).stdout.splitlines()
    table = shown[shown.index(next(line for line in shown if line.startswith("index"))) :]
    assert max(map(len, table)) <= 80
    assert [line for line in shown if line != line.rstrip()] == []
    for node in nodes:
        assert any(node in line.split() for line in table), node


def test_one_record_is_not_many(tmp_path: Path) -> None:
    place = f"sqlite:{tmp_path / 'log.sqlite'}"

    async def filled() -> None:
        log = await SqliteLog.open(Path(place.removeprefix("sqlite:")), partitions=2)
        await log.append([codec.entry("c1.0", NodeGone("n", "u", 1), timestamp_ms=1_790_000_000_000, controller="c")])
        await log.close()

    asyncio.run(filled())
    assert cliquelog("audit", place).stdout.startswith("1 record, 2026-")
    assert cliquelog("replay", place).stdout.startswith("1 record, digest ")


@pytest.mark.parametrize(
    ("created", "said"),
    [
        ("1970-01-01T00:00:01Z", "before 2014, when there was no Kubernetes"),
        ("9999-01-01T00:00:01Z", "more than a day after now"),
    ],
)
def test_a_time_that_cannot_be_is_shown_as_a_doubtful_one(tmp_path: Path, created: str, said: str) -> None:
    place = history(tmp_path, ["gb200-07"], created)
    done = cliquelog("audit", place)
    assert done.stdout.splitlines()[1] == f"? there are times {said}"
    assert f"{created[11:19]}.000? " in done.stdout
    one = found(place)
    assert one["doubtful"] == f"there are times {said}"
    assert one["holdings"][0]["time_certainty"] == "inferred"
    assert f"its times: {said}" in str(one["holdings"][0]["inferred"])
    assert f"{created[:10]}T00:00:01.000Z is {said}" in cliquelog("why", "gb200-07", "--log", place).stdout.replace(
        "\n", " "
    )


def test_times_that_can_be_are_not_doubted(log: str) -> None:
    assert found(log)["doubtful"] is None
    assert "?" not in cliquelog("audit", log).stdout


def test_a_name_in_csv_is_what_was_written_and_no_formula(tmp_path: Path) -> None:
    nodes = ["=1+1", "@x", "-x", "+x", "n\u001b[31mx", "n\u009b31mx", 'a,"b']
    place = history(tmp_path, nodes)
    rows = list(csv.DictReader(io.StringIO(cliquelog("audit", place, "--csv").stdout)))
    assert [one["node"] for one in rows] == ["'=1+1", "'@x", "'-x", "'+x", *nodes[4:]]
    printed = cliquelog("audit", place, "--json").stdout
    assert [one["node"] for one in json.loads(printed)["holdings"]] == nodes
    assert all(sign.isprintable() or sign == "\n" for sign in printed)


def test_a_terminal_is_not_shown_what_it_would_obey(tmp_path: Path) -> None:
    place = history(tmp_path, ["n\u001b[31mx", "n\u009b31mx"])
    for options in (
        ["audit", place, "--csv"],
        ["audit", place],
        ["why", "n\u001b[31mx", "--log", place],
    ):
        shown = on_a_terminal(*options)
        assert "n\N{REPLACEMENT CHARACTER}" in shown
        assert "\u001b[31m" not in shown
        assert "\u009b" not in shown


def on_a_terminal(*arguments: str) -> str:
    """Give what the command writes to a terminal."""
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-m", "controller", *arguments]
        done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, timeout=60, check=False)
    finally:
        os.close(theirs)
    with os.fdopen(ours, "rb") as terminal:
        shown = b""
        while more := read_rest(terminal.fileno()):
            shown += more
    assert b"Traceback" not in done.stderr
    return shown.decode()


def read_rest(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so where nobody writes to it any more.
        return b""

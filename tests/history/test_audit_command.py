"""`cliquelog audit`: filters, forms and exit codes."""

import csv
import io
import json
from pathlib import Path

import pytest

from controller import exits
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

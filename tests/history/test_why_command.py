"""`cliquelog why`: forms, exit codes and what it refuses."""

import json
from pathlib import Path

import pytest

from controller import exits
from tests.history.histories import audit_log
from tests.history.test_import_command import CHURN, cliquelog

NODE = "node-00004"
CLIQUE = "00000000-0000-4000-8000-000000000000.0"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = f"sqlite:{tmp_path_factory.mktemp('why') / 'log.sqlite'}"
    assert cliquelog("import", audit_log(CHURN), "--to", place).exit_code == 0
    return place


def test_a_node_that_is_ready_at_the_end_was_not_while_its_daemon_started_anew(log: str) -> None:
    done = cliquelog("why", NODE, "--log", log)
    assert done.exit_code == 0
    assert "is ready with index 7" in done.stdout.replace("\n", " ")
    earlier = cliquelog("why", NODE, "--log", log, "--at", "+36s")
    assert earlier.exit_code == exits.FOUND
    assert earlier.stdout.splitlines()[0] == f"the daemon on node {NODE} runs and is not ready: IMEX is not."
    assert earlier.stdout.splitlines()[-1] == "look at: kubectl logs daemon-00004-r -n driver"


def test_the_json_form_has_the_fields_that_are_documented_and_names_its_sources(log: str) -> None:
    document = (Path(__file__).parents[2] / "docs" / "why.md").read_text()
    answer = json.loads(cliquelog("why", NODE, "--log", log, "--json").stdout)
    for part in (answer, answer["steps"][0], answer["spent"][0]):
        for field in part:
            assert f"`{field}`" in document, field
    assert answer["ready"] is True
    assert (answer["clique"], answer["domain_name"], answer["pod"]) == (
        CLIQUE,
        "workload/domain",
        "driver/daemon-00004-r",
    )
    taken = [step for step in answer["steps"] if step["done"]]
    assert len(taken) == 6
    assert all("audit.jsonl.gz:" in step["source"] for step in taken)
    assert [step["step"] for step in answer["steps"] if not step["done"]] == ["label"]


def test_the_document_shows_what_is_printed(log: str) -> None:
    document = (Path(__file__).parents[2] / "docs" / "why.md").read_text()
    printed = cliquelog("why", NODE, "--log", log, "--at", "+36s").stdout
    shown = "\n".join(line.rstrip() for line in printed.splitlines())
    assert f"```text\n{shown}\n```" in document


def test_the_text_fits_into_80_columns_but_for_names(log: str) -> None:
    for at in ("+36s", "+50s"):
        lines = cliquelog("why", NODE, "--log", log, "--at", at).stdout.splitlines()
        assert max(len(line) for line in lines if not line.startswith(("look at", "clique"))) <= 80


def test_a_name_that_a_terminal_would_obey_does_not_reach_it(tmp_path: Path) -> None:
    row = {"nodeName": "n\u001b[2Jx", "ipAddress": "10.0.0.1", "cliqueID": CLIQUE, "index": 0, "status": "NotReady"}
    cdc = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomainClique",
        "metadata": {
            "name": f"d0.{CLIQUE}",
            "namespace": "driver",
            "uid": "u",
            "resourceVersion": "5",
            "generation": 1,
        },
        "daemons": [row],
    }
    watch = tmp_path / "watch.json"
    watch.write_text(json.dumps({"type": "ADDED", "object": cdc}) + "\n")
    log = f"sqlite:{tmp_path / 'log.sqlite'}"
    assert cliquelog("import", watch, "--to", log).exit_code == 0
    done = cliquelog("why", "n\u001b[2Jx", "--log", log)
    assert done.exit_code == exits.FOUND
    assert "index   0" in done.stdout
    assert "\u001b" not in done.stdout


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "say whom to ask"),
        (("--log", "LOG", "--at", "yesterday"), "is no time"),
        (("--log", "LOG", "--at", "2020-01-01"), "is before the log begins, at 2026-11-29T12:24:"),
        (("--log", "LOG", "--url", "http://127.0.0.1:1"), "exclude each other"),
    ],
)
def test_a_wrong_command_line_is_refused(log: str, options: tuple[str, ...], sentence: str) -> None:
    done = cliquelog("why", NODE, *(log if one == "LOG" else one for one in options))
    assert done.exit_code == 2
    assert sentence in done.stderr


@pytest.mark.parametrize("name", ["", " ", "a b", "a/", "/a", "a/b/c", "n" * 400])
def test_what_is_no_name_is_refused(log: str, name: str) -> None:
    done = cliquelog("why", name, "--log", log)
    assert done.exit_code == 2
    assert "is no name: write NODE, POD or NAMESPACE/POD" in done.stderr


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8080", "ftp://h:1", "http://", "http://:80", "http://h:99999", "http://[::1", "http://h:1?q"]
)
def test_an_address_that_is_none_is_not_taken_for_a_controller_that_is_down(url: str) -> None:
    done = cliquelog("why", NODE, "--url", url)
    assert done.exit_code == 2
    assert "is no address: write http://HOST:PORT" in done.stderr


def test_a_name_that_no_cluster_has_is_not_asked_of_a_controller() -> None:
    done = cliquelog("why", "Node_7", "--url", "http://127.0.0.1:1")
    assert done.exit_code == 2
    assert "'Node_7' is no name in a cluster" in done.stderr


def test_a_log_of_the_environment_does_not_stand_in_the_way_of_a_url(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLIQUELOG_LOG", log)
    assert "--log and --url" not in cliquelog("why", NODE, "--url", "http://127.0.0.1:1").stderr
    assert cliquelog("why", NODE).exit_code == 0


def test_a_log_that_is_not_there_is_told(tmp_path: Path) -> None:
    done = cliquelog("why", NODE, "--log", f"sqlite:{tmp_path / 'none.sqlite'}")
    assert done.exit_code == exits.LOG

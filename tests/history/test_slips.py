"""Slips of a user, and histories with holes: nothing is lost, and nothing is called sound that is not."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from controller import exits
from tests.history.histories import audit_log, watches
from tests.history.test_import_command import CHURN, cliquelog


@pytest.fixture
def log(tmp_path: Path) -> str:
    place = f"sqlite:{tmp_path / 'log.sqlite'}"
    assert cliquelog("import", audit_log(CHURN), "--to", place).exit_code == 0
    return place


def test_a_report_never_replaces_what_is_no_page(log: str, tmp_path: Path) -> None:
    path = Path(log.removeprefix("sqlite:"))
    before = path.read_bytes()
    done = cliquelog("report", log, "-o", str(path))
    assert (done.exit_code, path.read_bytes()) == (exits.CONFIGURATION, before)
    assert "is there and is no page" in done.stderr
    page = tmp_path / "page.html"
    link = tmp_path / "link.html"
    link.symlink_to(page)
    for _ in range(2):
        assert cliquelog("report", log, "-o", str(link)).exit_code == 0
    assert link.is_symlink()
    assert page.read_bytes().startswith(b"<!doctype html>")
    os.mkfifo(tmp_path / "pipe")
    assert cliquelog("report", log, "-o", str(tmp_path / "pipe")).exit_code == exits.CONFIGURATION


@pytest.mark.parametrize("size", [3, 300])
def test_a_compressed_input_that_is_cut_at_its_beginning_is_not_empty(tmp_path: Path, size: int) -> None:
    cut = tmp_path / "cut.gz"
    cut.write_bytes(audit_log(CHURN).read_bytes()[:size])
    log = f"sqlite:{tmp_path / 'cut.sqlite'}"
    alone = cliquelog("import", cut, "--to", log)
    assert (alone.exit_code, alone.stdout) == (exits.INPUT, "")
    assert (
        f"no input can be read: {cut}: the file cannot be read: it is compressed, and its end is missing"
        in alone.stderr
    )
    with_others = cliquelog("import", cut, *watches(CHURN), "--to", log)
    assert f"{cut}:1: the file cannot be read" in with_others.stderr
    gaps = [
        one
        for one in json.loads(cliquelog("audit", log, "--json").stdout)["findings"]
        if one["code"] == "visibility-gap"
    ]
    assert [gap["records"][0]["source"] for gap in gaps] == [f"{cut}:1"]


def test_a_gap_is_told_whatever_is_asked_for(tmp_path: Path) -> None:
    lines = tmp_path / "audit.jsonl"
    lines.write_text('{"apiVersion": "audit.k8s.io/v1", "kind": "Event", "stage": 1}\n')
    whole = f"sqlite:{tmp_path / 'log.sqlite'}"
    assert cliquelog("import", lines, audit_log(CHURN), "--to", whole).exit_code == 0
    asked = cliquelog("audit", whole, "--node", "node-00009", "--index", "3")
    assert "visibility-gap" in asked.stdout
    assert asked.exit_code == exits.FOUND


def test_a_log_is_not_copied_onto_itself(log: str, tmp_path: Path) -> None:
    link = tmp_path / "link.sqlite"
    link.symlink_to(Path(log.removeprefix("sqlite:")))
    for target in (log, f"sqlite:{link}"):
        done = cliquelog("copy", log, target)
        assert (done.exit_code, "are one log" in done.stderr) == (exits.LOG, True)


def test_topics_of_kafka_itself_are_no_log() -> None:
    for place in ("kafka://127.0.0.1:1/__consumer_offsets", "kafka://127.0.0.1:1/log?snapshots=__transaction_state"):
        done = cliquelog("topics", "create", place)
        assert (done.exit_code, "Kafka's own topics" in done.stderr) == (exits.LOG, True), done.stderr


def test_a_namespace_that_is_deleted_is_no_gap_where_nothing_of_this_history_lies(tmp_path: Path) -> None:
    lines = tmp_path / "deleted.jsonl"
    lines.write_text("".join(collection_deleted(name) for name in ("elsewhere", "driver")))
    place = f"sqlite:{tmp_path / 'log.sqlite'}"
    assert cliquelog("import", audit_log(CHURN), lines, "--to", place).exit_code == 0
    found = json.loads(cliquelog("audit", place, "--json").stdout)["findings"]
    gaps = [one for one in found if one["code"] == "visibility-gap"]
    assert [record["source"] for one in gaps for record in one["records"]] == [f"{lines}:2"]


def collection_deleted(namespace: str) -> str:
    """Give an audit event as the namespace controller causes it, later than all others."""
    reference = {"apiGroup": "resource.nvidia.com", "resource": "computedomaincliques", "namespace": namespace}
    event = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": f"deleted-{namespace}",
        "stage": "ResponseComplete",
        "requestURI": f"/apis/resource.nvidia.com/v1beta1/namespaces/{namespace}/computedomaincliques",
        "verb": "deletecollection",
        "user": {"username": "system:serviceaccount:kube-system:namespace-controller"},
        "objectRef": reference,
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": "2027-01-01T00:00:00.000000Z",
        "stageTimestamp": "2027-01-01T00:00:00.100000Z",
    }
    return json.dumps(event) + "\n"


def test_ctrl_c_is_no_defect(log: str) -> None:
    command = [sys.executable, "-m", "controller", "replay", log, "--speed", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline(), "it tells what it does as it goes"
        time.sleep(0.2)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert (running.returncode, said.decode().strip()) == (130, "Interrupted.")

"""What a user gets wrong is answered with one sentence, which names the object and the mend, and an exit code."""

import asyncio
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from controller.commands import run as run_command
from controller.commands.cli import main
from controller.commands.run import run
from controller.exits import API, CONFIGURATION, LOG
from eventlog.sqlite import SqliteLog
from kube.names import CDCS, CLAIM_TEMPLATES, COMPUTE_DOMAINS, DAEMON_SETS, NODES, PODS
from simulation.apiserver import application
from tests.controller.bad_input import answer, refused_run, sentence_of, write_kubeconfig
from tests.kube.serving import api_of, served
from tests.mounts import FULL, READ_ONLY, mounted

WATCHED = (CDCS, CLAIM_TEMPLATES, COMPUTE_DOMAINS, DAEMON_SETS, NODES, PODS)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.sqlite"


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    """A kubeconfig whose server does not run: what is refused before it is asked does not need it."""
    return write_kubeconfig(tmp_path / "kubeconfig", f"http://127.0.0.1:{free_port()}")


@pytest.fixture
async def somewhere(tmp_path: Path) -> AsyncIterator[Path]:
    """A kubeconfig of a simulated API server."""
    async with served(application(api_of(WATCHED, {COMPUTE_DOMAINS}))) as server:
        yield write_kubeconfig(tmp_path / "kubeconfig-of-simulation", server)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def names(folder: Path) -> list[str]:
    return sorted(child.name for child in folder.iterdir())


def refused_option(log: Path, option: str, value: str) -> str:
    """Give the sentence of a `cliquelog run` in this process that refuses the option, before it opens the log."""
    needed = ["run", "--log", f"sqlite:{log}", "--image-name", "example.invalid/daemon"]
    done = CliRunner().invoke(main, [*needed, option, value])
    assert names(log.parent) == []
    return sentence_of(done.output, done.exit_code, 2)


async def new_log(path: Path) -> None:
    log = await SqliteLog.open(path, partitions=2)
    await log.close()


# --- the kubeconfig ---


async def test_a_kubeconfig_that_is_not_there_is_named(log: Path, tmp_path: Path) -> None:
    said = await refused_run(log, tmp_path / "absent", code=CONFIGURATION)
    assert said == f"kubeconfig {tmp_path}/absent: there is no such file; give the path of one that exists"
    assert names(tmp_path) == []


@pytest.mark.parametrize("content", ["{a: [", "just words", "clusters: 5", "\x00"])
async def test_a_kubeconfig_that_cannot_be_read_is_named(log: Path, tmp_path: Path, content: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    said = await refused_run(log, path, code=CONFIGURATION)
    assert said.startswith(f"kubeconfig {path}: not a valid kubeconfig: ")
    assert said.endswith("; correct it")


async def test_a_context_that_is_not_there_is_named_beside_those_that_are(log: Path, nowhere: Path) -> None:
    said = await refused_run(log, nowhere, "--context", "other", code=CONFIGURATION)
    assert said == f"kubeconfig {nowhere}: context 'other' does not exist; there is: c"


async def test_a_server_that_does_not_answer_is_named(log: Path, nowhere: Path) -> None:
    said = await refused_run(log, nowhere, code=API)
    assert said.startswith("the API server cannot be reached: ")
    assert "127.0.0.1" in said
    assert said.endswith("; check the address in the kubeconfig, and that the server runs")


# --- the API server ---


@pytest.mark.parametrize("missing", [CDCS, COMPUTE_DOMAINS])
async def test_a_missing_crd_is_named_with_its_folder(log: Path, tmp_path: Path, missing: object) -> None:
    kinds = [kind for kind in WATCHED if kind != missing]
    async with served(application(api_of(kinds))) as server:
        said = await refused_run(log, write_kubeconfig(tmp_path / "kubeconfig", server), code=API)
    name = getattr(missing, "plural", "")
    assert said == (
        f"the API server does not serve {name}.resource.nvidia.com v1beta1; install its CRD from deploy/crds/"
    )


async def test_a_kubernetes_without_claim_templates_is_too_old(log: Path, tmp_path: Path) -> None:
    kinds = [kind for kind in WATCHED if kind != CLAIM_TEMPLATES]
    async with served(application(api_of(kinds))) as server:
        said = await refused_run(log, write_kubeconfig(tmp_path / "kubeconfig", server), code=API)
    assert "resourceclaimtemplates.resource.k8s.io v1; it takes Kubernetes 1.34 or newer" in said


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("there.jsonl", "is there already; name another file, or a folder"),
        ("there.jsonl/capture", "cannot be written (Not a directory); name another place"),
        ("absent/capture.jsonl", "cannot be written (No such file or directory); name another place"),
    ],
)
async def test_a_capture_that_cannot_be_written_is_refused_before_the_api_server_is_asked(
    nowhere: Path, tmp_path: Path, output: str, said: str
) -> None:
    (tmp_path / "there.jsonl").touch()
    before = names(tmp_path)
    told = await answer("record", "-o", tmp_path / output, "--kubeconfig", nowhere, code=LOG)
    assert told == f"{tmp_path / output} {said}"
    assert names(tmp_path) == before


# --- the address to listen on ---


async def test_a_port_that_is_in_use_is_named(log: Path, somewhere: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        endpoint = f"127.0.0.1:{other.getsockname()[1]}"
        said = await refused_run(log, somewhere, "--http-endpoint", endpoint, code=CONFIGURATION)
    assert said == f"cannot listen on {endpoint}: Address already in use; give another --http-endpoint"


async def test_a_host_to_listen_on_that_nobody_knows_is_named(log: Path, somewhere: Path) -> None:
    said = await refused_run(log, somewhere, "--http-endpoint", "no.such.host.invalid:8080", code=CONFIGURATION)
    assert said.startswith("cannot listen on no.such.host.invalid:8080: ")
    assert said.endswith("; give another --http-endpoint")


@pytest.mark.parametrize("host", ["a..b", "h" * 64])
async def test_a_host_to_listen_on_that_cannot_be_a_name_is_named(log: Path, somewhere: Path, host: str) -> None:
    said = await refused_run(log, somewhere, "--http-endpoint", f"{host}:8080", code=CONFIGURATION)
    assert said == f"cannot listen on {host}:8080: no host has such a name; give another --http-endpoint"


@pytest.mark.parametrize("endpoint", ["8080", "host:", "host:http", "host:65536", "host:" + "9" * 5000, "ho\nst:80"])
async def test_an_address_that_is_none_is_refused(log: Path, nowhere: Path, endpoint: str) -> None:
    said = await refused_run(log, nowhere, "--http-endpoint", endpoint, code=2)
    assert said == f"Invalid value for '--http-endpoint': {endpoint!r} is not HOST:PORT"


# --- the other options ---

BAD_NAMES = ("", "..", "../nodes", "a/b", "Team", "-a", "a-", "a\n", "a b", "\u0661")


@pytest.mark.parametrize("name", [*BAD_NAMES, "a.b", "n" * 64])
def test_a_namespace_that_cannot_be_one_is_refused_in_one_sentence(log: Path, name: str) -> None:
    said = refused_option(log, "--namespace", name)
    assert said == (
        f"Invalid value for '--namespace': {name!r} cannot be the name of a namespace: give 1 to 63 of a-z, 0-9 "
        "and '-', neither first nor last a '-'"
    )


@pytest.mark.parametrize("name", [*BAD_NAMES, "a..b", ".a", "a.", "a.-b", "n" * 254])
def test_a_lease_name_that_cannot_be_one_is_refused_in_one_sentence(log: Path, name: str) -> None:
    said = refused_option(log, "--leader-election-lease-lock-name", name)
    assert said == (
        f"Invalid value for '--leader-election-lease-lock-name': {name!r} cannot be the name of an object: give 1 to "
        "253 of a-z, 0-9, '-' and '.', each part between dots neither empty nor with a '-' first or last"
    )


@pytest.mark.parametrize("seconds", ["nan", "inf", "-nan", "infinity", "1e999"])
def test_a_time_that_never_passes_is_refused_in_one_sentence(log: Path, seconds: str) -> None:
    said = refused_option(log, "--recheck-seconds", seconds)
    assert said == f"Invalid value for '--recheck-seconds': {seconds!r} is not a number of seconds"


@pytest.mark.parametrize("seconds", ["0", "-1", "-inf", "soon"])
def test_a_time_that_is_no_time_is_refused_in_one_sentence(log: Path, seconds: str) -> None:
    assert refused_option(log, "--recheck-seconds", seconds).startswith("Invalid value for '--recheck-seconds': ")


def test_an_engine_that_shares_partitions_needs_a_log_on_kafka(log: Path) -> None:
    said = refused_option(log, "--engine", "faust")
    assert said == "--engine faust shares a log on Kafka: give --log kafka://..., or leave --engine out"


@pytest.mark.parametrize("option", ["--group", "--group-instance-id"])
def test_a_group_without_the_engine_that_has_one_is_refused(log: Path, option: str) -> None:
    said = refused_option(log, option, "one")
    assert said == "--group and --group-instance-id are of --engine faust: add that, or leave them out"


@pytest.mark.parametrize("value", ["", " "])
def test_a_group_needs_a_name(log: Path, value: str) -> None:
    """An empty one would be that of everybody who gave none."""
    assert refused_option(log, "--group", value) == (
        f"Invalid value for '--group': {value!r} cannot be the name of a group: give one, or leave the option out"
    )


@pytest.mark.parametrize("value", ["", ".", "..", "a b", "ü", "n" * 250])
def test_a_name_that_kafka_would_not_take_for_a_member_is_refused(value: str) -> None:
    needed = ["run", "--log", "kafka://127.0.0.1:9/topic", "--image-name", "image", "--engine", "faust"]
    done = CliRunner().invoke(main, [*needed, "--group-instance-id", value])
    said = sentence_of(done.output, done.exit_code, 2)
    assert said.startswith(f"Invalid value for '--group-instance-id': {value!r} cannot be the name of a process")


def test_a_name_in_the_environment_is_an_offer_that_the_embedded_engine_does_not_take(log: Path) -> None:
    arguments = ["run", "--log", f"sqlite:{log}", "--image-name", "image", "--kubeconfig", str(log.parent / "none")]
    done = CliRunner().invoke(main, arguments, env={"GROUP_INSTANCE_ID": "of some/other program"})
    # The kubeconfig is what is looked at next.
    assert str(log.parent / "none") in sentence_of(done.output, done.exit_code, CONFIGURATION)


def test_an_engine_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_command, "find_spec", lambda _: None)
    place = "kafka://127.0.0.1:9/topic"
    done = CliRunner().invoke(main, ["run", "--log", place, "--image-name", "image", "--engine", "faust"])
    said = sentence_of(done.output, done.exit_code, CONFIGURATION)
    assert said == "--engine faust needs Faust, which is not installed: install cliquelog[faust]"


def test_the_longest_and_the_shortest_names_are_taken(log: Path) -> None:
    for namespace, lease in (("n" * 63, ".".join(["n" * 84, "m" * 84, "k" * 83])), ("0", "a-b.c")):
        options = ["--namespace", namespace, "--leader-election-lease-lock-name", lease]
        with run.make_context("run", ["--log", f"sqlite:{log}", "--image-name", "image", *options]) as context:
            assert (context.params["namespace"], context.params["lease_name"]) == (namespace, lease)


# --- the log ---


@pytest.mark.parametrize("place", ["log.sqlite", "redis:9092", "sqlite:", "SQLITE:x", ""])
async def test_a_place_that_names_no_log_is_answered_with_the_form(nowhere: Path, place: str) -> None:
    for said in (await refused_run(place, nowhere, code=LOG), await answer("verify", place, code=LOG)):
        assert said.startswith(f"{place!r} does not name a log: write sqlite:PATH")


async def test_a_log_that_is_no_log_is_named_and_left_alone(tmp_path: Path, nowhere: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("shopping list\n" * 100)
    for said in (await refused_run(path, nowhere, code=LOG), await answer("verify", f"sqlite:{path}", code=LOG)):
        assert said == f"{path} is not a SQLite file, so not a log; give another path"
    assert path.read_text() == "shopping list\n" * 100


async def test_a_log_of_a_newer_format_is_named(log: Path, nowhere: Path) -> None:
    await new_log(log)
    with closing(sqlite3.connect(log)) as newer:
        newer.execute("PRAGMA user_version = 2")
    for said in (await refused_run(log, nowhere, code=LOG), await answer("verify", f"sqlite:{log}", code=LOG)):
        assert said == f"{log} has log format 2 and this program reads 1; use a newer cliquelog"


async def test_a_log_with_a_record_of_a_newer_schema_is_named_with_the_record(log: Path, somewhere: Path) -> None:
    await new_log(log)
    with closing(sqlite3.connect(log)) as newer:
        newer.execute("INSERT INTO headers VALUES (1, 'node-seen', 99, 'a newer controller')")
        newer.execute("INSERT INTO record VALUES (0, 'fabric.1', 0, 1, ?)", (b'{"type":"node-seen"}',))
        newer.commit()
    said = await refused_run(log, somewhere, code=LOG)
    assert "99" in said
    assert "newer" in said


async def test_a_folder_that_is_not_there_is_named(tmp_path: Path, nowhere: Path) -> None:
    said = await refused_run(tmp_path / "absent" / "log.sqlite", nowhere, code=LOG)
    assert said.endswith(f"because there is no folder {tmp_path}/absent; create it")


async def test_a_number_of_partitions_other_than_the_logs_is_refused(log: Path, nowhere: Path) -> None:
    await new_log(log)
    said = await refused_run(log, nowhere, "--partitions", "3", code=LOG)
    assert said == f"{log} has 2 partitions, fixed when it was created, and 3 were asked for; ask for 2"


def mounting(script: str, folder: Path) -> tuple[str, ...]:
    prefix = mounted(script, folder)
    if not prefix:
        pytest.skip("no right to mount here; tests/eventlog shows what the adapter says")
    return prefix


async def test_a_log_in_a_read_only_place_is_named(tmp_path: Path, nowhere: Path) -> None:
    place = tmp_path / "read-only"
    place.mkdir()
    prefix = mounting(READ_ONLY, place)
    for name in ("new.sqlite", "old.sqlite"):
        if name.startswith("old"):
            await new_log(place / name)
        said = await refused_run(place / name, nowhere, code=LOG, prefix=prefix)
        assert str(place / name) in said
        assert "read-only" in said or "check the rights" in said


def test_a_log_that_is_read_only_can_be_verified(tmp_path: Path) -> None:
    place = tmp_path / "read-only"
    place.mkdir()
    asyncio.run(new_log(place / "log.sqlite"))
    done = subprocess.run(
        [*mounting(READ_ONLY, place), sys.executable, "-m", "controller", "verify", f"sqlite:{place}/log.sqlite"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("records     0 in 2 partitions")


async def test_a_new_log_on_a_full_disk_is_named(tmp_path: Path, nowhere: Path) -> None:
    place = tmp_path / "full"
    place.mkdir()
    said = await refused_run(place / "log.sqlite", nowhere, code=LOG, prefix=mounting(FULL, place))
    assert str(place / "log.sqlite") in said
    assert "disk is full" in said

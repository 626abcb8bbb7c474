"""compose.yaml, its image and its Prometheus: held against the Compose specification and against what they start.

No container runs here. What can be told without one is told: the form, the command lines, the ports, the volumes, and
that the image is made of what is there.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.commands.cli import main
from controller.commands.run import config_from
from eventlog.kafka import parse
from tests.integration.broker.runtime import IMAGE as BROKER_IMAGE

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "compose.yaml"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
ENVIRONMENT = {"IMAGE_NAME": "registry.example/daemon:1", "KUBECONFIG": "/home/somebody/.kube/config"}
VARIABLE = re.compile(r"\$\{(?P<name>[A-Z_]+)(?::(?P<kind>[-?])(?P<rest>[^}]*))?\}")
PINNED = re.compile(r"^[a-z0-9./-]+:v?\d+\.\d+(\.\d+)?([.-][a-z0-9.-]+)?$")
OURS = ("topics", "controller", "worker")
LOCKS = ("requirements.lock", "requirements-run.lock")


def interpolated(text: str) -> str:
    """Put variables in as Compose does; one that must be there and is not fails."""

    def value(match: re.Match[str]) -> str:
        if match["name"] in ENVIRONMENT:
            return ENVIRONMENT[match["name"]]
        assert match["kind"] == "-", f"{match['name']} must be given: {match['rest']}"
        return match["rest"]

    return VARIABLE.sub(value, text)


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(interpolated(COMPOSE.read_text()))
    return found


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose["services"]
    return found


def held_against_the_specification(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_is_what_the_compose_specification_allows(tmp_path: Path, compose: dict[str, Any]) -> None:
    done = held_against_the_specification(COMPOSE)
    assert done.returncode == 0, done.stdout
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(yaml.safe_dump({**compose, "services": {"kafka": {"image": "x", "healthchek": {}}}}))
    assert held_against_the_specification(wrong).returncode != 0, "the check does not notice a wrong name"


def parsed(command: list[str], monkeypatch: pytest.MonkeyPatch, environment: dict[str, Any]) -> dict[str, Any]:
    """Give what our own command line makes of a service's command and environment."""
    for name, value in environment.items():
        monkeypatch.setenv(name, str(value))
    group, words = main, list(command)
    with main.make_context("cliquelog", list(words)) as context:
        while True:
            name = words.pop(0)
            found = group.get_command(context, name)
            assert found is not None, name
            if not hasattr(found, "commands"):
                break
            group = found
        with found.make_context(name, words, parent=context) as made:
            return dict(made.params)


@pytest.mark.parametrize("name", ["controller", "worker"])
def test_a_process_shares_the_log_and_is_told_where_it_is(
    name: str, services: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = services[name]
    options = parsed(service["command"], monkeypatch, service["environment"])
    assert (options["engine"], options["group"], options["elect"]) == ("faust", "cliquelog", True)
    assert options["kubeconfig"] == "/run/secrets/kubeconfig"
    assert options["image_name"] == ENVIRONMENT["IMAGE_NAME"]
    assert options["listen"] == ("0.0.0.0", 8080)  # noqa: S104 - in the container; Prometheus is in another one
    config = config_from(options.pop("log"), options)
    assert config.group is not None
    assert config.lease is not None
    assert config.lease.namespace == "dra-driver-nvidia-gpu"


def test_the_topics_are_made_where_the_processes_look_for_the_log(
    services: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = parsed(services["topics"]["command"], monkeypatch, {})
    assert made["replication"] == 1
    used = {parsed(services[name]["command"], monkeypatch, ENVIRONMENT)["log"] for name in ("controller", "worker")}
    assert used == {made["log"]}
    (server,) = parse(made["log"]).servers
    advertised = services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"].split(",")
    assert f"INSIDE://{server}" in advertised
    assert server.split(":")[0] in services


def test_whoever_is_waited_for_can_be(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert "test" in services[other]["healthcheck"], f"{name} waits for {other}"
            else:
                assert how["condition"] == "service_completed_successfully"
                assert services[other]["restart"] == "no", f"{name} waits for the end of {other}"
        assert "healthcheck" in service, name


def test_nothing_is_reachable_from_other_machines(services: dict[str, dict[str, Any]]) -> None:
    published = [port for service in services.values() for port in service.get("ports", ())]
    assert len(published) == 3
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert "ports" not in services["worker"], "a published port cannot be scaled"
    assert not any("network_mode" in service or "privileged" in service for service in services.values())


def test_all_that_is_mounted_is_declared_or_there(compose: dict[str, Any], services: dict[str, dict[str, Any]]) -> None:
    mounts = [mount.split(":")[0] for service in services.values() for mount in service.get("volumes", ())]
    named = {mount for mount in mounts if not mount.startswith(".")}
    assert named == compose["volumes"].keys()
    for mount in set(mounts) - named:
        assert (ROOT / mount).is_file()
    secrets = {secret for service in services.values() for secret in service.get("secrets", ())}
    assert secrets == compose["secrets"].keys()


def test_images_are_pinned_and_the_broker_is_the_one_that_is_tested(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert PINNED.fullmatch(service["image"]), name
    assert services["kafka"]["image"] == BROKER_IMAGE


@pytest.mark.parametrize("name", OURS)
def test_our_containers_have_no_rights_to_spare(name: str, services: dict[str, dict[str, Any]]) -> None:
    service = services[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"] == "65532:65532"


def test_prometheus_reads_every_process_where_it_serves(services: dict[str, dict[str, Any]]) -> None:
    config = yaml.safe_load((ROOT / "deploy" / "prometheus.yml").read_text())
    ((only,),) = [job["dns_sd_configs"] for job in config["scrape_configs"]]
    assert set(only["names"]) == {name for name in OURS if name != "topics"}
    for name in only["names"]:
        assert services[name]["environment"]["HTTP_ENDPOINT"] == f":{only['port']}"
        assert f"127.0.0.1:{only['port']}/readyz" in services[name]["healthcheck"]["test"][-1]


# --- the image ---


def instructions() -> list[list[str]]:
    lines = [line.strip() for line in DOCKERFILE.read_text().splitlines()]
    return [line.split() for line in lines if line and not line.startswith("#")]


def test_the_image_is_made_of_what_is_there_and_let_through() -> None:
    let_through = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        source for word, *rest in instructions() if word == "COPY" and rest[0] != "--from=build" for source in rest[:-1]
    }
    assert copied == let_through
    assert all((ROOT / source).exists() for source in copied)
    packages = re.search(r"^packages = (\[.*\])$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert packages is not None
    assert set(json.loads(packages[1])) <= copied


def test_the_image_starts_our_program_as_nobody() -> None:
    last = instructions()[max(place for place, line in enumerate(instructions()) if line[0] == "FROM") :]
    assert [line[1:] for line in last if line[0] == "USER"] == [["65532:65532"]]
    assert json.loads(" ".join(next(line[1:] for line in last if line[0] == "ENTRYPOINT"))) == ["cliquelog"]
    assert all(line[1] != "latest" and PINNED.fullmatch(line[1]) for line in instructions() if line[0] == "FROM")


def test_what_the_image_installs_is_what_is_tested() -> None:
    pins = {name: set(re.findall(r"^([a-z0-9.-]+==\S+)", (ROOT / name).read_text(), re.MULTILINE)) for name in LOCKS}
    tested, installed = pins["requirements.lock"], pins["requirements-run.lock"]
    assert installed < tested
    names = {pin.split("==")[0] for pin in installed}
    assert {"aiokafka", "faust-streaming", "msgspec"} <= names
    assert not names & {"pytest", "mypy", "ruff", "hypothesis", "check-jsonschema"}

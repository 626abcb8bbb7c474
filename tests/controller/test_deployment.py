"""deploy/controller.yaml starts a program that exists, with options that it has."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.commands.cli import main

MANIFEST = Path(__file__).parents[2] / "deploy" / "controller.yaml"


@pytest.fixture
def container() -> dict[str, Any]:
    [deployment] = [one for one in yaml.safe_load_all(MANIFEST.read_text()) if one["kind"] == "Deployment"]
    [only] = deployment["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = only
    return found


@pytest.fixture
def options(container: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `cliquelog run` understands of the manifest's arguments and environment."""
    for variable in container["env"]:
        monkeypatch.setenv(variable["name"], variable.get("value", "from-the-pod"))
    command, *arguments = container["args"]
    with main.make_context("cliquelog", [command, *arguments]) as group:
        found = main.get_command(group, command)
        assert found is not None
        with found.make_context(command, list(arguments), parent=group) as run:
            return dict(run.params)


def test_the_log_is_on_the_volume(container: dict[str, Any], options: dict[str, Any]) -> None:
    [folder] = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "log"]
    assert options["log"] == f"sqlite:{folder}/log.sqlite"


def test_the_driver_namespace_and_the_instance_are_the_pods_own(options: dict[str, Any]) -> None:
    assert (options["namespace"], options["pod_name"]) == ("from-the-pod", "from-the-pod")


def test_the_probes_reach_what_is_served(container: dict[str, Any], options: dict[str, Any]) -> None:
    host, port = options["listen"]
    assert host == "0.0.0.0"  # noqa: S104 - probes come from outside the pod
    assert [one["containerPort"] for one in container["ports"] if one["name"] == "http"] == [port]
    probes = {container[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe")}
    assert probes == {"/healthz", "/readyz"}

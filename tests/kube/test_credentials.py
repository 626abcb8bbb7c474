"""Credentials follow the files that hold them, and each usual mistake in a kubeconfig is one sentence."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from kubernetes_asyncio.client import Configuration

from kube import names
from kube.client import ConfigError, Selector, Unauthorized, Unreachable
from kube.clock import SystemClock
from kube.credentials import REFRESH_S, Credentials, KubeConfig, Loader, ServiceAccount
from kube.transport import HttpKubeClient, Timeouts, choose_loader, connect
from tests.kube.scripted import ScriptedClock, bookmark, status
from tests.kube.serving import served

NODES = Selector(names.NODES)


class Guarded:
    """A server that accepts one token at a time."""

    def __init__(self) -> None:
        self.token = "first"  # noqa: S105
        self.answers: list[int] = []

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_get("/{path:.*}", self._handle)
        return application

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        accepted = request.headers.get("Authorization") == f"Bearer {self.token}"
        self.answers.append(200 if accepted else 401)
        if not accepted:
            return web.Response(status=401, body=status(401, "Unauthorized", "no"), content_type="application/json")
        return web.Response(body=bookmark(7) if "watch" in request.query else b"{}")


def kubeconfig(folder: Path, server: str, user: dict[str, object] | None, name: str = "config") -> Path:
    path = folder / name
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


@asynccontextmanager
async def client_with(loader: Loader) -> AsyncIterator[HttpKubeClient]:
    client = HttpKubeClient(Credentials(loader, SystemClock()), Timeouts())
    try:
        yield client
    finally:
        await client.close()


# --- rotation -----------------------------------------------------------------------------------------------------


async def test_a_token_that_was_rotated_is_read_when_the_old_one_is_rejected(tmp_path: Path) -> None:
    """Failure case B18, with a token file beside the kubeconfig."""
    guarded = Guarded()
    (tmp_path / "token").write_text("first")
    async with served(guarded.application()) as server:
        path = kubeconfig(tmp_path, server, {"tokenFile": "token"})
        async with client_with(KubeConfig(str(path), None)) as client:
            await client.list(NODES)
            guarded.token = "second"  # noqa: S105
            (tmp_path / "token").write_text("second\n")
            await client.list(NODES)
            guarded.token = "third"  # noqa: S105
            (tmp_path / "token").write_text("third")
            lines = [line async for line in client.watch(NODES, resource_version="1", timeout_s=1)]
    assert lines == [bookmark(7).strip()]
    assert guarded.answers == [200, 401, 200, 401, 200]


async def test_a_token_that_is_rejected_and_has_not_changed_is_unauthorized_and_not_sent_again(tmp_path: Path) -> None:
    guarded = Guarded()
    async with served(guarded.application()) as server:
        path = kubeconfig(tmp_path, server, {"token": "stale"})
        async with client_with(KubeConfig(str(path), None)) as client:
            with pytest.raises(Unauthorized) as caught:
                await client.list(NODES)
    assert guarded.answers == [401]
    assert "stale" not in str(caught.value)


async def test_a_token_is_read_anew_on_schedule(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first")
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", {"tokenFile": "token"})
    clock = ScriptedClock()
    credentials = Credentials(KubeConfig(str(path), None), clock)
    first = await credentials.current()
    (tmp_path / "token").write_text("second")
    clock.now_s = REFRESH_S - 1
    assert await credentials.current() is first
    clock.now_s = REFRESH_S
    second = await credentials.current()
    assert (first.authorization, second.authorization) == ("Bearer first", "Bearer second")
    assert await credentials.renewed(first) is second, "another request has renewed it already"
    assert await credentials.renewed(second) is second, "there is nothing newer"
    assert "second" not in repr(second), "a token is not printed"


async def test_many_requests_that_were_rejected_at_once_read_the_credentials_once() -> None:
    class Counted:
        loads = 0

        async def load(self, *, rejected: bool) -> Configuration:  # noqa: ARG002 - each load is another token
            self.loads += 1
            await asyncio.sleep(0)
            return Configuration(host="http://x", api_key={"BearerToken": f"Bearer {self.loads}"})

    loader = Counted()
    credentials = Credentials(loader, ScriptedClock())
    rejected = await credentials.current()
    renewed = await asyncio.gather(*(credentials.renewed(rejected) for _ in range(20)))
    assert {each.authorization for each in renewed} == {"Bearer 2"}
    assert loader.loads == 2


async def test_a_kubeconfig_that_was_rewritten_is_read_on_schedule(tmp_path: Path) -> None:
    kubeconfig(tmp_path, "http://127.0.0.1:1", {"token": "a"})
    clock = ScriptedClock()
    credentials = Credentials(KubeConfig(str(tmp_path / "config"), None), clock)
    await credentials.current()
    kubeconfig(tmp_path, "http://127.0.0.1:2", {"username": "me", "password": "it"})
    clock.now_s = REFRESH_S
    access = await credentials.current()
    assert (access.server, access.authorization) == ("http://127.0.0.1:2", "Basic bWU6aXQ=")


def plugin(folder: Path, **credential: str) -> dict[str, object]:
    """A user whose token a program gives: the number of times that it was run."""
    runs = folder / "runs"
    program = (
        "import json, pathlib\n"
        f"runs = pathlib.Path({str(runs)!r})\n"
        "number = int(runs.read_text()) + 1 if runs.exists() else 1\n"
        "runs.write_text(str(number))\n"
        f"status = {{'token': str(number), **{json.dumps(credential)}}}\n"
        "print(json.dumps({'kind': 'ExecCredential', 'apiVersion': 'client.authentication.k8s.io/v1',"
        " 'status': status}))\n"
    )
    (folder / "plugin.py").write_text(program)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(folder / "plugin.py")],
            "interactiveMode": "Never",
        }
    }


@pytest.mark.parametrize(
    ("credential", "on_schedule"),
    [
        ({}, "1"),
        ({"expirationTimestamp": "2999-01-01T00:00:00Z"}, "1"),
        ({"expirationTimestamp": "2000-01-01T00:00:00Z"}, "2"),
    ],
    ids=["no expiry", "not expired", "expired"],
)
async def test_a_credential_plugin_runs_when_its_token_expired_or_was_rejected(
    tmp_path: Path, credential: dict[str, str], on_schedule: str
) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", plugin(tmp_path, **credential))
    clock = ScriptedClock()
    credentials = Credentials(KubeConfig(str(path), None), clock)
    assert (await credentials.current()).authorization == "Bearer 1"
    clock.now_s = REFRESH_S
    second = await credentials.current()
    assert second.authorization == f"Bearer {on_schedule}"
    assert (await credentials.renewed(second)).authorization == f"Bearer {int(on_schedule) + 1}"


async def test_a_credential_plugin_that_hangs_does_not_hang_the_request() -> None:
    class Hanging:
        async def load(self, *, rejected: bool) -> Configuration:  # noqa: ARG002 - it never gets so far
            await asyncio.Event().wait()
            return Configuration()

    client = HttpKubeClient(Credentials(Hanging(), SystemClock()), Timeouts(request_s=0.05))
    try:
        with pytest.raises(Unreachable, match="no answer in time"):
            await client.list(NODES)
    finally:
        await client.close()


# --- in a pod -----------------------------------------------------------------------------------------------------


def pod(folder: Path) -> ServiceAccount:
    return ServiceAccount({"KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "443"}, folder)


async def test_a_pod_reads_its_projected_token_each_time(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_text("authority")
    configuration = await pod(tmp_path).load(rejected=False)
    assert (configuration.host, configuration.ssl_ca_cert) == ("https://[::1]:443", str(tmp_path / "ca.crt"))
    (tmp_path / "token").write_text("second")
    configuration = await pod(tmp_path).load(rejected=False)
    assert configuration.api_key == {"BearerToken": "Bearer second"}


async def test_a_pod_without_a_token_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="token"):
        await Credentials(pod(tmp_path), ScriptedClock()).current()


async def test_an_authority_that_is_no_certificate_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first")
    (tmp_path / "ca.crt").write_text("not a certificate")
    with pytest.raises(ConfigError, match="cannot be used"):
        await Credentials(pod(tmp_path), ScriptedClock()).current()


def test_the_pod_is_used_in_a_cluster_and_a_named_kubeconfig_before_it() -> None:
    inside = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443", "HOME": "/nowhere"}
    assert isinstance(choose_loader(None, None, inside), ServiceAccount)
    assert isinstance(choose_loader("config", None, inside), KubeConfig)
    assert isinstance(choose_loader(None, "context", inside), KubeConfig)
    assert isinstance(choose_loader(None, None, {"HOME": "/nowhere"}), KubeConfig)


# --- mistakes -----------------------------------------------------------------------------------------------------


def without(key: str) -> Callable[[dict[str, object]], None]:
    return lambda content: content.update({key: None})


MISTAKES: dict[str, tuple[Callable[[dict[str, object]], None], str]] = {
    "no current context": (without("current-context"), "has no current-context; name a context"),
    "unknown context": (lambda content: content.update({"current-context": "x"}), "'x' does not exist; there is: here"),
    "no contexts": (without("contexts"), "does not exist; there is: none"),
    "no clusters": (without("clusters"), "names the cluster 'c', which is not in `clusters`"),
    "no users": (without("users"), "names the user 'u', which is not in `users`"),
    "no server": (
        lambda content: content.update({"clusters": [{"name": "c", "cluster": {}}]}),
        "has the server ''; it must be an http",
    ),
    "odd server": (
        lambda content: content.update({"clusters": [{"name": "c", "cluster": {"server": "ftp://x"}}]}),
        "has the server 'ftp://x'",
    ),
    "wrong type": (lambda content: content.update({"contexts": "here"}), "not a valid kubeconfig: Expected"),
    "bad certificate": (
        lambda content: content.update(
            {
                "clusters": [
                    {"name": "c", "cluster": {"server": "https://x", "certificate-authority-data": "bm8gY2VydA=="}}
                ]
            }
        ),
        "is not PEM",
    ),
    "bad base64": (
        lambda content: content.update(
            {"clusters": [{"name": "c", "cluster": {"server": "https://x", "certificate-authority-data": "a"}}]}
        ),
        "what is to be base64 is not",
    ),
    "missing certificate": (
        lambda content: content.update(
            {"clusters": [{"name": "c", "cluster": {"server": "https://x", "certificate-authority": "gone.crt"}}]}
        ),
        "gone.crt",
    ),
}


@pytest.mark.parametrize(("spoil", "message"), MISTAKES.values(), ids=MISTAKES.keys())
async def test_a_mistake_in_the_kubeconfig_is_one_sentence(
    tmp_path: Path, spoil: Callable[[dict[str, object]], None], message: str
) -> None:
    path = kubeconfig(tmp_path, "https://x", {"token": "secret-token"})
    content = yaml.safe_load(path.read_text())
    spoil(content)
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError) as caught:
        await connect(str(path), None)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret-token" not in str(caught.value)


async def test_a_context_that_is_named_and_unknown_is_told_with_those_that_exist(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://x", {"token": "t"})
    with pytest.raises(ConfigError, match="context 'other' does not exist; there is: here"):
        await connect(str(path), "other")


async def test_a_file_that_is_not_there_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.yaml: there is no such file"):
        await connect(str(tmp_path / "missing.yaml"), None)


@pytest.mark.parametrize("content", ["{", "\t", "- a\n", "just text", "\x00\x01", ""])
async def test_a_file_that_is_no_kubeconfig_is_told_by_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"broken\.yaml: ") as caught:
        await connect(str(path), None)
    assert "\n" not in str(caught.value)


async def test_a_directory_is_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        await connect(str(tmp_path), None)


async def test_of_several_files_the_first_that_names_a_thing_wins(tmp_path: Path) -> None:
    first = kubeconfig(tmp_path, "http://first:1", {"token": "one"}, "first")
    second = kubeconfig(tmp_path, "http://second:2", {"token": "two"}, "second")
    second.write_text(second.read_text().replace("current-context: here", "current-context: there"))
    paths = os.pathsep.join([str(tmp_path / "missing"), str(first), str(second)])
    access = await Credentials(KubeConfig(paths, None), ScriptedClock()).current()
    assert (access.server, access.authorization) == ("http://first:1", "Bearer one")


async def test_a_proxy_that_the_kubeconfig_names_is_used(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://x", {"token": "t"})
    content = yaml.safe_load(path.read_text())
    content["clusters"][0]["cluster"]["proxy-url"] = "http://127.0.0.1:3128"
    path.write_text(yaml.safe_dump(content))
    access = await Credentials(KubeConfig(str(path), None), ScriptedClock()).current()
    assert access.proxy == "http://127.0.0.1:3128"

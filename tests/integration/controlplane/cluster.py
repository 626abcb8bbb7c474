"""A real control plane on loopback: etcd, kube-apiserver, kube-controller-manager, kube-scheduler.

Everything lives in one folder: data, certificates, kubeconfigs and a log file for each server. Only the kubelets are
missing (see fake_kubelet.py).
"""

import contextlib
import secrets
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import yaml

from tests.integration.controlplane.audit import AuditLog, write_policy
from tests.integration.controlplane.build import Programs
from tests.integration.controlplane.health import answers_ok
from tests.integration.controlplane.process import Server

READY_S = 60.0
KUBECTL_S = 60.0
CONTROLLERS = (
    "resourceclaim-controller",
    "device-taint-eviction-controller",
    "daemonset-controller",
    "job-controller",
    "replicaset-controller",
    "deployment-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "pod-garbage-collector-controller",
    "taint-eviction-controller",
    "node-lifecycle-controller",
)
# With the defaults (20 to 30 requests a second) the DaemonSet controller is what a test waits for.
QPS = 500
BURST = 1000
STATIC_USERS = ("admin", "kube-controller-manager", "kube-scheduler")

Authorization = Literal["AlwaysAllow", "RBAC"]


def free_port() -> int:
    """Give a loopback port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class ControlPlane:
    """The four servers. `start` and `stop` are for whoever made it; tests use the rest."""

    def __init__(self, programs: Programs, folder: Path, authorization: Authorization) -> None:
        self._programs = programs
        self._folder = folder
        self._authorization = authorization
        self._tokens = {user: secrets.token_hex(16) for user in STATIC_USERS}
        self._ports = {name: free_port() for name in ("etcd", "peer", "api", "controllers", "scheduler")}
        self._certificates = folder / "certificates"
        self.url = f"https://127.0.0.1:{self._ports['api']}"
        self.admin_kubeconfig = folder / "admin.kubeconfig"
        self.audit = AuditLog(folder / "audit.log")
        self._etcd = self._server("etcd", self._etcd_flags())
        self._api_server = self._server("kube-apiserver", self._api_server_flags())
        self._controllers = self._server("kube-controller-manager", self._controller_flags())
        self._scheduler = self._server("kube-scheduler", self._scheduler_flags())

    # Life cycle

    def start(self) -> None:
        """Start the servers and wait until each says that it is ready.

        Raises:
            StartError: one did not; the message names its log file.
        """
        self._certificates.mkdir(parents=True)
        self._write_files()
        self._etcd.start()
        self._etcd.wait_ready(lambda: answers_ok(self._ports["etcd"], "/health"), READY_S)
        self.start_api_server()
        self._write_kubeconfigs()
        for server in (self._controllers, self._scheduler):
            server.start()
        self._controllers.wait_ready(lambda: self._component_ready("controllers", "kube-controller-manager"), READY_S)
        self._scheduler.wait_ready(lambda: self._component_ready("scheduler", "kube-scheduler"), READY_S)

    def stop(self) -> None:
        """Stop all four, the clients first; what was never started is left out."""
        for server in (self._scheduler, self._controllers, self._api_server, self._etcd):
            server.stop()

    def kill_api_server(self) -> None:
        """Let the API server crash (SIGKILL); the data stay."""
        self._api_server.kill()

    def start_api_server(self) -> None:
        """Start the API server on the same port and data, and wait until it is ready."""
        self._api_server.start()
        self._api_server.wait_ready(self._api_server_ready, READY_S)

    # Access

    def kubectl(self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None) -> str:
        """Run kubectl (as the administrator, unless told otherwise) and give its standard output.

        Raises:
            AssertionError: it failed; the message is its own.
        """
        options = [f"--kubeconfig={kubeconfig or self.admin_kubeconfig}", f"--cache-dir={self._folder / 'kubectl'}"]
        command = [str(self._programs.kubectl), *options, *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=KUBECTL_S, check=False)
        if done.returncode != 0:
            message = f"kubectl {' '.join(arguments)} failed with exit code {done.returncode}: {done.stderr.strip()}"
            raise AssertionError(message)
        return done.stdout

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Write a kubeconfig for an existing service account, with a token from the API server as a pod gets one.

        The audit log knows its requests as those of user `system:serviceaccount:<namespace>:<name>`.
        """
        token = self.kubectl("create", "token", name, "--namespace", namespace, "--duration", "24h").strip()
        path = self._folder / f"{namespace}.{name}.kubeconfig"
        self._write_kubeconfig(path, name, token)
        return path

    # Files

    def _write_files(self) -> None:
        for name in ("admin.kubeconfig", "audit.log"):
            (self._folder / name).touch(mode=0o600)
        lines = [f'{token},{user},{user},"system:masters"' for user, token in self._tokens.items()]
        self._write_secret("tokens.csv", "\n".join(lines) + "\n")
        key = subprocess.run(
            [str(self._programs.controlplane), "new-signing-key"], capture_output=True, text=True, check=True
        ).stdout
        self._write_secret("sa.key", key)
        write_policy(self._folder / "audit-policy.yaml")
        client = {"kubeconfig": str(self._folder / "kube-scheduler.kubeconfig"), "qps": QPS, "burst": BURST}
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": client,
            "leaderElection": {"leaderElect": False},
        }
        (self._folder / "scheduler.yaml").write_text(yaml.safe_dump(configuration))

    def _write_secret(self, name: str, content: str) -> None:
        path = self._folder / name
        path.touch(mode=0o600)
        path.write_text(content)

    def _write_kubeconfigs(self) -> None:
        for user, token in self._tokens.items():
            self._write_kubeconfig(self._folder / f"{user}.kubeconfig", user, token)

    def _write_kubeconfig(self, path: Path, user: str, token: str) -> None:
        cluster = {"server": self.url, "certificate-authority": str(self._certificates / "apiserver.crt")}
        content: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        self._write_secret(path.name, yaml.safe_dump(content))

    # Servers

    def _server(self, name: str, flags: list[str]) -> Server:
        return Server(name, [str(self._programs.controlplane), name, *flags], self._folder / f"{name}.log")

    def _etcd_flags(self) -> list[str]:
        return [
            f"--data-dir={self._folder / 'etcd'}",
            f"--client-url=http://127.0.0.1:{self._ports['etcd']}",
            f"--peer-url=http://127.0.0.1:{self._ports['peer']}",
        ]

    def _api_server_flags(self) -> list[str]:
        return [
            f"--etcd-servers=http://127.0.0.1:{self._ports['etcd']}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._ports['api']}",
            f"--cert-dir={self._certificates}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._folder / 'sa.key'}",
            f"--service-account-signing-key-file={self._folder / 'sa.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--token-auth-file={self._folder / 'tokens.csv'}",
            f"--authorization-mode={self._authorization}",
            "--disable-admission-plugins=ServiceAccount",
            "--endpoint-reconciler-type=none",
            f"--audit-policy-file={self._folder / 'audit-policy.yaml'}",
            f"--audit-log-path={self._folder / 'audit.log'}",
            "--audit-log-mode=blocking",
        ]

    def _controller_flags(self) -> list[str]:
        return [
            f"--kubeconfig={self._folder / 'kube-controller-manager.kubeconfig'}",
            f"--service-account-private-key-file={self._folder / 'sa.key'}",
            f"--root-ca-file={self._certificates / 'apiserver.crt'}",
            "--leader-elect=false",
            f"--kube-api-qps={QPS}",
            f"--kube-api-burst={BURST}",
            f"--controllers={','.join(CONTROLLERS)}",
            *self._serving_flags("controllers"),
        ]

    def _scheduler_flags(self) -> list[str]:
        return [f"--config={self._folder / 'scheduler.yaml'}", *self._serving_flags("scheduler")]

    def _serving_flags(self, name: str) -> list[str]:
        return [
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports[name]}",
            f"--cert-dir={self._certificates}",
        ]

    # Readiness

    def _api_server_ready(self) -> bool:
        authority = self._certificates / "apiserver.crt"
        return answers_ok(self._ports["api"], "/readyz", authority=authority, token=self._tokens["admin"])

    def _component_ready(self, port: str, name: str) -> bool:
        return answers_ok(self._ports[port], "/healthz", authority=self._certificates / f"{name}.crt")


@contextlib.contextmanager
def running(programs: Programs, folder: Path, authorization: Authorization) -> Iterator[ControlPlane]:
    """Give a control plane that is up, and stop it afterwards, also when it came up by half."""
    plane = ControlPlane(programs, folder, authorization)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()

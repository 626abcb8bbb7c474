"""What runs the broker's Java programs: a container where Docker exists, else the `java` of this machine on the jars.

Both run the same command on the same folder and ports, and send the same signals, so that the tests need not know.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from tests.integration.broker.build import find_jars, has_docker
from tests.integration.controlplane.process import Server

IMAGE = "apache/kafka:4.1.0"
SMALL = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A small heap, and a compiler that is ready soon: tests share the machine, and their broker lives for minutes."""


class Runtime(Protocol):
    """Runs one long-lived program, and others before it."""

    def run(self, *arguments: str) -> None:
        """Run a main class with arguments until it ends; raises CalledProcessError if it fails."""

    def start(self, *arguments: str) -> None:
        """Start the long-lived program."""

    def wait_ready(self, ready: Callable[[], bool], deadline_s: float) -> None:
        """Poll until `ready`; raises StartError."""

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the program."""

    def kill(self) -> None:
        """End the program with SIGKILL, if it runs."""


class Java:
    """The `java` of this machine. On Linux the kernel ends it with the test run, however that ends."""

    def __init__(self, jars: Path, folder: Path, options: Sequence[str]) -> None:
        outlived = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
        self._java = [*outlived, "java", *options, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        self._java += ["-cp", f"{jars}/*"]
        self._folder = folder
        self._server: Server | None = None

    def run(self, *arguments: str) -> None:
        """Run a main class."""
        subprocess.run([*self._java, *arguments], check=True, capture_output=True)

    def start(self, *arguments: str) -> None:
        """Start the program."""
        self._server = Server("kafka", [*self._java, *arguments], self._folder / "broker.log")
        self._server.start()

    def wait_ready(self, ready: Callable[[], bool], deadline_s: float) -> None:
        """Poll until `ready`."""
        assert self._server is not None
        self._server.wait_ready(ready, deadline_s)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self._server is not None
        assert self._server.pid is not None
        os.kill(self._server.pid, number)

    def kill(self) -> None:
        """End the program."""
        if self._server is not None:
            self._server.kill()


class Docker:
    """A container on the host's network and this run's folder; testcontainers removes it with the test run."""

    def __init__(self, folder: Path, options: Sequence[str]) -> None:
        self._folder = folder
        self._options = options
        self._container: Any = None

    def _made(self, arguments: tuple[str, ...]) -> Any:  # noqa: ANN401 - imported below
        from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - slow, and of no use without Docker

        container = DockerContainer(
            IMAGE, network_mode="host", user=f"{os.getuid()}:{os.getgid()}", entrypoint=["java", *self._options]
        )
        container = container.with_volume_mapping(str(self._folder), str(self._folder), "rw")
        return container.with_command(["-cp", "/opt/kafka/libs/*", *arguments])

    def run(self, *arguments: str) -> None:
        """Run a main class."""
        container = self._made(arguments)
        with container:
            ended = container.get_wrapped_container().wait()
            if ended["StatusCode"] != 0:
                raise subprocess.CalledProcessError(ended["StatusCode"], arguments, container.get_logs()[0])

    def start(self, *arguments: str) -> None:
        """Start the program."""
        self._container = self._made(arguments).start()

    def wait_ready(self, ready: Callable[[], bool], deadline_s: float) -> None:
        """Poll until `ready`."""
        server = _Watched("kafka", self._folder / "broker.log", self._container.get_wrapped_container())
        server.wait_ready(ready, deadline_s)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._container.get_wrapped_container().kill(signal=number.name)

    def kill(self) -> None:
        """End the program."""
        if self._container is not None:
            self._container.stop(force=True)
            self._container = None


class _Watched(Server):
    """A container seen as a server, to be waited for."""

    def __init__(self, name: str, log: Path, container: Any) -> None:  # noqa: ANN401 - docker has no types
        super().__init__(name, [], log)
        self._container = container

    @property
    def pid(self) -> int | None:
        """Its process ID while it runs."""
        self._container.reload()
        if self._container.status != "running":
            self.log.write_bytes(self._container.logs())
            return None
        return int(self._container.attrs["State"]["Pid"])


def find_runtime(folder: Path, options: Sequence[str]) -> Runtime:
    """Give what can run a broker in this folder here, with these options of Java's.

    Raises:
        BuildError: there is neither Docker nor the jars and a Java.
    """
    return Docker(folder, options) if has_docker() else Java(find_jars(), folder, options)

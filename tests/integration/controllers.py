"""`cliquelog run` as a process, as a user starts it, to be watched, stopped and killed."""

import asyncio
import signal
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import aiohttp

from tests.integration.controlplane.cluster import free_port
from tests.integration.waiting import eventually


class Surroundings(Protocol):
    """What a controller needs to be told of its cluster: a `Sandbox`, or a simulated one."""

    @property
    def driver_namespace(self) -> str:
        """The driver's namespace."""

    def controller_kubeconfig(self) -> Path:
        """Give what leads to the API server."""


ENDS_S = 30.0
"""Bound of a wait for a process to end; it asserts nothing about speed."""


class Controller:
    """One controller process on a sandbox."""

    def __init__(
        self, sandbox: Surroundings, log: Path, *options: str, prefix: Sequence[str] = (), place: str | None = None
    ) -> None:
        """`prefix` is a command that runs the controller, such as one that mounts something for it.

        `log` is the path of its log; where `place` names one elsewhere, only its output lies beside that path.
        """
        self._port = 0
        self.log = log
        self.output = log.with_name(f"{log.name}.{uuid.uuid4().hex[:8]}.log")
        kubeconfig = sandbox.controller_kubeconfig()
        self._command = [
            *prefix,
            *(sys.executable, "-m", "controller", "run", "--log", place or f"sqlite:{log}"),
            *("--kubeconfig", str(kubeconfig), "--namespace", sandbox.driver_namespace),
            *("--image-name", "example.invalid/daemon", "--daemons", "cliquelog"),
            *options,
        ]
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, without waiting. Its port is free now, which that of an earlier life need not be any more."""
        self._port = free_port()
        command = [*self._command, "--http-endpoint", f"127.0.0.1:{self._port}"]
        with self.output.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output)

    async def ready(self) -> None:
        """Wait until it says that it is ready."""
        await self.answers(200, "", "is ready")

    async def answers(self, status: int, part: str, what: str) -> None:
        """Wait until `/readyz` gives this status with a body that has this part."""
        await eventually(
            self._readiness,
            lambda answer: answer[0] == status and part in answer[1],
            f"the controller {what} ({self.output})",
        )

    async def _readiness(self) -> tuple[int, str]:
        if self._process is not None and self._process.returncode is not None:
            raise AssertionError(f"the controller ended with {self._process.returncode}: {self.output.read_text()}")
        try:
            async with aiohttp.request("GET", f"http://127.0.0.1:{self._port}/readyz") as answer:
                return answer.status, await answer.text()
        except aiohttp.ClientError as error:
            return 0, str(error)

    @property
    def pid(self) -> int:
        """Its process ID."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether there is a process: between two lives there is none."""
        return self._process is not None and self._process.returncode is None

    @property
    def url(self) -> str:
        """Where it serves operators."""
        return f"http://127.0.0.1:{self._port}"

    async def unready(self) -> str:
        """Give why it says that it is not ready; empty if it is."""
        async with aiohttp.request("GET", f"http://127.0.0.1:{self._port}/readyz") as answer:
            return "" if answer.status == 200 else await answer.text()

    async def metrics(self) -> str:
        """Give its metrics."""
        async with aiohttp.request("GET", f"http://127.0.0.1:{self._port}/metrics") as answer:
            return await answer.text()

    async def kill(self) -> None:
        """End it without any warning."""
        assert self._process is not None
        self._process.kill()
        await self._process.wait()
        self._process = None

    async def stop(self) -> int:
        """Ask it to end, and give its exit code."""
        self.signal(signal.SIGTERM)
        return await self.ended()

    def freeze(self) -> None:
        """Let it stand still where it is, as on a machine that has no time for it."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on as if nothing had been."""
        self.signal(signal.SIGCONT)

    async def ended(self) -> int:
        """Wait until it ends by itself, and give its exit code."""
        async with asyncio.timeout(ENDS_S):
            return await self.life()

    async def life(self) -> int:
        """Wait until it ends, however long it lives, and give its exit code."""
        assert self._process is not None
        code = await self._process.wait()
        self._process = None
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, and wait for nothing."""
        assert self._process is not None
        self._process.send_signal(number)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            if self._process.returncode is None:
                self._process.kill()
            await self._process.wait()
        if error is not None:
            print(self.output.read_text()[-4000:])

"""One server process of the test control plane: started, watched, stopped, and never left behind.

The parent holds the write end of the child's standard input. However the test run ends, SIGKILL included, the kernel
closes that pipe, and the program (see main.go) ends itself.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

STOP_S = 10.0


class StartError(Exception):
    """A server did not come up; the message names its log file and shows the end of it."""


class Server:
    """A program with its log file."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._environment = {**os.environ, **(environment or {}), "CONTROLPLANE_EXIT_WITH_STDIN": "1"}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Process ID while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Start the program in a session of its own, so that a Ctrl-C reaches the test run alone."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )

    def wait_ready(self, ready: Callable[[], bool], deadline_s: float) -> None:
        """Poll until `ready`.

        Raises:
            StartError: the program ended, or was not ready in time.
        """
        give_up = time.monotonic() + deadline_s
        while not ready():
            if self.pid is None:
                raise StartError(self._failure("ended before it was ready"))
            if time.monotonic() > give_up:
                raise StartError(self._failure(f"was not ready within {deadline_s:.0f} s"))
            time.sleep(0.05)

    def _failure(self, what: str) -> str:
        tail = self.log.read_text(errors="replace").splitlines()[-15:]
        return "\n".join([f"{self.name} {what}; its log is {self.log} and ends with:", *tail])

    def kill(self) -> None:
        """End it with SIGKILL, as a crash does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it with SIGTERM, and with SIGKILL if it is still there after ten seconds."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()

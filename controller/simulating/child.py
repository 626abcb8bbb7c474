"""A controller as a process of its own: the real `cliquelog run`, started, watched and ended by `cliquelog simulate`.

Its own process because what it costs is measured, and so that server and controller have a core each.
"""

import asyncio
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from controller.exits import Failure

POLL_S = 0.05
PATIENCE_S = 60.0
"""How long it may take to start, and to end."""


class Usage(msgspec.Struct, frozen=True):
    """What the process took: seconds of CPU in all, and the most memory that it had at a time, in bytes."""

    cpu_seconds: float
    peak_bytes: int


class Controller:
    """Use with `async with`, which waits until the controller acts, and ends it cleanly at the end."""

    def __init__(self, options: Sequence[str], environment: Mapping[str, str], output: Path) -> None:
        """Run with these options of `cliquelog run`; `output` takes its log lines, as JSON."""
        self._options = options
        self._environment = environment
        self._output = output
        self._process: asyncio.subprocess.Process | None = None
        self.usage = Usage(0.0, 0)
        """What it took; once it has ended."""

    async def __aenter__(self) -> Self:
        """Start it, and wait until it acts. Raises Failure."""
        with self._output.open("wb") as stream:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "controller",
                "run",
                *self._options,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env=dict(self._environment),
                # What a terminal sends goes to all of a process group. A second signal ends a controller at once, so
                # it takes signals from here only.
                start_new_session=True,
            )
        try:
            await self._acts()
        except BaseException:
            await self._end(midway=True)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it. Raises Failure if it did not end cleanly."""
        await self._end(midway=error is not None)

    async def watch(self) -> None:
        """Return never, unless the process ends by itself. Raises Failure then."""
        if self._process is not None:
            raise self._failure(await self._process.wait())

    async def _acts(self) -> None:
        """Wait until the controller says that its view is complete and that it acts."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while b'"event": "acting"' not in self._output.read_bytes():
                    if self._process is not None and self._process.returncode is not None:
                        raise self._failure(self._process.returncode)
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise Failure(f"the controller did not begin within {PATIENCE_S:.0f} s; see {self._output}", 1) from None

    async def _end(self, *, midway: bool) -> None:
        """Ask it to end, wait, and take down what it took. Raises Failure if it did not end cleanly.

        `midway`: it may be so young that it does not take signals yet; our own then ends it, which is clean too.
        """
        process = self._process
        if process is None:
            return
        peak = _peak_bytes(process.pid)
        asked = process.returncode is None
        if asked:
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(PATIENCE_S):
                code = await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise Failure(f"the controller did not end within {PATIENCE_S:.0f} s; see {self._output}", 1) from None
        used = resource.getrusage(resource.RUSAGE_CHILDREN)  # of all children that have ended: this is the only one
        self.usage = Usage(used.ru_utime + used.ru_stime, peak)
        self._process = None
        if code and not (midway and asked and code == -signal.SIGTERM):
            raise self._failure(code)

    def _failure(self, code: int) -> Failure:
        """Give the controller's own last words, with its exit code."""
        lines = self._output.read_text(errors="replace").splitlines()
        said = next((line.removeprefix("Error: ") for line in reversed(lines) if line.startswith("Error: ")), "")
        reason = f": {said}" if said else ""
        return Failure(f"the controller ended with {code}{reason}; see {self._output}", code if code > 0 else 1)


def _peak_bytes(pid: int) -> int:
    """Give the most memory that the process had at a time; 0 where the system does not tell.

    Not `ru_maxrss`: on Linux a child's begins with what its parent had when it was started.
    """
    path = Path(f"/proc/{pid}/status")
    try:
        stated = [line.split()[1] for line in path.read_text().splitlines() if line.startswith("VmHWM:")]
    except OSError:
        return 0
    return int(stated[0]) * 1024 if stated else 0

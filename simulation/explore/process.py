"""A controller's process: what it does through its ports ends at once when it is killed.

Problem: cancelling a task runs its clean-up, and a killed process cleans nothing up. Nothing of a process is seen from
outside but the calls of its ports (requests, appends, snapshots), so a kill is: from some call on, none has any effect
and none returns. That covers a crash at every await: what lies between two calls cannot be told apart from outside.
"""

import asyncio

from simulation.explore.faults import Faults


class Process:
    """One life of one controller."""

    def __init__(self, name: str, faults: Faults) -> None:
        """Begin to live."""
        self.name = name
        self.faults = faults
        self.killed = asyncio.Event()

    def kill(self) -> None:
        """End it, as SIGKILL does."""
        self.killed.set()

    async def before(self, call: str) -> None:
        """Pass if the process lives; it may die here."""
        if self.faults.strike(self.name, "crash before a call", call):
            self.kill()
        await self.alive()

    async def after(self, call: str) -> None:
        """Pass if the process lives on after a call took effect; it may die here, before it knows."""
        if self.faults.strike(self.name, "crash after a call", call):
            self.kill()
        await self.alive()

    async def alive(self) -> None:
        """Return if the process lives; a dead one never goes on."""
        if self.killed.is_set():
            await asyncio.get_running_loop().create_future()

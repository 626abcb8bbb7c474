"""The engine: runs the consumers of the partitions that this process has.

Embedded, that is all of them. On Faust, processes alike share them out among themselves, and which they are changes
while they run; one of the processes observes for all (`controller/observing/observer.py`).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from controller.engines.consumer import PartitionConsumer, Source
from controller.writing.applier import Observe
from eventlog.events import ClaimTemplateSeen
from projections.fold import Aggregate

MakeConsumer = Callable[[int, Source], PartitionConsumer]
"""Makes the consumer of a partition, to be restored; where it goes on from, it reads the source."""


class Engine(Protocol):
    """Runs partition consumers."""

    @property
    def is_shared(self) -> bool:
        """Whether other processes work on this log too, so that this one works before it leads."""

    @property
    def observe(self) -> Observe:
        """Appends what a live read showed, on behalf of an aggregate of this engine."""

    def taken_names(self) -> Iterable[ClaimTemplateSeen]:
        """Give the claim templates of others that stand in the way of a domain that this engine acts for."""

    def may_send(self) -> bool:
        """Say whether this process may write to the cluster now, whatever its consumers want."""

    async def begin(self, group: asyncio.TaskGroup) -> None:
        """Begin to fold, not yet to act; where no others share the log, `known` comes first. Raises LogError."""

    async def known(self) -> Iterable[tuple[str, Aggregate]]:
        """Give all that the log knows, of all partitions, by key. Raises LogError."""

    async def view_complete(self, ends: Mapping[int, int]) -> None:
        """Act on what an observer's first complete lists brought, which goes up to these ends."""

    def count_rows(self) -> Counter[str]:
        """Count the rows that the folded states want, by status."""

    def trouble(self) -> str | None:
        """Say why the log cannot be read, in a sentence; None if it can."""

    def waits_for(self) -> str | None:
        """Say what this engine waits for before it acts, in a sentence; None if it acts."""

    async def close(self) -> None:
        """Save what is folded, and let go of the partitions."""

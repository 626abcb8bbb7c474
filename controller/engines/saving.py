"""The snapshots of a process that ends: all together and in little time, since a log may not be writable now.

What is not saved is folded anew by whoever has the partition next. To wait for it is what costs: each save may take as
long as an append is tried (30 s), and whoever waits for this process's partitions and Lease stands still meanwhile.
"""

import asyncio
from collections.abc import Iterable

from structlog.typing import FilteringBoundLogger

from controller.engines.consumer import PartitionConsumer
from controller.waiting import within
from kube.clock import Clock

SAVE_S = 3.0
"""How long the snapshots may take: some ten times as long as those of 24 partitions take on a broker that answers."""


async def save_all(consumers: Iterable[PartitionConsumer], clock: Clock, logger: FilteringBoundLogger) -> None:
    """Save what the consumers have folded, as far as the time allows; raises what is no LogError of one of them."""
    try:
        ended = await within(clock, SAVE_S, _together(consumers))
    except TimeoutError:
        logger.warning("snapshots not saved", cause="the log did not take them in time: restarts fold more records")
        return
    for error in ended:
        if error is not None:
            raise error


async def _together(consumers: Iterable[PartitionConsumer]) -> list[BaseException | None]:
    return await asyncio.gather(*(consumer.snapshot() for consumer in consumers), return_exceptions=True)

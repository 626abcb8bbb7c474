"""The capacity of an API server, as its clients feel it: requests take time, wait, and are thrown out.

A request takes a seat; if none is free it waits in a queue; if that is full, or the wait too long, it is refused with
429 and a Retry-After. With a seat it is worked on by one of a few cores, each one request at a time, so a server with
more seats than cores gets slow before it throttles: that is how conflicts breed (`docs/simulation.md`).

Modelled on API priority and fairness, for one level with one flow, as the daemons of one service account are: 245 seats
are the share of `workload-low` in the default 600 (--max-requests-inflight 400 and 200 that change things), 300 places
are a flow's hand of 6 queues of 50, and a request waits a quarter of its time limit of 60 s at most. The Retry-After
follows the refusals of the last seconds as the real one does (doubled while there are three and more a second, up to
32 s; one less where there is not one a second). Sources: the defaults that Kubernetes documents, and
`dropped_requests_tracker.go` of k8s.io/apiserver. Not modelled: several flows, borrowing between levels, requests that
count for several seats.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from kube.clock import Clock
from kube.names import CDCS
from simulation.cores import Cores
from simulation.costs import Costs
from simulation.store import Refused

RETRY_AFTER_MAX_S = 32


class Limits(msgspec.Struct, frozen=True):
    """What the server has. `work_s`: seconds of a core for one request, beside what the simulation itself takes."""

    seats: int = 245
    queue: int = 300
    patience_s: float = 15.0
    cores: int = 8
    work_s: float = 0.0


class Capacity:
    """One server's seats, cores and queue."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._seats = asyncio.Semaphore(limits.seats)
        self._cores = Cores(limits.cores, clock)
        self._waiting = 0
        self._drops = Drops()

    @asynccontextmanager
    async def seat(self, work_s: float | None = None) -> AsyncIterator[None]:
        """Carry out a request inside, once it has waited and been worked on. Raises Refused 429.

        `work_s` is what this request takes, if it is not what every request takes by the limits.

        The seat is held until the inside ends: what a request reads and writes there happens at the end of its work.
        """
        await self._enter()
        try:
            await self._cores.work(self._limits.work_s if work_s is None else work_s)
            yield
        finally:
            self._seats.release()

    async def work(self, seconds: float) -> None:
        """Let the cores spend so many seconds of one core on what is no request that needs a seat."""
        await self._cores.work(seconds)

    async def _enter(self) -> None:
        if self._seats.locked() and self._waiting >= self._limits.queue:
            raise self._refusal("too many requests wait already")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._limits.patience_s):
                await self._seats.acquire()
        except TimeoutError:
            raise self._refusal("the request waited too long") from None
        finally:
            self._waiting -= 1

    def _refusal(self, why: str) -> Refused:
        self._drops.record(int(self._clock.monotonic()))
        message = f"Too many requests, please try again later ({why})"
        return Refused(429, "TooManyRequests", message, float(self._drops.retry_after_s))


class Drops:
    """The refusals of the last seconds, and the Retry-After that follows from them."""

    def __init__(self) -> None:
        self.retry_after_s = 1
        self._second = 0
        self._count = 0
        self._raised_at = -RETRY_AFTER_MAX_S
        self._history: deque[tuple[int, int]] = deque(maxlen=RETRY_AFTER_MAX_S + 1)

    def record(self, second: int) -> None:
        """Count a refusal in this second of the clock; the Retry-After changes with the first one of a second."""
        if second == self._second:
            self._count += 1
            return
        self._history.append((self._second, self._count))
        self._second, self._count = second, 1
        recent = sum(count for at, count in self._history if 0 < second - at <= self.retry_after_s)
        if second - self._raised_at >= self.retry_after_s and recent >= 3 * self.retry_after_s:
            self.retry_after_s = min(2 * self.retry_after_s, RETRY_AFTER_MAX_S)
            self._raised_at = second
        elif recent < self.retry_after_s and self.retry_after_s > 1:
            self.retry_after_s -= 1


def middleware(capacity: Capacity, costs: Costs) -> Middleware:
    """Give the HTTP shell: a watch takes a seat for its start only, as in the real server."""
    cdcs = f"/{CDCS.plural}"

    @web.middleware
    async def limited(request: web.Request, handler: Handler) -> web.StreamResponse:
        is_write = request.method != "GET" and cdcs in request.path
        work_s = costs.clique_s if is_write else costs.pod_s
        if request.query.get("watch") in {"1", "true"}:
            async with capacity.seat(work_s):
                pass
            return await handler(request)
        async with capacity.seat(work_s):
            return await handler(request)

    return limited

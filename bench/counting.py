"""Counts the requests that a simulated API server gets."""

from collections import Counter

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from kube.names import CDCS
from simulation.store import Refused


class Requests:
    """What was asked: `refusals` by HTTP status; `cdc_writes`: the writes of CDCs that were carried out."""

    def __init__(self) -> None:
        self.refusals: Counter[int] = Counter()
        self.cdc_writes = 0

    def middleware(self) -> Middleware:
        """Give the middleware that counts."""

        @web.middleware
        async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                answer = await handler(request)
            except Refused as refused:
                self.refusals[refused.code] += 1
                raise
            if request.method != "GET" and f"/{CDCS.plural}" in request.path:
                self.cdc_writes += 1
            return answer

        return count

"""Counts the answers of a simulated API server."""

from collections import Counter

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from simulation.store import Refused


class Answers:
    """How many requests were answered with each HTTP status."""

    def __init__(self) -> None:
        self.by_status: Counter[int] = Counter()

    def middleware(self) -> Middleware:
        """Give the middleware that counts; it must stand before those that refuse."""

        @web.middleware
        async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                answer = await handler(request)
            except Refused as refused:
                self.by_status[refused.code] += 1
                raise
            self.by_status[answer.status] += 1
            return answer

        return count

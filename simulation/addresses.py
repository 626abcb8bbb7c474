"""The pool of pod addresses: the lowest free one is given first, so that addresses are used again soon.

A real cluster's plugin hands out addresses of ended pods to others sooner or later (upstream #1447: a stale entry of a
hosts file then names a daemon of another domain); here it is sooner.
"""

import heapq
import ipaddress

FIRST = int(ipaddress.IPv4Address("10.128.0.1"))


class Addresses:
    """Gives and takes back IPv4 addresses."""

    def __init__(self) -> None:
        self._next = FIRST
        self._free: list[int] = []

    def take(self) -> str:
        """Give the lowest address that is free."""
        if self._free:
            return str(ipaddress.IPv4Address(heapq.heappop(self._free)))
        self._next += 1
        return str(ipaddress.IPv4Address(self._next - 1))

    def give_back(self, address: str) -> None:
        """Take an address back."""
        heapq.heappush(self._free, int(ipaddress.IPv4Address(address)))

"""What no watch will ever tell is proved by another list: but only what stays in doubt for a whole period."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from controller.observing.doubts import settle_doubts
from simulation.explore.loop import LoopClock, VirtualLoop

if TYPE_CHECKING:
    from kube.reflector import Reflector

EVERY_S = 10.0


class Listing:
    """In a reflector's place: notes when it is asked for a list."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def doubt(self, cause: str) -> None:
        assert cause
        self.asked.append(asyncio.get_running_loop().time())


def asked(*doubts: Mapping[str, set[str]]) -> dict[str, list[float]]:
    """Give when lists were asked for, by kind, if these are the doubts of one period after the other."""
    listings = {"pods": Listing(), "computedomains": Listing()}

    async def run() -> None:
        periods = iter(doubts)
        clock = LoopClock(asyncio.get_running_loop(), 0)
        reflectors: Mapping[str, Reflector] = listings  # type: ignore[assignment]  # what is used of one
        with contextlib.suppress(RuntimeError):  # the doubts are at their end
            await settle_doubts(lambda: next(periods), reflectors, clock, EVERY_S)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(run())
    return {plural: listing.asked for plural, listing in listings.items() if listing.asked}


def test_a_doubt_that_stays_has_its_kind_listed_again() -> None:
    stays: Sequence[Mapping[str, set[str]]] = [{"pods": {"row"}}, {"pods": {"row"}}, {"pods": set()}]
    assert asked(*stays) == {"pods": [20.0]}


def test_what_is_merely_late_costs_no_list() -> None:
    assert asked({"pods": {"one"}, "computedomains": {"d"}}, {"pods": {"another"}, "computedomains": set()}) == {}


def test_each_kind_is_listed_for_its_own_doubts() -> None:
    both = {"pods": set[str](), "computedomains": {"d"}}
    assert asked(both, both, both) == {"computedomains": [20.0, 30.0]}

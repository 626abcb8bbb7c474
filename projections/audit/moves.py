"""Nodes that had more than one index, and pairs of them that exchanged theirs: what breaks a running job."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from projections.audit.holdings import Holding

Step = tuple[Holding, Holding]
Ways = defaultdict[tuple[str, str, int, int], list[Step]]
"""By clique, domain, and the indices before and after: the holdings that ended and begun, by time."""
NEAR = 16


class Move(msgspec.Struct, frozen=True):
    """A node that had one index and then another: the holding that `ended` for it, and the one that `begun`.

    `partner` is the node that moved the other way in the same clique and domain, empty if none did.
    """

    ended: Holding
    begun: Holding
    partner: str


def moves(holdings: Sequence[Holding]) -> list[Move]:
    """Give every move, by time. A domain that came anew under another UID is another one: nothing moved there."""
    lives: defaultdict[tuple[str, str, str], list[Holding]] = defaultdict(list)
    for one in holdings:
        lives[one.clique, one.domain, one.node].append(one)
    steps = [
        (before, after)
        for life in lives.values()
        for before, after in _pairs(sorted(life, key=lambda one: (one.begin.time_ms, one.begin.position)))
    ]
    by_way: Ways = defaultdict(list)
    for before, after in sorted(steps, key=lambda step: step[1].begin.time_ms):
        by_way[before.clique, before.domain, before.index, after.index].append((before, after))
    found = [Move(before, after, _partner(by_way, before, after)) for before, after in steps]
    return sorted(found, key=lambda one: (one.begun.begin.time_ms, one.begun.clique, one.begun.begin.position))


def _pairs(life: Sequence[Holding]) -> list[tuple[Holding, Holding]]:
    return [(one, other) for one, other in pairwise(life) if one.index != other.index]


def _partner(by_way: Ways, before: Holding, after: Holding) -> str:
    """Give the node that moved the other way: each had the index of the other before the other got it.

    Of many the nearest in time are looked at.
    """
    ways = by_way.get((before.clique, before.domain, after.index, before.index), [])
    nearest = bisect_left(ways, after.begin.time_ms, key=lambda way: way[1].begin.time_ms)
    near = ways[max(0, nearest - NEAR) : nearest + NEAR]
    near.sort(key=lambda way: abs(way[1].begin.time_ms - after.begin.time_ms))
    return next((now.node for had, now in near if now.node != after.node and _exchanged(before, after, had, now)), "")


def _exchanged(before: Holding, after: Holding, had: Holding, now: Holding) -> bool:
    return had.begin.time_ms < after.begin.time_ms and before.begin.time_ms < now.begin.time_ms

"""Nodes that had more than one index, and pairs of them that exchanged theirs: what breaks a running job."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from projections.audit.holdings import Holding


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
    by_way: defaultdict[tuple[str, str, int, int], list[str]] = defaultdict(list)
    for before, after in steps:
        by_way[before.clique, before.domain, before.index, after.index].append(after.node)
    found = [Move(before, after, _partner(by_way, before, after)) for before, after in steps]
    return sorted(found, key=lambda one: (one.begun.begin.time_ms, one.begun.clique, one.begun.begin.position))


def _pairs(life: Sequence[Holding]) -> list[tuple[Holding, Holding]]:
    return [(one, other) for one, other in pairwise(life) if one.index != other.index]


def _partner(by_way: dict[tuple[str, str, int, int], list[str]], before: Holding, after: Holding) -> str:
    ways = by_way.get((before.clique, before.domain, after.index, before.index), [])
    return next((node for node in ways if node != after.node), "")

"""Episodes of a workload: actions that belong together, since some states are reached by no single one.

Actions of one moment are carried out at once, before any watch can tell of them.
"""

import random
from collections.abc import Callable

import msgspec


class Action(msgspec.Struct, frozen=True):
    """Something that happens at `at` seconds, to the machine or domain of this number, as far as there is one."""

    at: float
    kind: str
    number: int
    other: int


Episode = Callable[[random.Random, int, float], list[Action]]
"""Draws the actions that begin at some seconds, on a cluster of so many machines."""

SHARE = 0.25
"""Probability that an episode of a kind occurs in a run."""


def draw_episodes(rng: random.Random, machines: int, seconds: float) -> list[Action]:
    """Give the actions of a run's episodes."""
    drawn = [(rng.random() < SHARE, rng.uniform(0.5, seconds * 0.8), episode) for episode in EPISODES]
    return [action for occurs, at, episode in drawn if occurs for action in episode(rng, machines, at)]


def _other_order(rng: random.Random, machines: int, at: float) -> list[Action]:
    """Let two machines leave, and come back in the other order."""
    one, two = rng.sample(range(machines), 2)
    back = at + rng.uniform(1.0, 5.0)
    return [
        Action(at, "leave", one, 0),
        Action(at + rng.uniform(0.0, 0.2), "leave", two, 0),
        Action(back, "join", max(one, two), 0),
        Action(back + rng.uniform(0.05, 0.5), "join", min(one, two), 0),
    ]


def _another_comes(rng: random.Random, machines: int, at: float) -> list[Action]:
    """Let a machine leave and another come, and the first come back."""
    one, two = rng.sample(range(machines), 2)
    back = at + rng.uniform(1.0, 5.0)
    return [
        Action(at, "leave", one, 0),
        Action(at + rng.uniform(0.0, 3.0), "join", two, 0),
        Action(back, "join", one, 0),
    ]


def _node_again(rng: random.Random, machines: int, at: float) -> list[Action]:
    """Delete a Node and register it again at once: another of the same name."""
    machine, domain = rng.randrange(machines), rng.randrange(2)
    kinds = ["delete node", "join", "join", *(["compaction"] if rng.random() < 0.5 else [])]
    return [Action(at, kind, machine, domain) for kind in kinds]


def _cdc_again(rng: random.Random, machines: int, at: float) -> list[Action]:
    """Replace a CDC by another of the same name and rows."""
    number = rng.randrange(machines)
    kinds = ["foreign: replace CDC", *(["compaction"] if rng.random() < 0.5 else [])]
    return [Action(at, kind, number, 0) for kind in kinds]


def _domain_again(rng: random.Random, machines: int, at: float) -> list[Action]:
    """Delete a domain and create one of its name, which the same machines join."""
    back = at + rng.uniform(1.0, 6.0)
    return [
        Action(at, "delete domain", 0, 0),
        *(Action(back - wait, "create domain", 0, 0) for wait in (0.8, 0.4, 0.0)),  # As soon as the name is free.
        *(Action(back + rng.uniform(0.1, 1.0), "join", machine, 0) for machine in range(machines)),
    ]


EPISODES: tuple[Episode, ...] = (_other_order, _another_comes, _node_again, _cdc_again, _domain_again)

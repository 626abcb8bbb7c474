"""What an ablation is: a name, what it takes away, and the pieces that take the place of others."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec


class Swap(msgspec.Struct, frozen=True):
    """One piece for another: `make` is given what `owner` (a module or a class) has under `name`, and gives the other.

    The owner is the one that uses the piece: a function that was imported from elsewhere is the importer's.
    """

    owner: Any
    name: str
    make: Callable[[Any], Any]

    @contextmanager
    def made(self) -> Iterator[None]:
        """Let the other piece be there for the time of the block."""
        original = vars(self.owner)[self.name]
        setattr(self.owner, self.name, self.make(original))
        try:
            yield
        finally:
            setattr(self.owner, self.name, original)


class Ablation(msgspec.Struct, frozen=True):
    """A safeguard that is switched off.

    `instead`: what happens instead, in a few words; `protects`: the rules of the design (section 3) and the failure
    cases that the safeguard stands for. `covered` says why no seed finds it: mostly, that another safeguard does the
    same work.
    """

    name: str
    instead: str
    protects: str
    swaps: tuple[Swap, ...]
    covered: str = ""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Switch it off for the time of the block."""
        with ExitStack() as stack:
            for swap in self.swaps:
                stack.enter_context(swap.made())
            yield

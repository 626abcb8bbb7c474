"""Safeguards that can be switched off, in the exploration only, to see that it finds what they prevent.

A check that cannot fail proves nothing. Each ablation composes a run of other pieces: for the time of the run a class
or a function of the controller is replaced by one without the safeguard. Production code has no switch and knows of
none of this. What each of them costs is in the table in `simulation/README.md`, which `ablation_table` generates.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from simulation.explore.ablations import decisions, fold, log, mends, watches, writes
from simulation.explore.ablations.ablation import Ablation

ABLATIONS: Mapping[str, Ablation] = MappingProxyType(
    {
        one.name: one
        for one in (*fold.ABLATIONS, *decisions.ABLATIONS, *log.ABLATIONS, *watches.ABLATIONS, *writes.ABLATIONS)
    }
)
"""All ablations by name."""

MENDS: Mapping[str, Ablation] = MappingProxyType({one.name: one for one in mends.MENDS})
"""Mends of single bugs, taken back, by name."""


@contextmanager
def applied(name: str) -> Iterator[None]:
    """Switch a safeguard off for the time of the block; with an empty name, none. KeyError for one that is not known.

    In this process only, and for everything in it: runs that are ablated and runs that are not take turns.
    """
    if not name:
        yield
        return
    with (ABLATIONS.get(name) or MENDS[name]).applied():
        yield

"""The interpreter's garbage collector, set for programs that make many objects which stay."""

import gc

COLLECT_AFTER = (20_000, 10, 10)
"""How many objects that are made and not freed bring a collection of the young, and how many such one of the older."""


def collect_rarely() -> None:
    """Leave what was imported alone, and look at the rest less often.

    A formation, an import or an audit makes objects by the hundred thousand that stay, and hardly a cycle. The
    interpreter's own setting walks them again and again, and all that was imported with them: up to 90 ms at a time.
    """
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)

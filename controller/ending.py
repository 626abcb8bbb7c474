"""Ending in time: a process that was asked to end, or whose parts have ended, is cut off if it does not.

What can hold it is not ours: a consumer's thread in a rebalance, a broker that does not answer (failure case C21).
Nothing is lost by it: what was acknowledged is in the log, and the rest is folded anew.
"""

import os
import sys
import threading

from controller.exits import LATE


def cut_off_after(seconds: float) -> None:
    """End this process in so many seconds, whatever it does; it counts on having ended by then."""
    timer = threading.Timer(seconds, _cut_off, (seconds,))
    timer.daemon = True
    timer.start()


def _cut_off(seconds: float) -> None:
    # Neither a logger nor an exception: what holds the process may hold those too.
    sys.stderr.write(
        f"Error: the process did not end within {seconds:.0f} s and is cut off; what is acknowledged stays\n"
    )
    sys.stderr.flush()
    os._exit(LATE)

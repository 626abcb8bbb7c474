"""A process that does not end when it should is cut off."""

import subprocess
import sys

from controller.exits import LATE

STUCK = """
from controller.ending import cut_off_after
import threading
cut_off_after(0.2)
threading.Thread(target=threading.Event().wait).start()  # No exit of the interpreter gets past it.
"""


def test_a_process_that_is_held_by_a_thread_is_cut_off_with_a_code_and_a_sentence() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, timeout=60, check=False, text=True)
    assert done.returncode == LATE
    assert done.stderr == "Error: the process did not end within 0 s and is cut off; what is acknowledged stays\n"


def test_a_process_that_ends_in_time_is_not_held_up() -> None:
    program = "from controller.ending import cut_off_after; cut_off_after(3600.0)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0

"""`python -m controller`, and the command `cliquelog`: how the program begins.

Python takes half a second to read all modules, and Ctrl-C in it would give a traceback from within one of them. So
until a command runs, SIGINT ends the process as it ends the system's own tools; one that is ignored stays so.
"""

import signal


def start() -> None:
    """Run the command line."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from controller.commands.cli import main  # noqa: PLC0415 - the reason for this module

    main(prog_name="cliquelog")


if __name__ == "__main__":
    start()

"""`python -m controller`: the same as the command `cliquelog`."""

from controller.commands.cli import main

main(prog_name="cliquelog")

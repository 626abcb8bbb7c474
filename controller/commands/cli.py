"""The command line of `cliquelog`.

Problem: the controller's libraries take most of a second to load, and most commands need none of them. Invariant: a
command's module is loaded when the command is asked for, so that a question to a log costs what the log costs.
"""

import signal
from importlib import import_module
from importlib.metadata import version as version_of
from typing import Any

import click

from controller import exits
from controller.exits import Failure, explain
from controller.terminal import OutputLost, flush_output, forget_output, is_unread

COMMANDS = {
    "audit": "audit:audit",
    "completion": "completion:completion",
    "copy": "copy:copy_log",
    "import": "import_:import_",
    "record": "record:record",
    "replay": "replay:replay",
    "report": "report:report",
    "run": "run:run",
    "simulate": "simulate:simulate",
    "topics": "topics:topics",
    "verify": "verify:verify",
    "why": "why:why",
}
"""By name: the module beside this one, and the command in it."""


class Commands(click.Group):
    """Runs a command, and answers a user's mistake with one sentence and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names."""
        del ctx
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load the command, with the codes that it ends with in its help; None if there is none of that name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        found: click.Command = getattr(import_module(f"controller.commands.{module}"), name)
        found.epilog = exits.help_of(cmd_name)
        return found

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's signature
        """Do the command. If nobody reads on (`| head`), end quietly, as the system's own tools do."""
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # controller/__main__.py says why.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            try:
                return self._answer(ctx)
            finally:
                flush_output()  # Here, and not at the interpreter's end, where it could only fail.
        except BrokenPipeError:
            if not is_unread():
                raise
            forget_output()
            raise click.exceptions.Exit(exits.UNREAD) from None
        except OutputLost as lost:
            forget_output()
            what = f"what is printed cannot be written: {lost.strerror}; make room, or send it elsewhere"
            raise Failure(what, exits.CONFIGURATION) from None

    def _answer(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's signature
        """Turn errors that a user can mend into sentences; a defect keeps its traceback."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (click.Abort, KeyboardInterrupt):
            click.echo("\nInterrupted.", err=True)
            raise click.exceptions.Exit(exits.INTERRUPTED) from None
        except BaseException as error:
            failure = explain(error)
            if failure is None:
                raise
            raise failure from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(version_of("cliquelog"), prog_name="cliquelog")
def main() -> None:
    """Assign and publish IMEX daemon indices of ComputeDomains from an event log.

    Each command's --help has its exit codes, and docs/operations.md those of all.
    """

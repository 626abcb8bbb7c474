"""The command line of `cliquelog`."""

import signal
from importlib.metadata import version as version_of
from typing import Any, TypeVar

import click

from controller import exits
from controller.commands.audit import audit
from controller.commands.completion import completion
from controller.commands.copy import copy_log
from controller.commands.import_ import import_
from controller.commands.record import record
from controller.commands.replay import replay
from controller.commands.report import report
from controller.commands.run import run
from controller.commands.simulate import simulate
from controller.commands.topics import topics
from controller.commands.verify import verify
from controller.commands.why import why
from controller.exits import Failure, explain
from controller.terminal import OutputLost, flush_output, forget_output, is_unread

T = TypeVar("T")


class Commands(click.Group):
    """Runs a command, and answers a user's mistake with one sentence and an exit code."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a command, and to its help the codes that it ends with."""
        cmd.epilog = exits.help_of(name or cmd.name or "")
        super().add_command(cmd, name)

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


main.add_command(audit)
main.add_command(completion)
main.add_command(copy_log)
main.add_command(import_)
main.add_command(record)
main.add_command(replay)
main.add_command(report)
main.add_command(run)
main.add_command(simulate)
main.add_command(topics)
main.add_command(verify)
main.add_command(why)

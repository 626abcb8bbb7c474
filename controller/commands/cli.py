"""The command line of `cliquelog`."""

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
from controller.exits import explain

T = TypeVar("T")


class Commands(click.Group):
    """Runs a command, and answers a user's mistake with one sentence and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's signature
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

    \b
    Exit codes: 0 done, 1 a defect, 2 wrong command line,
    3 configuration, 4 the log, 5 the API server, 6 leadership lost, 7 audit, copy,
    verify, simulate or why found something, 8 an input of import, 9 a worker made no
    progress, 10 cut off at its end, 130 interrupted.
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

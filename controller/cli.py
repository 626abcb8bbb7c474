"""The command line of `cliquelog`."""

from importlib.metadata import version as version_of
from typing import Any, TypeVar

import click

from controller import exits
from controller.audit_command import audit
from controller.completion_command import completion
from controller.copy_command import copy_log
from controller.exits import explain
from controller.import_command import import_
from controller.record_command import record
from controller.replay_command import replay
from controller.report_command import report
from controller.run_command import run
from controller.simulate_command import simulate
from controller.topics_command import topics
from controller.verify_command import verify
from controller.why_command import why

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

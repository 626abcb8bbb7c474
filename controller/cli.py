"""The command line of `cliquelog`.

Problem: the controller's libraries take a second to load, and most commands need none of them. Invariant: a command's
module is loaded when the command is asked for, so that a question to a log costs what the log costs.
"""

from importlib import import_module
from importlib.metadata import version as version_of
from typing import Any

import click

from controller import exits
from controller.exits import explain

COMMANDS = {
    "audit": "audit_command:audit",
    "completion": "completion_command:completion",
    "copy": "copy_command:copy_log",
    "import": "import_command:import_",
    "record": "record_command:record",
    "replay": "replay_command:replay",
    "report": "report_command:report",
    "run": "run_command:run",
    "simulate": "simulate_command:simulate",
    "topics": "topics_command:topics",
    "verify": "verify_command:verify",
    "why": "why_command:why",
}
"""By name: the module in this package, and the command in it."""


class Commands(click.Group):
    """Runs a command, and answers a user's mistake with one sentence and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names."""
        del ctx
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load the command; None if there is none of that name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        found: click.Command = getattr(import_module(f"controller.{module}"), name)
        return found

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

"""Exit codes and the sentences that go with them: what a user did is never answered with a traceback.

`CODES` is the one list of them: docs/operations.md shows it, and each command's --help its own part.
"""

import textwrap
from collections.abc import Iterator

import click
import msgspec

from controller.engines.stall import Stalled
from controller.lease import LeadershipLost
from eventlog.log import LogError
from kube.client import ConfigError, Forbidden, KubeError, ResourceMissing, Unauthorized, Unreachable

CONFIGURATION = 3
LOG = 4
API = 5
LEADERSHIP = 6
OUTPUT = 4
FOUND = 7
INPUT = 8
STALLED = 9
LATE = 10
INTERRUPTED = 130
UNREAD = 141


class Code(msgspec.Struct, frozen=True):
    """What a code means when one of these commands ends with it; no commands: all of them."""

    number: int
    commands: tuple[str, ...]
    meaning: str


_ON_A_LOG = ("audit", "copy", "import", "replay", "report", "run", "simulate", "topics", "verify", "why")
CODES = (
    Code(0, (), "it did what it was asked"),
    Code(0, ("audit", "verify"), "nothing was found"),
    Code(0, ("why",), "the node is ready"),
    Code(0, ("record", "run"), "it worked until SIGTERM or Ctrl-C"),
    Code(1, (), "a defect of cliquelog, with a traceback: please report it"),
    Code(2, (), "the command line is wrong"),
    Code(2, ("audit",), "no record speaks of the name, or the log begins later than the time"),
    Code(2, ("replay",), "the log begins later than the time, or has no such partition"),
    Code(2, ("why",), "the log begins later than the time"),
    Code(CONFIGURATION, (), "what is printed cannot be written"),
    Code(CONFIGURATION, ("record", "run"), "kubeconfig or credentials cannot be used"),
    Code(CONFIGURATION, ("run",), "it cannot listen on the address"),
    Code(CONFIGURATION, ("run",), "another process has its --group-instance-id (--engine faust)"),
    Code(CONFIGURATION, ("report",), "the page cannot be written"),
    Code(CONFIGURATION, ("replay",), "no temporary file can be written (--json)"),
    Code(CONFIGURATION, ("simulate",), "no temporary folder can be written"),
    Code(CONFIGURATION, ("verify",), "the note cannot be read or written"),
    Code(
        LOG,
        _ON_A_LOG,
        "the log cannot be used: not a log, damaged, of a newer version, read-only, full, on a network file system; "
        "on Kafka: brokers away or not letting us in, topics missing or not set up as a log needs them",
    ),
    Code(OUTPUT, ("record",), "the capture cannot be written, or the disk is full"),
    Code(API, ("record", "run"), "the API server: not reachable, a kind not served (CRDs), a permission missing"),
    Code(API, ("why",), "the controller does not answer (--url)"),
    Code(LEADERSHIP, ("run",), "the leadership was lost; the next start waits for it again"),
    Code(FOUND, ("audit", "verify"), "something was found"),
    Code(FOUND, ("why",), "a step is missing, or nothing is known of the name"),
    Code(FOUND, ("copy",), "the copy is not equal"),
    Code(FOUND, ("simulate",), "the domain did not form, or the replay gave another state"),
    Code(INPUT, ("import",), "an input cannot be read, or --strict met a line that is not understood"),
    Code(STALLED, ("run",), "the worker of a consumer group made no progress (--engine faust): start it again"),
    Code(
        LATE,
        ("run",),
        "it did not end within 20 s when it was asked to, and was cut off (--engine faust); nothing that was "
        "acknowledged is lost",
    ),
    Code(129, (), "ended by SIGHUP: the terminal was closed"),
    Code(INTERRUPTED, (), "ended by SIGINT (Ctrl-C)"),
    Code(UNREAD, (), "nobody reads on what is printed, as behind `| head`"),
    Code(143, (), "ended by SIGTERM"),
)
"""In the order of their numbers."""
HELP_WIDTH = 76


def table() -> str:
    """Give the codes as a table in Markdown."""
    lines = ["| code | of | meaning |", "|---|---|---|"]
    for one in CODES:
        commands = ", ".join(f"`{name}`" for name in one.commands) or "all"
        lines.append(f"| {one.number} | {commands} | {one.meaning} |")
    return "\n".join(lines) + "\n"


def help_of(command: str) -> str:
    """Give the codes of a command as its --help shows them."""
    return "\b\nExit codes:\n" + "\n".join(_lines(command))


def _lines(command: str) -> Iterator[str]:
    meanings: dict[int, list[str]] = {}
    for one in CODES:
        if not one.commands or command in one.commands:
            meanings.setdefault(one.number, []).append(one.meaning)
    for number, told in meanings.items():
        yield textwrap.fill(
            "; ".join(told),
            HELP_WIDTH,
            initial_indent=f"{number:>5}  ",
            subsequent_indent=" " * 7,
            break_on_hyphens=False,
        )


class Failure(click.ClickException):
    """One sentence for the user, and the exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        """Say what is wrong and how to mend it."""
        super().__init__(message)
        self.exit_code = exit_code


def explain(error: BaseException) -> Failure | None:
    """Give the sentence and the code for an error that a user can mend; None for a defect."""
    if isinstance(error, BaseExceptionGroup):
        told = [explain(one) for one in error.exceptions]
        return told[0] if all(told) else None
    match error:
        case Failure():
            return error
        case LogError():
            return Failure(str(error), LOG)
        case ConfigError():
            return Failure(str(error), CONFIGURATION)
        case KubeError():
            return _explain_answer(error)
        case LeadershipLost():
            return Failure(str(error), LEADERSHIP)
        case Stalled():
            return Failure(str(error), STALLED)
        case _:
            return None


def _explain_answer(error: KubeError) -> Failure:
    match error:
        case Unauthorized():
            return Failure(f"the API server does not accept the credentials: {error}; renew them", CONFIGURATION)
        case Forbidden():
            return Failure(f"a permission is missing: {error}; apply the roles in deploy/rbac.yaml", API)
        case ResourceMissing():
            return Failure(f"a kind is not served: {error}; apply deploy/crds/", API)
        case Unreachable():
            mend = "check the address in the kubeconfig, and that the server runs"
            return Failure(f"the API server cannot be reached: {error}; {mend}", API)
        case _:
            return Failure(f"the API server cannot be used: {error}", API)

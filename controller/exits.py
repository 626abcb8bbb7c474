"""Exit codes and the sentences that go with them: what a user did is never answered with a traceback.

0  done; for `audit` and `verify`: nothing found
1  a defect of cliquelog (a traceback is in the log)
2  the command line is wrong (click's)
3  the configuration cannot be used: kubeconfig, credentials, address to listen on, a name in the consumer group that
   another process has; `simulate`: output, temporary folder; `report`: the page cannot be written
4  the log cannot be used: not a log, damaged, of a newer version, read-only, full, on a network file system;
   on Kafka: brokers away or not letting us in, topics missing or not set up as a log needs them; `record`: its output
   cannot be written, or the disk is full
5  the API server cannot be used: not reachable, a kind not served, a permission missing; `why`: nor a controller
6  the leadership was lost
7  `audit` or `verify` found something; `why`: a step is missing; `copy`: the copy is not equal; `simulate`: the domain
   did not form, or the replay gave another state
8  an input of `import` cannot be read, or holds a line that is not understood and `--strict` was given
9  the worker of a consumer group made no progress: start the process again
10 the process did not end in time when it was asked to, and was cut off; nothing that was acknowledged is lost
129, 130, 143  it was ended by SIGHUP (a terminal that was closed; `copy`, `simulate`), SIGINT (Ctrl-C) or SIGTERM
"""

import click

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

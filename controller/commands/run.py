"""The command `cliquelog run`."""

import asyncio
import contextlib
import random
import secrets
import signal
import sys
from importlib.metadata import version as version_of
from importlib.util import find_spec
from typing import Any

import click
import structlog
from click.core import ParameterSource
from structlog.typing import FilteringBoundLogger

from controller import logs, places
from controller.app import Controller
from controller.collecting import collect_rarely
from controller.commands.options import GroupName, Label, Listen, Seconds, Subdomain, kafka_config, refuse_instance
from controller.config import GroupConfig, RunConfig
from controller.ending import cut_off_after
from controller.exits import CONFIGURATION, Failure
from controller.lease import LeaseConfig
from controller.preflight import preflight
from controller.writing.manifests import DaemonDeployment
from eventlog.record import Position
from kube.clock import SystemClock
from kube.transport import connect
from projections.settings import Settings


@click.command()
@click.option(
    "--log",
    "log",
    required=True,
    envvar="CLIQUELOG_LOG",
    help="Where the event log is: sqlite:PATH or kafka://HOST:PORT/TOPIC.",
)
@kafka_config
@click.option(
    "--engine",
    type=click.Choice(["embedded", "faust"]),
    default="embedded",
    show_default=True,
    help="Who has the partitions: this process all of them, or the processes of a consumer group (a log on Kafka).",
)
@click.option("--group", type=GroupName(), help="With --engine faust: the consumer group's name [cliquelog].")
@click.option(
    "--group-instance-id",
    "instance",
    envvar="GROUP_INSTANCE_ID",
    help="With --engine faust: this process's lasting name in the group; its partitions wait for it over a restart. "
    "Without, the variable has no effect.",
)
@click.option("--partitions", type=click.IntRange(1, 10_000), help="Partitions of a new log [24].")
@click.option("--kubeconfig", envvar="KUBECONFIG", help="Path; without it the pod's service account is used.")
@click.option("--context", help="Context of the kubeconfig.")
@click.option(
    "--namespace",
    envvar="NAMESPACE",
    type=Label(),
    default="default",
    show_default=True,
    help="The driver's namespace.",
)
@click.option("--all-namespaces", is_flag=True, help="Look for daemons and DaemonSets of earlier installs everywhere.")
@click.option("--pod-name", envvar="POD_NAME", default="cliquelog", show_default=True, help="Name of this instance.")
@click.option("--image-name", envvar="IMAGE_NAME", required=True, help="Image of the daemons.")
@click.option(
    "--cd-daemon-image-pull-secret-names",
    "pull_secrets",
    envvar="CD_DAEMON_IMAGE_PULL_SECRET_NAMES",
    default="",
    help="Names of pull secrets, joined by commas.",
)
@click.option(
    "--log-verbosity-cd-daemon",
    "verbosity",
    envvar="LOG_VERBOSITY_CD_DAEMON",
    type=click.IntRange(0, 10),
    default=2,
    show_default=True,
    help="Log verbosity of the daemons.",
)
@click.option(
    "--max-nodes-per-imex-domain",
    "capacity",
    envvar="MAX_NODES_PER_IMEX_DOMAIN",
    type=click.IntRange(1, 1000),
    default=18,
    show_default=True,
    help="Most daemons of one clique.",
)
@click.option(
    "--daemons",
    type=click.Choice(["upstream", "cliquelog"]),
    default="upstream",
    show_default=True,
    help="What the image holds: upstream's daemon, which writes its row too, or ours, which only reads it.",
)
@click.option("--daemon-priority-class", default="", help="PriorityClass of the daemons.")
@click.option(
    "--imex-mode",
    type=click.Choice(["driverManaged", "hostManaged"]),
    default="driverManaged",
    show_default=True,
    help="Who runs IMEX: daemons of ours, or the hosts (then no DaemonSet is made).",
)
@click.option(
    "--status-conditions/--no-status-conditions",
    "conditions",
    default=True,
    show_default=True,
    help="Whether the installed ComputeDomain CRD has status.conditions (ours has, upstream's has not).",
)
@click.option(
    "--leader-election-enabled", "elect", envvar="LEADER_ELECTION_ENABLED", is_flag=True, help="Wait for a Lease."
)
@click.option(
    "--leader-election-lease-lock-name",
    "lease_name",
    type=Subdomain(),
    default="cliquelog-controller",
    show_default=True,
    help="Name of the Lease, in the driver's namespace.",
)
@click.option(
    "--http-endpoint",
    "listen",
    envvar="HTTP_ENDPOINT",
    type=Listen(),
    default="127.0.0.1:8080",
    show_default=True,
    help="Where /metrics, /healthz, /readyz and (to loopback alone) /why are served.",
)
@click.option(
    "--workers", type=click.IntRange(1, 256), default=16, show_default=True, help="Requests in flight at once."
)
@click.option(
    "--recheck-seconds",
    "recheck_s",
    type=Seconds(min=0.1),
    default=60.0,
    show_default=True,
    help="How often a claim template of somebody else's that bears a domain's name is looked at again.",
)
@click.option(
    "--log-level", type=click.Choice(logs.LEVELS), default="info", show_default=True, help="Least level that is logged."
)
def run(log: str, **options: Any) -> None:  # noqa: ANN401 - click hands the options over by name
    """Run the controller.

    It watches the cluster, appends what it sees to the log, assigns indices and writes the rows. A restart
    replays the log. SIGTERM ends it cleanly.

    \b
    Example:
      cliquelog run --log sqlite:/var/lib/cliquelog/log.sqlite --namespace nvidia \\
          --image-name registry.example/compute-domain-daemon:1
    """
    _check_engine(log, options)
    logs.configure(options["log_level"], console=sys.stderr.isatty(), stream=sys.stderr)
    collect_rarely()
    asyncio.run(_run(config_from(log, options), options["kubeconfig"], options["context"]))


def _check_engine(log: str, options: dict[str, Any]) -> None:
    """Refuse an engine that cannot be, before anything is opened. Raises UsageError, Failure."""
    if options["engine"] == "embedded":
        # An environment may be that of several programs, or of both engines: there the name is an offer.
        source = click.get_current_context().get_parameter_source("instance")
        if options["group"] is not None or source is ParameterSource.COMMANDLINE:
            raise click.UsageError("--group and --group-instance-id are of --engine faust: add that, or leave them out")
        return
    if not log.startswith(places.KAFKA):
        raise click.UsageError("--engine faust shares a log on Kafka: give --log kafka://..., or leave --engine out")
    if options["instance"] is not None:
        refuse_instance(options["instance"])
    if find_spec("faust") is None:
        raise Failure("--engine faust needs Faust, which is not installed: install cliquelog[faust]", CONFIGURATION)


def config_from(log: str, options: dict[str, Any]) -> RunConfig:
    """Give the configuration that the options state."""
    namespace = options["namespace"]
    is_shared = options["engine"] == "faust"
    identity = f"{options['pod_name']}-{secrets.token_hex(4)}"
    return RunConfig(
        identity=identity,
        version=version_of("cliquelog"),
        log=log,
        partitions=options["partitions"],
        settings=Settings(
            namespace=namespace,
            capacity=options["capacity"],
            host_managed=options["imex_mode"] == "hostManaged",
            conditions=options["conditions"],
        ),
        deployment=DaemonDeployment(
            namespace=namespace,
            image=options["image_name"],
            capacity=options["capacity"],
            verbosity=options["verbosity"],
            pull_secrets=tuple(name for name in options["pull_secrets"].split(",") if name),
            priority_class=options["daemon_priority_class"],
            reader=options["daemons"] == "cliquelog",
        ),
        lease=LeaseConfig(namespace, options["lease_name"], identity) if options["elect"] else None,
        listen=options["listen"],
        everywhere=options["all_namespaces"],
        workers=options["workers"],
        group=GroupConfig(options["group"] or "cliquelog", options["instance"]) if is_shared else None,
        recheck_s=options["recheck_s"],
        kafka_config=options["kafka_config"],
    )


class _Strangers:
    """Warns of records that somebody else put into the log, of each once."""

    def __init__(self, logger: FilteringBoundLogger) -> None:
        self._logger = logger
        self._told: dict[int, int] = {}

    def __call__(self, position: Position, reason: str) -> None:
        """Warn; a partition is read in order, so what lies before the last one told was told."""
        if position.offset > self._told.get(position.partition, -1):
            self._told[position.partition] = position.offset
            self._logger.warning("not a record of the log, passed over", position=str(position), cause=reason)


async def _run(config: RunConfig, kubeconfig: str | None, context: str | None) -> None:
    logger = structlog.get_logger("cliquelog")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        stop.set()
        if config.group is not None:
            cut_off_after(config.group.ending_s)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    async with contextlib.AsyncExitStack() as stack:
        # First what leaves nothing behind: a kubeconfig that is refused must not cost a new log.
        client = await connect(kubeconfig, context)
        stack.push_async_callback(client.close)
        log, snapshots = await places.open_for_writing(
            config.log, config.partitions, kafka_config=config.kafka_config, foreign=_Strangers(logger)
        )
        stack.push_async_callback(log.close)
        first, second = config.selectors()
        await preflight(client, [*first, *second], "deploy/rbac.yaml")
        controller = Controller(
            config,
            log=log,
            snapshots=snapshots,
            client=client,
            clock=SystemClock(),
            rng=random.Random(secrets.randbits(64)),  # noqa: S311 - jitter, not secrets
            logger=logger,
        )
        logger.info("starting", identity=config.identity, version=config.version, log=config.log)
        try:
            await controller.run(stop)
        finally:
            end()  # Also where a part failed: what is left must not hold the process.
        logger.info("stopped")

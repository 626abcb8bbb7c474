"""The command `cliquelog record`."""

import asyncio
import random
import secrets
import signal
import sys
from importlib.metadata import version as version_of
from pathlib import Path

import click
import msgspec
import structlog

from controller import logs
from controller.commands.options import Label, Seconds
from controller.config import watched
from controller.preflight import preflight
from controller.recording.capture_files import CaptureFiles, Counted, Rotation
from controller.recording.recorder import Recording
from kube.clock import SystemClock
from kube.transport import connect
from projections.audit.finding import counted

ROLES = "deploy/record-rbac.yaml"


@click.command()
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    help="Where to: a folder for files that follow each other, or one file that ends with .jsonl.",
)
@click.option("--kubeconfig", envvar="KUBECONFIG", help="Path; without it the pod's service account is used.")
@click.option("--context", help="Context of the kubeconfig.")
@click.option(
    "--namespace",
    envvar="NAMESPACE",
    type=Label(),
    help="The driver's namespace, if daemons and cliques elsewhere do not matter.",
)
@click.option(
    "--max-file-mib",
    "size_mib",
    type=click.IntRange(1, 1 << 20),
    default=256,
    show_default=True,
    help="Size from which on a folder's next file is begun.",
)
@click.option(
    "--max-file-seconds",
    "age_s",
    type=Seconds(min=1.0),
    default=3600.0,
    show_default=True,
    help="Age from which on a folder's next file is begun.",
)
@click.option(
    "--fsync-seconds",
    "fsync_s",
    type=Seconds(min=0.0, max=3600.0),
    default=1.0,
    show_default=True,
    help="How long a line may wait for the disk; 0 for not at all, which is slow.",
)
@click.option(
    "--log-level", type=click.Choice(logs.LEVELS), default="info", show_default=True, help="Least level that is logged."
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object (docs/capture.md).")
def record(
    output: Path,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    size_mib: int,
    age_s: float,
    fsync_s: float,
    log_level: str,
    *,
    as_json: bool,
) -> None:
    """Capture a live cluster, without acting.

    What a controller would be told is written as JSON Lines (docs/capture.md) until SIGTERM or Ctrl-C: the objects as
    the API server sends them, and where the view was complete or had a gap. It only lists and watches; the rights are
    in deploy/record-rbac.yaml. `cliquelog import` makes a log of it.

    \b
    Examples:
      cliquelog record -o /var/lib/cliquelog/capture
      cliquelog record -o incident.jsonl --kubeconfig ~/.kube/config --namespace nvidia-dra-driver-gpu
      cliquelog import incident.jsonl --to sqlite:incident.sqlite
    """
    logs.configure(log_level, console=sys.stderr.isatty(), stream=sys.stderr)
    rotation = Rotation(size_mib << 20, age_s, fsync_s)
    found = asyncio.run(_record(output, kubeconfig, context, namespace or "", rotation))
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        figures = f"{counted(found.lines, 'line')}, {counted(found.bytes, 'byte')} in {counted(found.files, 'file')}"
        click.echo(f"{figures}: {output}")


async def _record(
    output: Path, kubeconfig: str | None, context: str | None, namespace: str, rotation: Rotation
) -> Counted:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    CaptureFiles.refuse(output)
    groups = watched(namespace)
    clock = SystemClock()
    client = await connect(kubeconfig, context)
    try:
        # Before a file is made: rights that are missing must not cost one.
        await preflight(client, [*groups[0], *groups[1]], ROLES)
        files = CaptureFiles(output, rotation, clock, version_of("cliquelog"))
        try:
            rng = random.Random(secrets.randbits(64))  # noqa: S311 - jitter, not secrets
            logger = structlog.get_logger("cliquelog")
            recording = Recording(client, files, clock=clock, rng=rng, logger=logger)
            await recording.run(groups, rotation.fsync_s, stop)
        finally:
            files.close()
    finally:
        await client.close()
    return files.counted

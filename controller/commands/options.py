"""Kinds of values that options take: what cannot be meant is refused before anything is opened or asked.

Source of the two forms of names: RFC 1123 as Kubernetes reads it (apimachinery, `IsDNS1123Label` and
`IsDNS1123Subdomain`), with its bounds on their length; of an instance's name: Kafka, as it reads it
(`JoinGroupRequest.validateGroupInstanceId`).
"""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_PORT_DIGITS = 5
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_INSTANCE = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_LABEL_LENGTH = 63
_SUBDOMAIN_LENGTH = 253
_SUBJECT_LENGTH = _LABEL_LENGTH + 1 + _SUBDOMAIN_LENGTH
CLIQUE_SIZE_MAX = 18


class Listen(click.ParamType):
    """`HOST:PORT` or `:PORT`."""

    name = "host:port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:  # noqa: ANN401
        """Read it."""
        host, colon, port = str(value).rpartition(":")
        # The length comes first: Python refuses to read numbers of thousands of digits.
        is_port = port.isascii() and port.isdecimal() and len(port) <= _PORT_DIGITS and int(port) <= 65535
        if not (colon and is_port and host.isprintable()):
            self.fail(f"{value!r} is not HOST:PORT", param, ctx)
        return host or "0.0.0.0", int(port)  # noqa: S104 - what a user writes as ":8080"


class Address(click.ParamType):
    """The address of an HTTP server, `http://HOST:PORT`, perhaps with a path before what is asked for."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401
        """Check it."""
        text = str(value)
        try:
            parts = urlsplit(text)
            is_whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:  # Brackets that do not close, or a port that is none.
            is_whole = False
        if not is_whole or not text.isprintable() or any(sign in text for sign in " @?#"):
            self.fail(f"{text!r} is no address: write http://HOST:PORT, as in http://127.0.0.1:8080", param, ctx)
        return text


class Subject(click.ParamType):
    """What `why` is asked about: `NAME` or `NAMESPACE/NAME`.

    An imported history may hold names that the API server would not admit, and they can be asked about; what is
    refused here no record can hold as a name, or it is two words where one was meant.
    """

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401
        """Check it."""
        text = str(value)
        parts = text.split("/")
        if len(parts) > 2 or not all(parts) or len(text.split()) != 1 or len(text) > _SUBJECT_LENGTH:
            self.fail(f"{text!r} is no name: write NODE, POD or NAMESPACE/POD", param, ctx)
        return text


class Label(click.ParamType):
    """The name of a namespace: an RFC 1123 label."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401
        """Check it."""
        text = str(value)
        if len(text) > _LABEL_LENGTH or not _NAME.fullmatch(text):
            self.fail(
                f"{text!r} cannot be the name of a namespace: give 1 to {_LABEL_LENGTH} of a-z, 0-9 and '-', "
                "neither first nor last a '-'",
                param,
                ctx,
            )
        return text


class Subdomain(click.ParamType):
    """The name of an object: an RFC 1123 subdomain."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401
        """Check it."""
        text = str(value)
        if len(text) > _SUBDOMAIN_LENGTH or not all(_NAME.fullmatch(part) for part in text.split(".")):
            self.fail(
                f"{text!r} cannot be the name of an object: give 1 to {_SUBDOMAIN_LENGTH} of a-z, 0-9, '-' and '.', "
                "each part between dots neither empty nor with a '-' first or last",
                param,
                ctx,
            )
        return text


class GroupName(click.ParamType):
    """The name of a consumer group: Kafka takes any text that is not empty."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401
        """Check it."""
        text = str(value)
        if not text.strip():
            self.fail(f"{text!r} cannot be the name of a group: give one, or leave the option out", param, ctx)
        return text


class Seconds(click.FloatRange):
    """A time that passes: `nan` and `inf`, which Python reads as numbers too, are none."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """Read it."""
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return seconds


class CliqueSize(click.ParamType):
    """How many nodes one NVLink partition has."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401
        """Read it."""
        text = str(value)
        if not (text.isascii() and text.isdecimal() and len(text) < 4 and 1 <= int(text) <= CLIQUE_SIZE_MAX):
            self.fail(f"{text!r}: a clique of GB200 or GB300 has 1 to {CLIQUE_SIZE_MAX} nodes", param, ctx)
        return int(text)


def replicas(command: Command) -> Command:
    """Give a command the options that say how many replicas new topics have; `in_sync` reads the second."""
    command = click.option(
        "--min-insync-replicas",
        "min_insync",
        type=click.IntRange(1, 100),
        help="Replicas that have a record before it is acknowledged [2, or 1 of 1].",
    )(command)
    return click.option(
        "--replication-factor",
        "replication",
        type=click.IntRange(1, 100),
        default=3,
        show_default=True,
        help="Replicas of topics that are made.",
    )(command)


def in_sync(replication: int, stated: int | None) -> int:
    """Give how many replicas must have a record. Raises UsageError if there are fewer."""
    found = min(2, replication) if stated is None else stated
    if found > replication:
        raise click.UsageError(f"--min-insync-replicas {found} is more than --replication-factor {replication}")
    return found


def refuse_instance(name: str) -> None:
    """Raise BadParameter for what Kafka does not take as the lasting name of a group's member."""
    if not _INSTANCE.fullmatch(name) or name in (".", ".."):
        raise click.BadParameter(
            f"{name!r} cannot be the name of a process in its group: give 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', "
            "as the name of a pod",
            param_hint="'--group-instance-id'",
        )


def kafka_config(command: Command) -> Command:
    """Give a command the option that names the settings for Kafka."""
    return click.option(
        "--kafka-config",
        envvar="CLIQUELOG_KAFKA_CONFIG",
        type=click.Path(path_type=Path),
        help="Properties file with security.protocol, sasl.mechanism and so on (docs/kafka.md).",
    )(command)

"""Logs: structlog on standard error, as JSON lines for machines or as text for people.

Libraries that log by the standard library pass through the same renderer, from WARNING up whatever the level: below
that the Kubernetes client logs whole answers and headers. As a second line of defence the values of keys that name
secrets are blotted out.
"""

import logging
import re
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

LEVELS = ("debug", "info", "warning", "error")
SECRET_KEY = re.compile(r"token|password|secret|authorization|credential|private_?key|kubeconfig_data", re.IGNORECASE)


def configure(level: str, *, console: bool, stream: TextIO) -> None:
    """Set up logging for this process, once, from the composition root. `level` is one of LEVELS.

    `console` chooses text over JSON lines; colours only where `stream` is a terminal. Raises ValueError otherwise.
    """
    if level not in LEVELS:
        raise ValueError(f"log level {level!r} is not one of {', '.join(LEVELS)}")
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        hide_secrets,
    ]
    rendering: list[Processor] = (
        [structlog.dev.ConsoleRenderer(colors=stream.isatty())]
        if console
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    drop_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[drop_meta, *rendering])
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def hide_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Blot out values whose key names a secret, at any depth of mappings."""
    return {key: "***" if SECRET_KEY.search(str(key)) else _hidden(value) for key, value in event.items()}


def _hidden(value: object) -> object:
    if isinstance(value, dict):
        return {key: "***" if SECRET_KEY.search(str(key)) else _hidden(inner) for key, inner in value.items()}
    return value

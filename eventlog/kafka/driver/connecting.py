"""How the library's clients connect, and why they cannot.

Each set of brokers is tried once with a bare connection before any client is made, because that one tells its reason.
"""

import asyncio
import ssl
from pathlib import Path
from typing import Any

from aiokafka.abc import AbstractTokenProvider
from aiokafka.conn import create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

from eventlog.kafka.place import KafkaPlace
from eventlog.kafka.settings import KafkaSettings
from eventlog.log import LogError, LogUnavailable, LogUnreadable


class _NoToken(AuthenticationFailedError):  # type: ignore[misc]
    """There is no token to show to the brokers; the message says why. They were not asked."""


class _FileToken(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """Reads the token anew for each connection: a cluster renews it in place."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def token(self) -> str:
        """Give the token."""
        try:
            return (await asyncio.to_thread(self._path.read_text, encoding="ascii")).strip()
        except (OSError, UnicodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not ASCII"
            raise _NoToken(f"the token file {self._path} cannot be read: {why}") from error


def security(settings: KafkaSettings) -> dict[str, Any]:
    """Give the library's names for the settings that every client and connection has."""
    return {
        "client_id": settings.client_id,
        "request_timeout_ms": settings.request_ms,
        "security_protocol": settings.protocol,
        "ssl_context": settings.context,
        "sasl_mechanism": settings.mechanism,
        "sasl_plain_username": settings.username or None,
        "sasl_plain_password": settings.password.value or None,
        "sasl_oauth_token_provider": _FileToken(settings.token_file) if settings.token_file is not None else None,
    }


async def reach(place: KafkaPlace, settings: KafkaSettings) -> None:
    """Connect to one of the brokers and leave, or say why none lets this client in."""
    reasons: list[LogError] = []
    for server in place.servers:
        host, _, port = server.rpartition(":")
        try:
            connection = await create_conn(host.strip("[]"), int(port), **security(settings))
            try:
                # A broker that asks for credentials tells its versions to anybody, and no more.
                await connection.send(MetadataRequest([]))
            finally:
                connection.close()
        except (KafkaError, OSError) as error:
            reasons.append(_unreached(server, settings, error))
        else:
            return
    raise min(reasons, key=lambda reason: isinstance(reason, LogUnavailable))


def _unreached(server: str, settings: KafkaSettings, error: BaseException) -> LogError:
    told = reason(error)
    match error:
        case _NoToken():
            return LogUnreadable(f"{told}; correct sasl.oauthbearer.token.endpoint.url, or have the token put there")
        case SaslAuthenticationFailed() | AuthenticationFailedError():
            return LogUnreadable(f"the Kafka broker {server} does not accept the credentials: {told}; correct them")
        case UnsupportedSaslMechanismError():
            return LogUnreadable(
                f"the Kafka broker {server} does not know {settings.mechanism}; choose another sasl.mechanism"
            )
        case ssl.SSLCertVerificationError():
            return LogUnreadable(
                f"the certificate of the Kafka broker {server} is not trusted: {error.verify_message}; "
                "name the authority that signed it in ssl.ca.location"
            )
        case ssl.SSLError() | ConnectionResetError() | asyncio.TimeoutError() | KafkaError():
            return LogUnavailable(
                f"the Kafka broker {server} does not answer in {settings.protocol} ({told}); "
                "check security.protocol, the port, and that the broker runs"
            )
        case _:
            return LogUnavailable(
                f"the Kafka broker {server} cannot be reached ({told}); check the address, and that the broker runs"
            )


def forbidden(settings: KafkaSettings, servers: str, error: KafkaError) -> LogError:
    """Give the error for a client that the brokers know and do not allow what it asks."""
    user = f"user {settings.username}" if settings.username else "this client"
    return LogUnreadable(
        f"the Kafka brokers at {servers} do not allow {user} what it needs ({reason(error)}); "
        "allow it what docs/kafka.md lists"
    )


def reason(error: BaseException) -> str:
    """Give what the error says, without the library's class names and numbers."""
    if isinstance(error, asyncio.TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    words = str(error.args[0]) if error.args and error.args[0] else getattr(error, "description", "")
    return (words or type(error).__name__).rstrip(".")

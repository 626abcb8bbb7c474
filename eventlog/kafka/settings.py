"""How to speak to the brokers: security and times, under the names that Kafka's users know.

They come from a properties file, so that no secret stands on a command line. Names are those of Kafka's Java client,
and of librdkafka where that has simpler ones (`sasl.username`, `ssl.ca.location`). What is not understood is refused,
with its line: a misspelt `security.protocol` must not end in plain text.
"""

import re
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn, TypeVar

import msgspec

from eventlog.log import LogUnreadable

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

_JAAS = re.compile(r'\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|\'([^\']*)\')')
_ESCAPE = re.compile(r"\\(.)")

R = TypeVar("R")


class Secret:
    """A password that shows in no repr, log or traceback of locals."""

    def __init__(self, value: str) -> None:
        """Keep the value."""
        self.value = value

    def __repr__(self) -> str:
        """Give no part of it."""
        return "***"


class KafkaSettings(msgspec.Struct, frozen=True):
    """Security and times; the times in milliseconds.

    `linger_ms` is how long a record may wait for others to share its request. `request_ms` bounds the wait for one
    answer, `delivery_ms` the wait until an append is said to have failed; `metadata_age_ms` is how old the view of the
    topics may be, and so how soon it notices a changed number of partitions. `session_ms` is after how long a consumer
    group gives up a member that is not heard of, and `heartbeat_ms` how often one lets itself be heard. `token_file` is
    read anew for each connection. `context` is None without TLS.
    """

    protocol: str = "PLAINTEXT"
    mechanism: str = "PLAIN"
    username: str = ""
    password: Secret = Secret("")
    token_file: Path | None = None
    context: ssl.SSLContext | None = None
    client_id: str = "cliquelog"
    linger_ms: int = 0
    request_ms: int = 10_000
    delivery_ms: int = 30_000
    metadata_age_ms: int = 60_000
    session_ms: int = 10_000
    heartbeat_ms: int = 1_000


def read(path: Path | None) -> KafkaSettings:
    """Read a properties file; None gives the settings of brokers that ask for nothing. Raises LogUnreadable."""
    if path is None:
        return KafkaSettings()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise LogUnreadable(f"the Kafka settings {path} cannot be read: {reason}; check --kafka-config") from error
    return _Reading(path, _properties(path, text)).settings()


def _properties(path: Path, text: str) -> dict[str, tuple[int, str]]:
    """Give each name's line number and value. Raises LogUnreadable."""
    found: dict[str, tuple[int, str]] = {}
    pending, begun = "", 0
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        stripped = line.strip()
        if not pending:
            begun = number
            if not stripped or stripped[0] in "#!":
                continue
        if stripped.endswith("\\") and not stripped.endswith("\\\\"):
            pending += stripped[:-1]
            continue
        entry, pending = pending + stripped, ""
        name, equals, value = entry.partition("=")
        if not equals:
            raise LogUnreadable(f"{path}, line {begun}: this is not NAME=VALUE; correct it")
        found[name.strip()] = (begun, value.strip())
    return found


class _Reading:
    """The understanding of one file's properties."""

    def __init__(self, path: Path, properties: Mapping[str, tuple[int, str]]) -> None:
        self._path = path
        self._left = dict(properties)
        self._lines = {name: line for name, (line, _) in properties.items()}

    def settings(self) -> KafkaSettings:
        protocol = self._choice("security.protocol", PROTOCOLS, "PLAINTEXT")
        settings = KafkaSettings(
            protocol=protocol,
            client_id=self._take("client.id") or "cliquelog",
            linger_ms=self._number("linger.ms", 0, 1_000, KafkaSettings().linger_ms),
            request_ms=self._number("request.timeout.ms", 100, 600_000, KafkaSettings().request_ms),
            metadata_age_ms=self._number("metadata.max.age.ms", 100, 600_000, KafkaSettings().metadata_age_ms),
            session_ms=self._number("session.timeout.ms", 6_000, 1_800_000, KafkaSettings().session_ms),
            heartbeat_ms=self._number("heartbeat.interval.ms", 100, 600_000, KafkaSettings().heartbeat_ms),
        )
        settings = self._with_delivery(settings)
        if settings.heartbeat_ms >= settings.session_ms:
            self._refuse(
                "heartbeat.interval.ms",
                f"a sign of life every {settings.heartbeat_ms} ms is too rare for a session.timeout.ms of "
                f"{settings.session_ms}; set a third of it or less",
            )
        if protocol.startswith("SASL_"):
            settings = self._with_sasl(settings)
        if protocol.endswith("SSL"):
            settings = msgspec.structs.replace(settings, context=self._context())
        if self._left:
            name = min(self._left, key=lambda left: self._lines[left])
            if name.startswith("sasl.") and not protocol.startswith("SASL_"):
                self._refuse(name, f"it has no effect with security.protocol={protocol}; set SASL_SSL")
            if name.startswith("ssl.") and not protocol.endswith("SSL"):
                self._refuse(name, f"it has no effect with security.protocol={protocol}; set SSL or SASL_SSL")
            self._refuse(name, "this setting is not known; take it out (docs/kafka.md lists those that are)")
        return settings

    def _with_delivery(self, settings: KafkaSettings) -> KafkaSettings:
        """Read how long an append may take: as long as its one request at least, as Kafka's own client has it."""
        name = "delivery.timeout.ms"
        least = settings.request_ms + settings.linger_ms
        delivery_ms = self._number(name, 100, 600_000, max(KafkaSettings().delivery_ms, least))
        if delivery_ms < least:
            self._refuse(
                name,
                f"{delivery_ms} ms are less than one request may take: set it to {least} or more, which is "
                "request.timeout.ms and linger.ms together, or set those to less",
            )
        return msgspec.structs.replace(settings, delivery_ms=delivery_ms)

    def _with_sasl(self, settings: KafkaSettings) -> KafkaSettings:
        name = (
            "sasl.mechanisms"
            if "sasl.mechanism" not in self._left and "sasl.mechanisms" in self._left
            else "sasl.mechanism"
        )
        mechanism = self._choice(name, MECHANISMS, "")
        self._take("sasl.mechanisms")
        if mechanism == "OAUTHBEARER":
            url = self._take("sasl.oauthbearer.token.endpoint.url")
            self._take("sasl.jaas.config")
            if not url.startswith("file://"):
                self._refuse(
                    "sasl.oauthbearer.token.endpoint.url",
                    "OAUTHBEARER takes its token from a file: set sasl.oauthbearer.token.endpoint.url=file:///PATH",
                )
            return msgspec.structs.replace(settings, mechanism=mechanism, token_file=Path(url.removeprefix("file://")))
        jaas = {
            name: _ESCAPE.sub(r"\1", quoted) or single
            for name, quoted, single in _JAAS.findall(self._take("sasl.jaas.config"))
        }
        username = self._take("sasl.username") or jaas.get("username", "")
        password = self._take("sasl.password") or jaas.get("password", "")
        if not username or not password:
            missing = "username" if not username else "password"
            if "sasl.jaas.config" in self._lines:
                told = f'there is no {missing}="..." in it, which {mechanism} needs: write it, in quotation marks'
                self._refuse("sasl.jaas.config", told)
            told = f"{mechanism} needs a user and a password: set sasl.username and sasl.password"
            self._refuse(f"sasl.{missing}", told)
        return msgspec.structs.replace(settings, mechanism=mechanism, username=username, password=Secret(password))

    def _context(self) -> ssl.SSLContext:
        authority = self._store("ssl.ca.location", "ssl.truststore")
        certificate = self._store("ssl.certificate.location", "ssl.keystore")
        key = self._take("ssl.key.location") or certificate
        password = self._take("ssl.key.password")
        check = "ssl.endpoint.identification.algorithm"
        checked = self._choice(check, ("https", ""), "" if check in self._left else "https")
        context = self._load("ssl.ca.location", authority, lambda: ssl.create_default_context(cafile=authority or None))
        context.check_hostname = bool(checked)
        if certificate:
            self._load(
                "ssl.certificate.location",
                certificate,
                lambda: context.load_cert_chain(certificate, key, lambda: password),
            )
        return context

    def _store(self, name: str, java: str) -> str:
        """Give the path of a PEM file, by librdkafka's name or by Java's."""
        path = self._take(name)
        kind = self._take(f"{java}.type").upper()
        store = self._take(f"{java}.location")
        if store and kind != "PEM":
            self._refuse(f"{java}.location", f"only PEM files are read: convert it, and set {java}.type=PEM")
        return path or store

    def _load(self, name: str, path: str, load: Callable[[], R]) -> R:
        try:
            return load()
        except (OSError, ssl.SSLError) as error:
            reason = "is not PEM" if isinstance(error, ssl.SSLError) else f"cannot be read ({error.strerror})"
            self._refuse(name, f"{path} {reason}; correct {name}")

    def _choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value = self._take(name) or default
        if value not in choices:
            known = ", ".join(one or "(nothing)" for one in choices)
            self._refuse(name, f"{value!r} is none of {known}; choose one of them")
        return value

    def _number(self, name: str, least: int, most: int, default: int) -> int:
        value = self._take(name)
        if not value:
            return default
        if not (value.isascii() and value.isdecimal() and len(value) < 10 and least <= int(value) <= most):
            self._refuse(name, f"{value!r} is not a number from {least} to {most}; correct it")
        return int(value)

    def _take(self, name: str) -> str:
        return self._left.pop(name, (0, ""))[1]

    def _refuse(self, name: str, reason: str) -> NoReturn:
        line = self._lines.get(name)
        place = f"{self._path}, line {line}, {name}" if line else f"{self._path}, {name}"
        raise LogUnreadable(f"{place}: {reason}")

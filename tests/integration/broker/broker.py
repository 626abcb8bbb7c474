"""A real Kafka broker on loopback (KRaft, broker and controller in one process), to be killed, frozen and restarted.

Everything lives in one folder: data, settings, certificate and log. It has three doors: one where everybody may do
everything, one where a client must say who it is (SASL), one of the same kind under TLS. `alice` may do everything,
`bob` nothing.
"""

import base64
import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.integration.broker.runtime import SMALL, Runtime, find_runtime

READY_S = 90.0
PASSWORDS = {"alice": "alice-secret", "bob": "bob-secret"}
DOORS = {"PLAINTEXT": "plain", "SASL_PLAINTEXT": "sasl", "SASL_SSL": "tls"}
MODULES = "org.apache.kafka.common.security"


class Broker:
    """One broker with its data; `start` and `stop` are for whoever made it."""

    def __init__(self, runtime: Runtime, folder: Path) -> None:
        self._runtime = runtime
        self._folder = folder
        self._ports = {name: lasting_port() for name in ("plain", "sasl", "tls", "controller")}
        self._settings = folder / "server.properties"
        self.certificate = folder / "certificate.pem"
        self._formatted = False

    @property
    def server(self) -> str:
        """Address of the door where everybody may do everything."""
        return f"127.0.0.1:{self._ports['plain']}"

    @property
    def sasl_server(self) -> str:
        """Address of the door that asks for SASL (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER)."""
        return f"127.0.0.1:{self._ports['sasl']}"

    @property
    def tls_server(self) -> str:
        """Address of the door that asks for SASL under TLS, with a certificate that `certificate` alone proves."""
        return f"127.0.0.1:{self._ports['tls']}"

    def start(self) -> None:
        """Start it on the data that it has, and wait until it answers.

        Raises:
            StartError: it did not come up; the message names its log file.
        """
        if not self._formatted:
            self._write_settings()
            users = [
                f"--add-scram={mechanism}=[name={user},password={password}]"
                for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
                for user, password in PASSWORDS.items()
            ]
            # Its first six bits are 0, so it begins with A: one that begins with "-" is taken for an option.
            identity = base64.urlsafe_b64encode(b"\0" + secrets.token_bytes(15)).decode().rstrip("=")
            self._runtime.run("kafka.tools.StorageTool", "format", "-t", identity, "-c", str(self._settings), *users)
            self._formatted = True
        self._runtime.start("kafka.Kafka", str(self._settings))
        self._runtime.wait_ready(self._answers, READY_S)

    def kill(self) -> None:
        """Let it crash (SIGKILL); the data stay."""
        self._runtime.kill()

    def freeze(self) -> None:
        """Let it stand still where it is: connections stay open and nobody answers."""
        self._runtime.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._runtime.signal(signal.SIGCONT)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._ports["plain"]), timeout=1):
            return True
        return False

    def _write_settings(self) -> None:
        key = self._folder / "key.pem"
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test broker"),
                *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(self.certificate)),
            ],
            check=True,
            capture_output=True,
        )
        keystore = self._folder / "keystore.pem"
        keystore.write_text(key.read_text() + self.certificate.read_text())
        self._settings.write_text("\n".join([*self._server_settings(), *self._security_settings(keystore)]) + "\n")

    def _server_settings(self) -> list[str]:
        ports = self._ports
        listeners = ",".join(f"{door}://127.0.0.1:{ports[name]}" for door, name in DOORS.items())
        return [
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.voters=1@127.0.0.1:{ports['controller']}",
            f"listeners={listeners},CONTROLLER://127.0.0.1:{ports['controller']}",
            f"advertised.listeners={listeners}",
            "inter.broker.listener.name=PLAINTEXT",
            "controller.listener.names=CONTROLLER",
            f"log.dirs={self._folder / 'data'}",
            "auto.create.topics.enable=false",
            *(f"{topic}.replication.factor=1" for topic in ("offsets.topic", "transaction.state.log")),
            "share.coordinator.state.topic.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "share.coordinator.state.topic.min.isr=1",
            "offsets.topic.num.partitions=4",
            "group.initial.rebalance.delay.ms=0",
            "log.cleaner.backoff.ms=500",
        ]

    def _security_settings(self, keystore: Path) -> list[str]:
        plain_users = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
        mechanisms = {
            "plain": f"{MODULES}.plain.PlainLoginModule required {plain_users};",
            "scram-sha-256": f"{MODULES}.scram.ScramLoginModule required;",
            "scram-sha-512": f"{MODULES}.scram.ScramLoginModule required;",
            "oauthbearer": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredLoginStringClaim_sub="broker";',
        }
        return [
            f"listener.security.protocol.map=CONTROLLER:PLAINTEXT,{','.join(f'{door}:{door}' for door in DOORS)}",
            f"sasl.enabled.mechanisms={','.join(mechanisms).upper()}",
            *(
                f"listener.name.{door}.{mechanism}.sasl.jaas.config={module}"
                for door in ("sasl_plaintext", "sasl_ssl")
                for mechanism, module in mechanisms.items()
            ),
            "listener.name.sasl_ssl.ssl.keystore.type=PEM",
            f"listener.name.sasl_ssl.ssl.keystore.location={keystore}",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users=User:ANONYMOUS;User:alice",
        ]


def lasting_port() -> int:
    """Give a free loopback port that stays free while the broker is away.

    It lies below those that systems give to outgoing connections: a client that tries again and again to reach a
    broker which is away would else be given its port one day, and then the broker cannot come back.
    """
    while True:
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", 12_000 + secrets.randbelow(18_000)))
            return int(listener.getsockname()[1])


def unsecured_token(user: str, lifetime_s: int = 3600) -> str:
    """Give an OAuth token as the broker takes it: a JWT without a signature."""

    def part(content: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    now = int(time.time())
    return f"{part({'alg': 'none'})}.{part({'sub': user, 'iat': now, 'exp': now + lifetime_s})}."


@contextlib.contextmanager
def running(folder: Path, options: Sequence[str] = SMALL) -> Iterator[Broker]:
    """Run a broker of one's own for the time of the block; `options` are Java's.

    Raises:
        BuildError: there is nothing to run it with.
    """
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - pathlib's is taken for blocking
    runtime = find_runtime(folder, options)
    broker = Broker(runtime, folder)
    try:
        broker.start()
        yield broker
    finally:
        runtime.kill()

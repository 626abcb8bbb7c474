"""Who may use a log: TLS, the SASL mechanisms, and one sentence for whoever is not let in. Needs a broker of ours."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from controller.exits import LOG
from eventlog.kafka import KafkaPlace
from tests.controller.bad_input import answer, output
from tests.integration.broker.broker import PASSWORDS, Broker, unsecured_token
from tests.integration.broker.logs import make_log

Configure = Callable[[str], Path]

pytestmark = pytest.mark.integration
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.fixture
async def topic(broker: Broker, new_place: Callable[[], KafkaPlace]) -> str:
    """The topic of an empty log on our broker."""
    place = msgspec.structs.replace(new_place(), servers=(broker.server,))
    await make_log(place, 1)
    return place.topic


@pytest.fixture
def configured(tmp_path: Path) -> Configure:
    """Give what writes a settings file."""

    def write(text: str) -> Path:
        path = tmp_path / "client.properties"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """A token of alice's in a file."""
    path = tmp_path / "token"
    path.write_text(unsecured_token("alice") + "\n")
    return path


def user(name: str, mechanism: str, password: str = "") -> str:
    return (
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f"sasl.username={name}\nsasl.password={password or PASSWORDS[name]}\n"
    )


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_user_with_a_password_is_let_in(
    broker: Broker, topic: str, configured: Configure, mechanism: str
) -> None:
    config = configured(user("alice", mechanism))
    said = await output("verify", f"kafka://{broker.sasl_server}/{topic}", "--kafka-config", config, code=0)
    assert said.startswith("records     0 in 1 partitions\n")


async def test_a_user_with_a_token_is_let_in(broker: Broker, topic: str, configured: Configure, token: Path) -> None:
    config = configured(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.oauthbearer.token.endpoint.url=file://{token}\n"
    )
    place = f"kafka://{broker.sasl_server}/{topic}"
    assert (await output("verify", place, "--kafka-config", config, code=0)).startswith("records     0 in 1 ")
    os.unlink(token)  # noqa: PTH108 - pathlib's is taken for blocking
    said = await answer("verify", place, "--kafka-config", config, code=LOG)
    assert said == (
        f"the token file {token} cannot be read: No such file or directory; correct "
        "sasl.oauthbearer.token.endpoint.url, or have the token put there"
    )


async def test_under_tls_the_brokers_certificate_must_be_one_that_is_trusted(
    broker: Broker, topic: str, configured: Configure
) -> None:
    place = f"kafka://{broker.tls_server}/{topic}"
    jaas = f'sasl.jaas.config={JAAS} username="alice" password="{PASSWORDS["alice"]}";\n'
    lines = f"security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n{jaas}"
    config = configured(f"{lines}ssl.truststore.type=PEM\nssl.truststore.location={broker.certificate}\n")
    assert (await output("topics", "check", place, "--kafka-config", config, code=0)).startswith(f"topic {topic}\n")
    config = configured(lines)
    said = await answer("topics", "check", place, "--kafka-config", config, code=LOG)
    assert said == (
        f"the certificate of the Kafka broker {broker.tls_server} is not trusted: self-signed certificate; "
        "name the authority that signed it in ssl.ca.location"
    )


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_a_wrong_password_is_told_and_not_shown(
    broker: Broker, topic: str, configured: Configure, mechanism: str
) -> None:
    config = configured(user("alice", mechanism, "s3cret-but-wrong"))
    told = await output("verify", f"kafka://{broker.sasl_server}/{topic}", "--kafka-config", config, code=LOG)
    assert f"the Kafka broker {broker.sasl_server} does not accept the credentials: " in told
    assert "s3cret" not in told
    assert told.count("\n") == 1


async def test_a_user_who_may_not_see_the_topic_is_told_that_this_may_be_the_reason(
    broker: Broker, topic: str, configured: Configure
) -> None:
    config = configured(user("bob", "PLAIN"))
    said = await answer("verify", f"kafka://{broker.sasl_server}/{topic}", "--kafka-config", config, code=LOG)
    assert f"there is no topic {topic} at {broker.sasl_server}, or this user may not see it" in said


async def test_a_client_without_credentials_at_a_door_that_asks_for_them_is_told_what_to_check(
    broker: Broker, topic: str, configured: Configure
) -> None:
    config = configured("request.timeout.ms=2000\n")
    for server in (broker.sasl_server, broker.tls_server):
        said = await answer("verify", f"kafka://{server}/{topic}", "--kafka-config", config, code=LOG)
        assert said.startswith(f"the Kafka broker {server} does not answer in PLAINTEXT ("), said
        assert said.endswith("check security.protocol, the port, and that the broker runs")


async def test_tls_towards_a_door_without_it_is_told(broker: Broker, topic: str, configured: Configure) -> None:
    config = configured("security.protocol=SSL\nrequest.timeout.ms=2000\n")
    said = await answer("verify", f"kafka://{broker.server}/{topic}", "--kafka-config", config, code=LOG)
    assert said.startswith(f"the Kafka broker {broker.server} does not answer in SSL (")


async def test_brokers_that_are_not_there_are_told() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        server = f"127.0.0.1:{unused.getsockname()[1]}"
        said = await answer("verify", f"kafka://{server},localhost:1/log", code=LOG)
        assert said.startswith(f"the Kafka broker {server} cannot be reached (")
        assert said.endswith("; check the address, and that the broker runs")
        for command in ("check", "create"):
            assert "cannot be reached" in await answer("topics", command, f"kafka://{server}/log", code=LOG)

"""The properties file: names that Kafka's users know, and one sentence with the line for what is not understood."""

import ssl
import subprocess
from pathlib import Path

import pytest

from eventlog.kafka.settings import KafkaSettings, read
from eventlog.log import LogUnreadable

SASL = "security.protocol=SASL_PLAINTEXT\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "client.properties"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate with its key beside it."""
    path = tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=test"),
            *("-keyout", str(tmp_path / "key.pem"), "-out", str(path)),
        ],
        check=True,
        capture_output=True,
    )
    return path


def of(config: Path, text: str) -> KafkaSettings:
    config.write_text(text)
    return read(config)


def refusal(config: Path, text: str) -> str:
    with pytest.raises(LogUnreadable) as refused:
        of(config, text)
    said = str(refused.value)
    assert said.startswith(str(config))
    return said.removeprefix(str(config))


def test_without_a_file_nothing_is_asked_for() -> None:
    assert read(None) == KafkaSettings()
    assert read(None).protocol == "PLAINTEXT"


def test_user_and_password_may_be_given_as_in_librdkafka(config: Path) -> None:
    settings = of(config, f"# ours\n\n{SASL}sasl.mechanism = SCRAM-SHA-256\nsasl.username=alice\nsasl.password=a=b c\n")
    assert (settings.protocol, settings.mechanism) == ("SASL_PLAINTEXT", "SCRAM-SHA-256")
    assert (settings.username, settings.password.value) == ("alice", "a=b c")


@pytest.mark.parametrize("joint", [" ", " \\\n   "])
def test_user_and_password_may_be_given_as_in_java(config: Path, joint: str) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    jaas = f'sasl.jaas.config={module}{joint}username="alice"{joint}password="a \\"quoted\\" one";\n'
    settings = of(config, f"{SASL}sasl.mechanism=PLAIN\n{jaas}")
    assert (settings.username, settings.password.value) == ("alice", 'a "quoted" one')


def test_a_password_is_in_no_repr(config: Path) -> None:
    settings = of(config, f"{SASL}sasl.mechanism=PLAIN\nsasl.username=alice\nsasl.password=s3cret\n")
    assert "s3cret" not in repr(settings)
    assert "s3cret" not in str(settings.password)


def test_a_token_comes_from_a_file(config: Path) -> None:
    lines = "sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=file:///run/token\n"
    assert of(config, SASL + lines).token_file == Path("/run/token")
    said = refusal(config, f"{SASL}sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=https://x/y\n")
    assert said == (
        ", line 3, sasl.oauthbearer.token.endpoint.url: OAUTHBEARER takes its token from a file: "
        "set sasl.oauthbearer.token.endpoint.url=file:///PATH"
    )


def test_times_are_in_milliseconds(config: Path) -> None:
    settings = of(config, "linger.ms=5\nrequest.timeout.ms=2000\ndelivery.timeout.ms=9000\nclient.id=me\n")
    assert (settings.linger_ms, settings.request_ms, settings.delivery_ms, settings.client_id) == (5, 2000, 9000, "me")
    assert refusal(config, "\nlinger.ms=soon\n") == (
        ", line 2, linger.ms: 'soon' is not a number from 0 to 1000; correct it"
    )


def test_an_append_may_take_as_long_as_its_one_request_at_least(config: Path) -> None:
    assert refusal(config, "request.timeout.ms=5000\nlinger.ms=10\ndelivery.timeout.ms=5009\n") == (
        ", line 3, delivery.timeout.ms: 5009 ms are less than one request may take: set it to 5010 or more, which is "
        "request.timeout.ms and linger.ms together, or set those to less"
    )
    assert of(config, "request.timeout.ms=5000\nlinger.ms=10\ndelivery.timeout.ms=5010\n").delivery_ms == 5010
    # Where nobody has set it, it follows.
    assert of(config, "request.timeout.ms=40000\nlinger.ms=10\n").delivery_ms == 40_010
    assert of(config, "request.timeout.ms=20000\n").delivery_ms == 30_000


@pytest.mark.parametrize(
    "lines",
    [
        "ssl.ca.location={0}\nssl.certificate.location={0}\nssl.key.location={1}\n",
        "ssl.truststore.type=PEM\nssl.truststore.location={0}\n",
    ],
)
def test_tls_takes_pem_files_under_either_name(config: Path, certificate: Path, lines: str) -> None:
    text = lines.format(certificate, certificate.with_name("key.pem"))
    context = of(config, f"security.protocol=SSL\n{text}").context
    assert context is not None
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert len(context.get_ca_certs()) == 1


def test_the_name_in_the_certificate_is_left_unchecked_only_when_that_is_said(config: Path, certificate: Path) -> None:
    text = f"security.protocol=SSL\nssl.ca.location={certificate}\nssl.endpoint.identification.algorithm=\n"
    context = of(config, text).context
    assert context is not None
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("security.protokol=SSL\n", ", line 1, security.protokol: this setting is not known; take it out"),
        ("security.protocol=TLS\n", ", line 1, security.protocol: 'TLS' is none of PLAINTEXT"),
        ("just words\n", ", line 1: this is not NAME=VALUE; correct it"),
        (f"{SASL}", ", sasl.mechanism: '' is none of PLAIN, SCRAM-SHA-256"),
        (f"{SASL}sasl.mechanism=GSSAPI\n", ", line 2, sasl.mechanism: 'GSSAPI' is none of"),
        (f"{SASL}sasl.mechanisms=GSSAPI\n", ", line 2, sasl.mechanisms: 'GSSAPI' is none of"),
        (
            f"{SASL}sasl.mechanism=PLAIN\n\nsasl.jaas.config=x required username=alice;\n",
            ', line 4, sasl.jaas.config: there is no username="..." in it, which PLAIN needs',
        ),
        (
            f'{SASL}sasl.mechanism=PLAIN\nsasl.jaas.config=x required username="alice";\n',
            ', line 3, sasl.jaas.config: there is no password="..." in it, which PLAIN needs',
        ),
        (f"{SASL}sasl.mechanism=PLAIN\n", ", sasl.username: PLAIN needs a user and a password"),
        ("sasl.username=x\n", ", line 1, sasl.username: it has no effect with security.protocol=PLAINTEXT"),
        ("ssl.ca.location=/x\n", ", line 1, ssl.ca.location: it has no effect with security.protocol=PLAINTEXT"),
        ("security.protocol=SSL\nssl.ca.location=/absent\n", ", line 2, ssl.ca.location: /absent cannot be read"),
        ("security.protocol=SSL\nssl.truststore.location=/x.jks\n", ", line 2, ssl.truststore.location: only PEM"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_line(config: Path, text: str, said: str) -> None:
    assert refusal(config, text).startswith(said)


def test_a_file_that_is_not_pem_is_named(config: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("shopping list")
    said = refusal(config, f"security.protocol=SSL\nssl.ca.location={tmp_path}/notes\n")
    assert said == f", line 2, ssl.ca.location: {tmp_path}/notes is not PEM; correct ssl.ca.location"


def test_a_settings_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogUnreadable, match=r"absent cannot be read: No such file or directory; check --kafka-config"):
        read(tmp_path / "absent")


def test_the_times_of_a_consumer_group_have_kafkas_names(config: Path) -> None:
    settings = of(config, "session.timeout.ms=45000\nheartbeat.interval.ms=3000\n")
    assert (settings.session_ms, settings.heartbeat_ms) == (45_000, 3_000)


def test_a_sign_of_life_that_comes_once_a_session_is_too_rare(config: Path) -> None:
    said = refusal(config, "session.timeout.ms=6000\nheartbeat.interval.ms=6000\n")
    assert said == (
        ", line 2, heartbeat.interval.ms: a sign of life every 6000 ms is too rare for a session.timeout.ms of 6000; "
        "set a third of it or less"
    )

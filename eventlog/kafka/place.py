"""Where a log on Kafka is: `kafka://HOST:PORT[,HOST:PORT...]/TOPIC[?snapshots=TOPIC]`."""

import re
from urllib.parse import parse_qsl

import msgspec

from eventlog.log import LogUnreadable

FORM = "kafka://HOST:PORT[,HOST:PORT...]/TOPIC[?snapshots=TOPIC]"
EXAMPLE = "kafka://kafka-0.kafka:9092,kafka-1.kafka:9092/cliquelog"

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""The names that Kafka takes (its `Topic.validate`); `.` and `..` are not among them either."""
_SERVER = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]@]+):([0-9]{1,5})")


class KafkaPlace(msgspec.Struct, frozen=True):
    """The brokers to ask first, the topic of the log, and that of its snapshots."""

    servers: tuple[str, ...]
    topic: str
    snapshots: str

    def __str__(self) -> str:
        """Give the brokers and the topic, as people name them."""
        return f"topic {self.topic} at {','.join(self.servers)}"


def parse(place: str) -> KafkaPlace:
    """Read the place of a log on Kafka. Raises LogUnreadable."""
    if "@" in place:
        # Neither shown nor used: a password here would be seen by all who list processes.
        raise LogUnreadable(
            "the place of a log on Kafka has no user and password: put sasl.username and sasl.password into a file, "
            "and name it with --kafka-config"
        )
    try:
        return _parsed(place)
    except ValueError as error:
        raise LogUnreadable(
            f"{place!r} does not name a log on Kafka: {error}; write {FORM}, as in {EXAMPLE}"
        ) from error


def _parsed(place: str) -> KafkaPlace:
    """Read the place. Raises ValueError with the reason."""
    if not place.startswith("kafka://"):
        raise ValueError("it does not begin with kafka://")
    # Not urlsplit: newer ones take several hosts, of which one is an IPv6 address, for a wrong IPv6 address.
    rest, _, fragment = place.removeprefix("kafka://").partition("#")
    rest, _, query = rest.partition("?")
    hosts, _, topic = rest.partition("/")
    servers = tuple(hosts.split(","))
    for server in servers:
        match = _SERVER.fullmatch(server)
        if match is None or not 0 < int(match[2]) < 1 << 16:
            raise ValueError(f"{server!r} is not HOST:PORT")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(options.keys() - {"snapshots"}):
        raise ValueError(f"there is no option {unknown[0]!r}")
    if fragment:
        raise ValueError("it has a part after '#'")
    snapshots = options.get("snapshots", f"{topic}.snapshots")
    for name in (topic, snapshots):
        if not _TOPIC.fullmatch(name) or name in (".", ".."):
            raise ValueError(f"{name!r} cannot be a topic (1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-')")
        if name.startswith("__"):
            raise ValueError(f"{name!r} is one of Kafka's own topics (they begin with '__')")
    if topic == snapshots:
        raise ValueError("the log and its snapshots cannot share one topic")
    return KafkaPlace(servers, topic, snapshots)

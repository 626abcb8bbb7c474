"""What a user writes to name a log on Kafka: what is understood, and what is refused in one sentence."""

import pytest

from eventlog.kafka import KafkaPlace, parse
from eventlog.log import LogUnreadable


@pytest.mark.parametrize(
    ("place", "servers", "topic", "snapshots"),
    [
        ("kafka://k:9092/cliquelog", ("k:9092",), "cliquelog", "cliquelog.snapshots"),
        ("kafka://a.b:1,[::1]:65535/x_Y-1.z", ("a.b:1", "[::1]:65535"), "x_Y-1.z", "x_Y-1.z.snapshots"),
        ("kafka://127.0.0.1:9092/log?snapshots=other", ("127.0.0.1:9092",), "log", "other"),
    ],
)
def test_a_place_is_brokers_a_topic_and_one_for_snapshots(
    place: str, servers: tuple[str, ...], topic: str, snapshots: str
) -> None:
    assert parse(place) == KafkaPlace(servers, topic, snapshots)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("kafka:9092", "does not begin with kafka://"),
        ("kafka://", "'' is not HOST:PORT"),
        ("kafka:///topic", "'' is not HOST:PORT"),
        ("kafka://host/topic", "'host' is not HOST:PORT"),
        ("kafka://host:0/topic", "'host:0' is not HOST:PORT"),
        ("kafka://host:65536/topic", "'host:65536' is not HOST:PORT"),
        ("kafka://host:" + "9" * 5000 + "/topic", "is not HOST:PORT"),
        ("kafka://a:1,/topic", "'' is not HOST:PORT"),
        ("kafka://a:1;b:2/topic", "is not HOST:PORT"),
        ("kafka://[::1/topic", "is not HOST:PORT"),
        ("kafka://a:1", "'' cannot be a topic"),
        ("kafka://a:1/", "'' cannot be a topic"),
        ("kafka://a:1/..", "'..' cannot be a topic"),
        ("kafka://a:1/one/two", "'one/two' cannot be a topic"),
        ("kafka://a:1/" + "x" * 250, "cannot be a topic"),
        ("kafka://a:1/" + "x" * 245, "cannot be a topic"),
        ("kafka://a:1/t?snapshots=", "'' cannot be a topic"),
        ("kafka://a:1/t?snapshots=t", "cannot share one topic"),
        ("kafka://a:1/t?partitions=3", "there is no option 'partitions'"),
        ("kafka://a:1/t#x", "after '#'"),
    ],
)
def test_a_place_that_cannot_be_meant_is_refused_with_the_form(place: str, reason: str) -> None:
    with pytest.raises(LogUnreadable) as refused:
        parse(place)
    said = str(refused.value)
    assert reason in said
    assert said.startswith(f"{place!r} does not name a log on Kafka: ")
    assert said.endswith("as in kafka://kafka-0.kafka:9092,kafka-1.kafka:9092/cliquelog")


def test_a_password_in_the_place_is_refused_and_not_shown() -> None:
    with pytest.raises(LogUnreadable, match="--kafka-config") as refused:
        parse("kafka://alice:s3cret@host:9092/topic")
    assert "s3cret" not in str(refused.value)

"""The place of a log decides its engine, and what is loaded for it."""

import subprocess
import sys

import pytest

from controller import places
from eventlog.log import LogUnreadable


def test_a_log_in_a_file_loads_no_kafka_client() -> None:
    program = "import sys, controller.commands.cli; sys.exit('aiokafka' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("place", ["kafka:9092", "kafka://host/topic"])
async def test_a_place_on_kafka_that_cannot_be_meant_is_refused_by_each_opening(place: str) -> None:
    for opening in (places.open_for_writing(place, None), places.open_readonly(place)):
        with pytest.raises(LogUnreadable, match=r"does not name a log on Kafka: .*; write kafka://HOST:PORT"):
            await opening


def test_a_log_on_kafka_has_no_size_on_disk() -> None:
    with pytest.raises(LogUnreadable, match=r"is not in a file, which this command needs: write sqlite:PATH$"):
        places.size_bytes("kafka://host:9092/topic")

"""The place of a log decides its engine, and what is loaded for it."""

import subprocess
import sys

import pytest

from controller import places
from eventlog.log import LogUnreadable

LOADS = """
import sys
from controller.commands.cli import COMMANDS, main
for name in sys.argv[2:] or COMMANDS:
    main.get_command(None, name)
sys.exit(sys.argv[1] in sys.modules)
"""


def loads(module: str, *commands: str) -> bool:
    """Say whether the commands, or all of them, load the module with themselves."""
    return bool(subprocess.run([sys.executable, "-c", LOADS, module, *commands], check=False).returncode)


def test_a_log_in_a_file_loads_no_kafka_client() -> None:
    assert loads("sqlite3")
    assert not loads("aiokafka")


@pytest.mark.parametrize("library", ["kubernetes_asyncio", "aiohttp", "faust"])
def test_a_question_to_a_log_loads_nothing_of_a_controller(library: str) -> None:
    assert not loads(library, "audit", "import", "replay", "verify", "copy")


def test_a_controller_loads_its_client() -> None:
    assert loads("kubernetes_asyncio", "run")


@pytest.mark.parametrize("place", ["kafka:9092", "kafka://host/topic"])
async def test_a_place_on_kafka_that_cannot_be_meant_is_refused_by_each_opening(place: str) -> None:
    for opening in (places.open_for_writing(place, None), places.open_readonly(place)):
        with pytest.raises(LogUnreadable, match=r"does not name a log on Kafka: .*; write kafka://HOST:PORT"):
            await opening


def test_a_log_on_kafka_has_no_size_on_disk() -> None:
    with pytest.raises(LogUnreadable, match=r"is not in a file, which this command needs: write sqlite:PATH$"):
        places.size_bytes("kafka://host:9092/topic")

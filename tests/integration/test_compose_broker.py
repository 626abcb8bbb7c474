"""The broker's settings in compose.yaml make a real broker a real place for a log; only its addresses are changed."""

import re
import socket
from pathlib import Path

import pytest
import yaml

from tests.controller.bad_input import output
from tests.integration.broker.broker import READY_S, lasting_port
from tests.integration.broker.build import BuildError
from tests.integration.broker.runtime import SMALL, find_runtime

pytestmark = pytest.mark.integration
COMPOSE = Path(__file__).parents[2] / "compose.yaml"


def settings(environment: dict[str, object], folder: Path, ports: dict[int, int]) -> str:
    """Give the settings that the image makes of the environment: KAFKA_LOG_DIRS is log.dirs."""
    lines = []
    for name, value in environment.items():
        if name.startswith("KAFKA_"):
            text = re.sub(
                r"(?<=[:@/])(kafka|localhost)?:(\d+)", lambda at: f"127.0.0.1:{ports[int(at[2])]}", str(value)
            )
            lines.append(f"{name.removeprefix('KAFKA_').lower().replace('_', '.')}={text}")
    return "\n".join(lines).replace("/var/lib/kafka/data", str(folder / "data")) + "\n"


async def test_the_broker_of_compose_keeps_a_log(tmp_path: Path) -> None:
    service = yaml.safe_load(COMPOSE.read_text())["services"]["kafka"]
    ports = {port: lasting_port() for port in (9092, 19092, 19093)}
    path = tmp_path / "server.properties"
    path.write_text(settings(service["environment"], tmp_path, ports))
    try:
        runtime = find_runtime(tmp_path, SMALL)
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)
    runtime.run("kafka.tools.StorageTool", "format", "-t", service["environment"]["CLUSTER_ID"], "-c", str(path))

    def answers() -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", ports[9092])) == 0

    try:
        runtime.start("kafka.Kafka", str(path))
        runtime.wait_ready(answers, READY_S)
        for port in (9092, 19092):
            place = f"kafka://127.0.0.1:{ports[port]}/cliquelog"
            await output("topics", "create", place, "--partitions=24", "--replication-factor=1", code=0)
            assert (await output("verify", place, code=0)).startswith("records     0 in 24 partitions")
    finally:
        runtime.kill()

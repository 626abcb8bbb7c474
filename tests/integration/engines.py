"""The two engines, each on the log that it is for, as options of a controller process."""

from pathlib import Path

import msgspec
import pytest

from eventlog.kafka import KafkaPlace
from tests.integration.broker.logs import make_log
from tests.integration.controllers import Controller, Surroundings

PARTITIONS = 24
LEADS = ("--leader-election-enabled",)


class Engine(msgspec.Struct, frozen=True):
    """How to start a controller with it. `place` is where its log is."""

    name: str
    place: str
    options: tuple[str, ...]

    def controller(self, sandbox: Surroundings, output: Path, *options: str) -> Controller:
        """Make a controller process, not started yet; its output lies beside `output`."""
        return Controller(sandbox, output, *self.options, *options, place=self.place)


async def faust_on(place: KafkaPlace) -> Engine:
    """Make a log at the place, for workers of one group of which one leads."""
    await make_log(place, PARTITIONS)
    group = f"group-of-{place.topic}"
    url = f"kafka://{','.join(place.servers)}/{place.topic}"
    return Engine("faust", url, ("--engine", "faust", "--group", group, *LEADS))


@pytest.fixture(params=["embedded", "faust"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    """Each of the engines."""
    if request.param == "embedded":
        return Engine("embedded", f"sqlite:{tmp_path / 'log.sqlite'}", ())
    return await faust_on(request.getfixturevalue("new_place")())

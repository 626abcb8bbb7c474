"""Settings for all tests, and the broker that they share."""

import os
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from hypothesis import Phase, settings

from eventlog.kafka import KafkaPlace
from tests.integration.broker.broker import Broker, running
from tests.integration.broker.build import BuildError

settings.register_profile("default", settings(deadline=None))
settings.register_profile("noshrink", settings(deadline=None, phases=(Phase.explicit, Phase.generate)))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker for all tests of the session. Where none can run the test fails: a skip proves nothing."""
    try:
        with running(tmp_path_factory.mktemp("broker")) as started:
            yield started
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def new_place(request: pytest.FixtureRequest) -> Callable[[], KafkaPlace]:
    """Give a maker of places for logs that nobody has used: on the broker that `CLIQUELOG_KAFKA` names, or ours."""
    server = os.environ.get("CLIQUELOG_KAFKA") or request.getfixturevalue("broker").server

    def make() -> KafkaPlace:
        name = f"cliquelog-test-{uuid4().hex[:12]}"
        return KafkaPlace(tuple(server.split(",")), name, f"{name}.snapshots")

    return make

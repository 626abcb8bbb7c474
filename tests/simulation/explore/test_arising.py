"""What arises without being drawn is counted: from the store while a run lasts, and from the log at its end."""

from itertools import count

from eventlog import codec
from eventlog.event import Event
from eventlog.events import DaemonPodGone, RelistBegan
from eventlog.record import Record
from kube.clock import SystemClock
from kube.names import PODS
from simulation.explore.arising import ADDRESS, BURST, DELETION, RELIST, Arising
from simulation.explore.trace import Trace
from simulation.store import Store


class Rig:
    """A store with pods, and a time that is set by hand."""

    def __init__(self) -> None:
        self.ms = 0
        numbers = count()
        self.store = Store((PODS,), (), SystemClock(), lambda: f"uid-{next(numbers)}")
        self.trace = Trace(lambda: self.ms / 1000)
        self.arising = Arising(self.trace, self.store, lambda: self.ms)

    def pod(self, name: str, ip: str = "") -> None:
        """Make a pod, with or without an address."""
        status = {"podIP": ip} if ip else {}
        self.store.create(PODS, "ns", {"metadata": {"name": name}, "status": status})

    def judge(self, *events: tuple[int, Event]) -> dict[str, int]:
        """Give what is counted once the log holds these events, each with its time in milliseconds."""
        for at_ms, event in events:
            entry = codec.entry("key", event, timestamp_ms=at_ms, controller="one")
            self.arising.judge([Record("t", 0, 0, entry.key, entry.timestamp_ms, entry.headers, entry.value)])
        return dict(self.trace.faults)


def test_an_address_that_another_pod_gets() -> None:
    rig = Rig()
    rig.pod("one", "ip")
    rig.pod("none")
    rig.pod("other", "ip-2")
    assert rig.judge() == {}
    rig.pod("next", "ip")
    assert rig.judge() == {ADDRESS: 1}


def test_a_deletion_that_a_list_proved() -> None:
    assert Rig().judge((0, DaemonPodGone("d", "n", "u", 1))) == {}
    assert Rig().judge((0, DaemonPodGone("d", "n", "u", 1, inferred="a list"))) == {DELETION: 1}


def test_a_relist_among_many_changes() -> None:
    rig = Rig()
    for number in range(BURST - 1):
        rig.pod(f"pod-{number}")
    assert rig.judge((0, RelistBegan("pods", "watch gap"))) == {}
    rig.pod("the last of a burst")
    assert rig.judge((0, RelistBegan("pods", "start"))) == {}, "every start is a list"
    assert rig.judge((5_000, RelistBegan("pods", "watch gap"))) == {}, "long after"
    assert rig.judge((900, RelistBegan("pods", "watch gap"))) == {RELIST: 1}

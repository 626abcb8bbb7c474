"""Where a node belongs when its label and its daemon disagree: the daemon has its word from the driver."""

from controller.observing.normaliser import Keyed, Normaliser
from eventlog.events import DaemonPodSeen, NodeGone, NodeSeen

LABEL, FABRIC = "fabric.9", "fabric.1"


def labelled(version: int, clique: str) -> NodeSeen:
    return NodeSeen("n0", "node-uid", version, clique, "cd-uid")


def daemon(version: int, clique: str) -> DaemonPodSeen:
    return DaemonPodSeen("cd-uid", "n0", "driver", "pod", "pod-uid", version, clique, "10.0.0.1", undecided=not clique)


def cliques(events: list[Keyed]) -> dict[str, str]:
    """Give what the last of the events about the node says under each clique: `here` or `gone`."""
    told = {key: event for key, event in events if "." in key and isinstance(event, NodeSeen | NodeGone)}
    return {key: "gone" if isinstance(event, NodeGone) else "here" for key, event in told.items()}


def test_a_node_moves_to_the_clique_that_its_daemon_says_and_stays_there_while_the_daemon_does() -> None:
    normaliser = Normaliser()
    assert cliques(normaliser.observe(labelled(1, LABEL))) == {LABEL: "here"}
    assert cliques(normaliser.observe(daemon(2, ""))) == {}
    assert cliques(normaliser.observe(daemon(3, FABRIC))) == {LABEL: "gone", FABRIC: "here"}
    assert cliques(normaliser.observe(labelled(4, LABEL))) == {FABRIC: "here"}, "the label is no new word on the clique"


def test_a_label_that_comes_after_the_daemon_said_another_clique_changes_nothing() -> None:
    normaliser = Normaliser()
    normaliser.observe(daemon(1, FABRIC))
    assert cliques(normaliser.observe(labelled(2, LABEL))) == {FABRIC: "here"}


def test_without_a_daemon_that_says_its_clique_the_label_counts() -> None:
    normaliser = Normaliser()
    normaliser.observe(daemon(1, ""))
    normaliser.observe(labelled(2, LABEL))
    assert cliques(normaliser.observe(labelled(3, FABRIC))) == {LABEL: "gone", FABRIC: "here"}

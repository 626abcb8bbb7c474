"""What a complete list proved may be recorded late, and addresses are used again: neither harms a living daemon."""

from eventlog.events import (
    CdcSeen,
    DaemonPodGone,
    DaemonPodSeen,
    DaemonSetSeen,
    DomainSeen,
    NodeGone,
    NodeSeen,
    Row,
)
from projections.clique import CliqueState
from projections.desired import desired_rows
from projections.fold import apply
from projections.index import apply_decision, propose
from tests.projections.world import CLIQUE, SETTINGS, WRITER

BEGIN = (
    DomainSeen(WRITER, 1, "ns", "job", "template", "Single"),
    DaemonSetSeen(WRITER, "ds", 2, "driver", "ds"),
)


def fold(*events: object, state: CliqueState | None = None) -> CliqueState:
    """Fold the events, and take in what is then proposed."""
    for event in events:
        folded = apply(state, CLIQUE, event)  # type: ignore[arg-type]
        assert isinstance(folded, CliqueState)
        state = folded
    assert state is not None
    for decision in propose(state, SETTINGS):
        state = apply_decision(state, decision)
    return state


def cdc(version: int, row: Row) -> CdcSeen:
    return CdcSeen(WRITER, CLIQUE, "driver", f"{WRITER}.{CLIQUE}", "cdc", version, (row,))


def pod(uid: str, version: int, ip: str = "", *, terminating: bool = False) -> DaemonPodSeen:
    return DaemonPodSeen(WRITER, "n0", "driver", uid, uid, version, CLIQUE, ip, terminating=terminating)


def test_a_proof_about_an_earlier_daemons_row_does_not_touch_its_successors() -> None:
    before = fold(*BEGIN, cdc(40, Row("n0", "old", 0)))
    now = fold(
        cdc(60, Row("n0", "new", 0)), DaemonPodGone(WRITER, "n0", "", 50, inferred="a list", ip="old"), state=before
    )
    assert desired_rows(now, WRITER) == {"n0": Row("n0", "new", 0)}
    assert now.domains[WRITER].holdings["n0"].active


def test_a_row_under_an_address_that_is_used_again_stands_before_the_kubelet_publishes_it() -> None:
    lived = fold(*BEGIN, NodeSeen("n0", "u", 3, CLIQUE, WRITER), pod("p1", 4, "ip"), cdc(10, Row("n0", "ip", 0)))
    gone = fold(
        pod("p1", 11, "ip", terminating=True), DaemonPodGone(WRITER, "n0", "p1", 12), pod("p2", 13), state=lived
    )
    again = fold(cdc(14, Row("n0", "ip", 0)), state=gone)
    assert desired_rows(again, WRITER) == {"n0": Row("n0", "ip", 0)}
    assert again.domains[WRITER].holdings["n0"].index == 0


def test_the_row_of_a_pod_that_got_a_new_sandbox_goes_with_the_pod() -> None:
    lived = fold(*BEGIN, NodeSeen("n0", "u", 3, CLIQUE, WRITER), pod("p1", 4, "old"), cdc(10, Row("n0", "old", 0)))
    gone = fold(
        pod("p1", 11, "new"),
        DaemonPodGone(WRITER, "n0", "p1", 12),
        NodeGone("n0", "u", 13, "unlabelled"),
        state=lived,
    )
    assert desired_rows(gone, WRITER) == {}
    assert not gone.domains[WRITER].holdings["n0"].active


def test_a_pod_that_is_told_of_late_does_not_stand_for_the_living_one() -> None:
    living = pod("p2", 63, "new")
    now = fold(*BEGIN, NodeSeen("n0", "u", 3, CLIQUE, WRITER), living, cdc(64, Row("n0", "new", 0)))
    late = fold(pod("p1", 22, "old"), state=now)
    assert desired_rows(late, WRITER) == {"n0": Row("n0", "new", 0)}
    assert desired_rows(fold(DaemonPodGone(WRITER, "n0", "p1", 37), state=late), WRITER) == {"n0": Row("n0", "new", 0)}


def test_an_old_row_of_a_reader_takes_no_index_from_the_node_that_got_it_since() -> None:
    """The CDC was not seen again since: the address in its row is in use again, by a daemon that only reads."""

    def reader(node: str, uid: str, version: int, ip: str) -> DaemonPodSeen:
        return DaemonPodSeen(WRITER, node, "driver", uid, uid, version, CLIQUE, ip, reader=True)

    domain = (BEGIN[0], DaemonSetSeen(WRITER, "ds", 2, "driver", "ds", 1, reader=True))
    lived = fold(
        *domain, NodeSeen("n0", "u0", 3, CLIQUE, WRITER), reader("n0", "p1", 4, "ip"), cdc(10, Row("n0", "ip", 0))
    )
    left = fold(NodeGone("n0", "u0", 11, "unlabelled"), DaemonPodGone(WRITER, "n0", "p1", 12), state=lived)
    other = fold(NodeSeen("n1", "u1", 13, CLIQUE, WRITER), reader("n1", "p2", 14, "other"), state=left)
    back = fold(NodeSeen("n0", "u0", 15, CLIQUE, WRITER), reader("n0", "p3", 16, "ip"), state=other)
    held = {node: one.index for node, one in back.domains[WRITER].holdings.items() if one.active}
    assert held == {"n1": 0}

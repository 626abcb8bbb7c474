"""A daemon of the upstream driver chooses its index anew in each life and gets its address again: what it chose stands.

The events come as they do where watches lag: the clique's before the pod's, and the ends of pods that nobody saw.
"""

from msgspec.structs import replace

from eventlog.events import CdcGone, DaemonPodGone, NodeGone, NodeSeen, Row
from projections.desired import desired_rows
from tests.projections.test_late_conclusions import BEGIN, cdc, fold, pod
from tests.projections.world import CLIQUE, WRITER

A_LIST = "a complete list does not hold it"
NODE = NodeSeen("n0", "u", 3, CLIQUE, WRITER)
BEFORE, AFTER = Row("n0", "ip", 0), Row("n0", "ip", 1)


def test_the_next_life_is_known_before_the_end_of_the_last() -> None:
    lived = fold(*BEGIN, NODE, pod("p1", 4, "ip"), cdc(10, BEFORE))
    relisted = fold(
        cdc(20, AFTER), pod("p2", 19, "ip"), DaemonPodGone(WRITER, "n0", "p1", 21, inferred=A_LIST), state=lived
    )
    assert desired_rows(relisted, WRITER) == {"n0": AFTER}


def test_a_next_life_that_was_shown_the_same_index_keeps_it() -> None:
    lived = fold(*BEGIN, NODE, pod("p1", 4, "ip"), cdc(10, BEFORE))
    again = fold(
        cdc(24, BEFORE), pod("p2", 19, "ip"), DaemonPodGone(WRITER, "n0", "p1", 21, inferred=A_LIST), state=lived
    )
    assert desired_rows(fold(cdc(25, AFTER), state=again), WRITER) == {"n0": BEFORE}, "the row was put wrong"


def test_a_row_went_whose_pod_was_never_seen() -> None:
    shown = fold(*BEGIN, NODE, cdc(10, BEFORE))
    went = fold(replace(cdc(12, BEFORE), rows=()), pod("p2", 15, "ip"), state=shown)
    assert desired_rows(fold(cdc(16, AFTER), state=went), WRITER) == {"n0": AFTER}


def test_the_clique_was_deleted_and_made_anew() -> None:
    lived = fold(*BEGIN, NODE, pod("p1", 4, "ip"), cdc(10, BEFORE))
    gone = fold(CdcGone(WRITER, CLIQUE, "cdc", 11), state=lived)
    assert desired_rows(gone, WRITER) == {"n0": BEFORE}, "nobody was faster: the index is for keeps"
    anew = replace(cdc(12, AFTER), uid="another")
    assert desired_rows(fold(anew, state=gone), WRITER) == {"n0": AFTER}
    assert desired_rows(fold(anew, state=lived), WRITER) == {"n0": AFTER}, "nobody saw the deletion"


def test_a_row_that_comes_late_is_of_the_pod_that_lived_then() -> None:
    gone = fold(*BEGIN, NODE, pod("p1", 4, "ip"), DaemonPodGone(WRITER, "n0", "p1", 12), pod("p2", 14, "ip"))
    late = fold(cdc(10, BEFORE), state=gone)
    assert desired_rows(fold(cdc(16, AFTER), state=late), WRITER) == {"n0": AFTER}


def test_the_version_of_a_list_says_nothing_of_when_a_pod_ended() -> None:
    listed = DaemonPodGone(WRITER, "n0", "p1", 30, inferred=A_LIST)
    gone = fold(*BEGIN, NODE, pod("p1", 4, "ip"), pod("p2", 14, "ip"), listed)
    shown = fold(cdc(16, AFTER), state=gone)
    assert shown.domains[WRITER].holdings["n0"].shown_to == "ip"
    assert desired_rows(shown, WRITER) == {"n0": AFTER}


def test_a_pod_that_has_no_address_yet_has_outlived_the_one_that_was_shown_the_index() -> None:
    shown = fold(*BEGIN, NODE, cdc(10, BEFORE))
    outlived = fold(pod("p2", 12), pod("p2", 14, "ip"), state=shown)
    assert desired_rows(fold(cdc(16, AFTER), state=outlived), WRITER) == {"n0": AFTER}
    early = fold(pod("p2", 8), pod("p2", 14, "ip"), state=shown)
    assert desired_rows(fold(cdc(16, AFTER), state=early), WRITER) == {"n0": BEFORE}, "the row was its own"


def test_an_end_that_is_told_twice_does_not_forget_the_address() -> None:
    lived = fold(*BEGIN, NODE, pod("p1", 4, "ip"), cdc(10, BEFORE))
    moved = DaemonPodGone(WRITER, "n0", "p1", 11, "moved")
    left = fold(moved, NodeGone("n0", "u", 11, "moved"), state=lived)
    told_again = fold(replace(cdc(12, BEFORE), position="0/7"), moved, state=left)
    assert desired_rows(told_again, WRITER) == {}

"""Each rule finds what it is for, and keeps quiet where it looks alike."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from controller.history.auditing import Audit, audit
from eventlog import codec
from eventlog.event import Provenance
from eventlog.events import (
    AnyEvent,
    CdcGone,
    CdcSeen,
    DaemonPodGone,
    DaemonPodSeen,
    DaemonSetSeen,
    DomainGone,
    DomainSeen,
    ImportCompleted,
    IndexAdopted,
    IndexAssigned,
    IndexRefused,
    IndexReleased,
    NodeGone,
    NodeSeen,
    RelistBegan,
    RelistCompleted,
    Row,
    WatchGap,
    WriteAnswered,
)
from eventlog.memory import MemoryLog
from projections.audit.findings import rules

C, OTHER = "c1.0", "c2.0"
Step = AnyEvent | tuple[str, AnyEvent] | int
"""An event of clique C a second after the last, one under another key, or a wait in milliseconds."""


async def examined(steps: Sequence[Step]) -> Audit:
    log = MemoryLog(partitions=3)
    now = 1_000_000
    for step in steps:
        if isinstance(step, int):
            now += step
            continue
        now += 1000
        key, event = step if isinstance(step, tuple) else (C, step)
        await log.append([codec.entry(key, event, timestamp_ms=now, controller="test")])
    return await audit(log)


def cdc(version: int, *rows: Row, domain: str = "d", clique: str = C, missing: str = "", waiting: str = "") -> CdcSeen:
    provenance = Provenance("audit.log:1", inferred=missing) if missing else None
    names = tuple(waiting.split()) if waiting else ()
    return CdcSeen(
        domain, clique, "driver", f"{domain}.{clique}", f"cdc-{domain}", version, rows, names, provenance=provenance
    )


def pod(version: int, node: str = "a", uid: str = "p", ip: str = "1", *, terminating: bool = False) -> DaemonPodSeen:
    return DaemonPodSeen("d", node, "driver", uid, uid, version, C, ip, terminating=terminating)


def gone(version: int, node: str = "a", uid: str = "p") -> DaemonPodGone:
    return DaemonPodGone("d", node, uid, version)


def refused(code: int, node: str = "a", wait: int = 0) -> WriteAnswered:
    return WriteAnswered("d", "computedomaincliques", "driver", f"d.{C}", "update", code, C, node, wait)


def elsewhere(version: int, *rows: Row) -> CdcSeen:
    """Give a version of a clique object in another namespace, of the same name as the driver's."""
    return replace(cdc(version, *rows), namespace="old-driver", uid="cdc-other")


A0, A1, B0, B1 = Row("a", "1", 0), Row("a", "1", 1), Row("b", "2", 0), Row("b", "2", 1)
A0_NEW, A1_NEW = Row("a", "9", 0), Row("a", "9", 1)
READY = Row("a", "1", 0, "Ready")
KNOWN: tuple[Step, ...] = (
    DomainSeen("d", 1, "team", "job", "t", "Single"),
    ("d", DomainSeen("d", 1, "team", "job", "t", "Single")),
)
DONE: Step = ("watch/import", ImportCompleted(("audit.log",), 2, 0, "0.1.0"))
JOINED: tuple[Step, ...] = (*KNOWN, NodeSeen("a", "ua", 2, C, "d"), NodeSeen("b", "ub", 3, C, "d"))

FOUND: dict[str, tuple[str, Sequence[Step]]] = {
    "the index changes in place": ("index-changed", [cdc(1, A0), cdc(2, A1)]),
    "#1418: the row is out for a moment while the pod has no address": (
        "index-changed",
        [pod(1, ip=""), cdc(2, A0), cdc(3), cdc(4, B0), cdc(5, B0, A1), pod(6)],
    ),
    "two nodes with one index": ("index-held-twice", [cdc(1, A0), cdc(2, A0, B0)]),
    "an index beyond the last": ("index-out-of-range", [cdc(1, Row("a", "1", 18))]),
    "an index beyond what the DaemonSet states": (
        "index-out-of-range",
        [DaemonSetSeen("d", "ds", 1, "driver", "ds", 2), cdc(1, Row("a", "1", 2))],
    ),
    "no index": ("index-out-of-range", [cdc(1, Row("a", "1"))]),
    "the pod is seen alive afterwards": ("row-removed", [pod(1), cdc(2, A0), cdc(3), pod(4)]),
    "the pod goes afterwards": ("row-removed", [pod(1), cdc(2, A0), cdc(3), gone(4)]),
    "the pod has no address yet": ("row-removed", [pod(1, ip=""), cdc(2, A0), cdc(3), pod(4)]),
    "ready and no address": ("ready-without-address", [cdc(1, Row("a", "", 0, "Ready"))]),
    "rows in two cliques": ("node-in-two-cliques", [cdc(1, A0), (OTHER, cdc(2, A0, clique=OTHER))]),
    "back with another index": ("index-not-kept", [cdc(1, A0), cdc(2), cdc(3, B0), cdc(4, B0, A1_NEW)]),
    "pruned and back": ("row-pruned", [cdc(1, A0), cdc(2), cdc(3, A0_NEW)]),
    "two domains": ("domains-overlap", [cdc(1, A0), cdc(2, B0, domain="e")]),
    "objects in two namespaces": ("object-twice", [cdc(1, A0), elsewhere(2, B0), cdc(3, A0), elsewhere(4, B0)]),
    "a refusal of ours": (
        "clique-full",
        [*JOINED, IndexAssigned("d", "a", 0, 1), IndexRefused("d", "b", 1)],
    ),
    "the object names one that waits": ("clique-full", [cdc(1, A0, waiting="b")]),
    "four changes of readiness": (
        "readiness-flapping",
        [cdc(1, A0), cdc(2, READY), cdc(3, A0), cdc(4, READY), cdc(5, A0)],
    ),
    "a deletion that is not done": (
        "stuck-deletion",
        [("d", DomainSeen("d", 1, "team", "job", terminating=True, finalizers=("f",))), 600_000, cdc(2)],
    ),
    "a deletion that took long": (
        "stuck-deletion",
        [("d", DomainSeen("d", 1, "team", "job", terminating=True)), 600_000, ("d", DomainGone("d", 2))],
    ),
    "ten conflicts": ("conflict-storm", [refused(409) for _ in range(10)]),
    "told to wait": ("throttled", [refused(429, wait=30)]),
    "a wait until the row came": ("write-delayed", [cdc(1), refused(409), refused(409), cdc(2, A0)]),
    "a mark": ("visibility-gap", [("watch/pods", WatchGap("pods", 1, "too old"))]),
    "a version is missing": ("visibility-gap", [cdc(1, A0), cdc(3, A0, B1, missing="1 change is missing"), DONE]),
    "an import that broke off": ("visibility-gap", [replace(cdc(1, A0), provenance=Provenance("audit.log:1"))]),
    "a decision too late": (
        "decision-without-effect",
        [*JOINED, IndexAssigned("d", "a", 0, 18), IndexAssigned("d", "b", 0, 18)],
    ),
}

QUIET: dict[str, tuple[str, Sequence[Step]]] = {
    "another daemon has the address now": ("index-changed", [pod(1), cdc(2, A0), gone(3), cdc(4, A1)]),
    "only the readiness changes": ("index-changed", [cdc(1, A0), cdc(2, READY)]),
    "an index passes from one to the other": ("index-held-twice", [cdc(1, A0), cdc(2, B0)]),
    "the pod went before, and its deletion is told later": (
        "row-removed",
        [pod(1), cdc(2, A0), cdc(4), gone(3)],
    ),
    "the pod was terminating": ("row-removed", [pod(1), cdc(2, A0), pod(3, terminating=True), cdc(4), gone(5)]),
    "the row of a pod of another address": ("row-removed", [pod(1, ip="7"), cdc(2, A0), cdc(3), pod(4, ip="7")]),
    "the node moved": ("node-in-two-cliques", [cdc(1, A0), cdc(2), (OTHER, cdc(3, A0, clique=OTHER))]),
    "back with its own index": ("index-not-kept", [cdc(1, A0), cdc(2), cdc(3, A0_NEW)]),
    "it left the domain and joined again": (
        "row-pruned",
        [*JOINED, cdc(4, A0), NodeGone("a", "ua", 5), cdc(6), NodeSeen("a", "ua", 7, C, "d"), cdc(8, A0_NEW)],
    ),
    "one domain after the other": ("domains-overlap", [cdc(1, A0), cdc(2), cdc(3, B0, domain="e")]),
    "an index for both": (
        "clique-full",
        [*JOINED, IndexAssigned("d", "a", 0, 18), IndexAssigned("d", "b", 1, 18)],
    ),
    "ready once": ("readiness-flapping", [cdc(1, A0), cdc(2, READY), cdc(3, A0)]),
    "slow changes of readiness": (
        "readiness-flapping",
        [cdc(1, A0), cdc(2, READY), 40_000, cdc(3, A0), cdc(4, READY), 40_000, cdc(5, A0)],
    ),
    "a quick deletion": (
        "stuck-deletion",
        [("d", DomainSeen("d", 1, "team", "job", terminating=True)), ("d", DomainGone("d", 2)), 600_000, cdc(3)],
    ),
    "an import that came to its end": (
        "visibility-gap",
        [replace(cdc(1, A0), provenance=Provenance("audit.log:1")), DONE],
    ),
    "nine conflicts": ("conflict-storm", [refused(409) for _ in range(9)]),
    "conflicts now and then": ("conflict-storm", [step for _ in range(20) for step in (refused(409), 60_000)]),
    "conflicts alone": ("throttled", [refused(409)]),
    "a decision in time": ("decision-without-effect", [*JOINED, IndexAssigned("d", "a", 0, 18)]),
}


@pytest.mark.parametrize("name", FOUND)
async def test_it_is_found_once(name: str) -> None:
    code, steps = FOUND[name]
    (one,) = [one for one in (await examined(steps)).findings if one.code == code]
    assert one.records
    assert one.message


@pytest.mark.parametrize("name", QUIET)
async def test_what_looks_alike_is_not_found(name: str) -> None:
    code, steps = QUIET[name]
    assert [one for one in (await examined(steps)).findings if one.code == code] == []


def test_every_rule_is_tried() -> None:
    assert {code for code, _ in FOUND.values()} == {rule.code for rule in rules()}


async def test_a_removal_is_inferred_if_the_pods_deletion_may_be_missing() -> None:
    (one,) = [f for f in (await examined([pod(1), cdc(2, A0), cdc(3)])).findings if f.code == "row-removed"]
    assert "no later word of the pod" in one.inferred


# --- holdings of our own logs ---


async def test_a_decision_and_the_row_that_shows_it_are_one_holding() -> None:
    found = await examined([*JOINED, IndexAssigned("d", "a", 3, 18, "never used"), cdc(7, Row("a", "", 3)), cdc(8)])
    (held,) = found.holdings
    assert (held.node, held.index, held.begin.cause, held.end) == ("a", 3, "assigned (never used)", None)
    assert (held.first_version, held.begin.position.offset) == (7, 3)


async def test_a_release_ends_a_holding_and_the_version_without_the_row_is_told() -> None:
    row = Row("a", "", 3)
    left: list[Step] = [NodeGone("a", "ua", 8), IndexReleased("d", "a", 3, "no label, no daemon"), cdc(9)]
    (held,) = (await examined([*JOINED, IndexAssigned("d", "a", 3, 18), cdc(7, row), *left])).holdings
    assert held.end is not None
    assert (held.end.cause, held.end_version) == ("released (no label, no daemon)", 9)
    assert held.end.position.offset == 6


async def test_a_row_that_was_there_first_and_its_adoption_are_one_holding() -> None:
    (held,) = (await examined([*JOINED, cdc(5, A0), IndexAdopted("d", "a", 0, 18)])).holdings
    assert (held.begin.cause, held.first_version, held.end) == ("row written", 5, None)


async def test_a_decision_without_effect_begins_no_holding() -> None:
    found = await examined([*JOINED, IndexAssigned("d", "a", 0, 18), IndexAssigned("d", "b", 0, 18)])
    assert [one.node for one in found.holdings] == ["a"]


async def test_the_deletion_of_the_object_and_of_the_domain_end_what_rows_alone_began() -> None:
    deleted = (await examined([cdc(1, A0), CdcGone("d", C, "cdc-d", 2)])).holdings[0]
    ended = (await examined([*KNOWN, cdc(2, A0), DomainGone("d", 3)])).holdings[0]
    assert deleted.end is not None
    assert ended.end is not None
    assert (deleted.end.cause, deleted.end_version) == ("clique object deleted", 2)
    assert (ended.end.cause, ended.end_version) == ("domain deleted", None)


async def test_another_object_of_that_name_ends_the_holdings_of_the_one_before() -> None:
    other = CdcSeen("d", C, "driver", f"d.{C}", "cdc-other", 5, (A0,))
    first, second = (await examined([cdc(1, A0), other])).holdings
    assert first.end is not None
    assert second.end is None
    assert "another object" in first.inferred[0]


async def test_a_holding_across_a_missing_version_is_inferred() -> None:
    (a, b) = (await examined([cdc(1, A0), cdc(3, A0, B1, missing="1 change is missing")])).holdings
    assert a.inferred == ("across: 1 change is missing",)
    assert b.inferred == ("its begin: 1 change is missing",)


def gap(*, ends: bool = True) -> list[Step]:
    """Give a gap of the watch on clique objects, and the list after it."""
    marks: list[Step] = [("watch/computedomaincliques", WatchGap("computedomaincliques", 1, "410"))]
    if ends:
        marks.append(("watch/computedomaincliques", RelistCompleted("computedomaincliques", 9, 1)))
    return marks


async def test_what_rows_alone_say_across_a_gap_of_the_watch_is_inferred() -> None:
    began, ended = gap()
    (a, b, c) = (await examined([cdc(1, A0), cdc(2, A0, B1), began, cdc(5, A0, Row("c", "3", 2)), ended])).holdings
    assert a.inferred == ("across: the watch had a gap while it lasted",)
    assert [reason.partition(":")[0] for reason in b.inferred] == ["across", "its end"]
    assert [reason.partition(":")[0] for reason in c.inferred] == ["its begin"]


async def test_what_a_decision_gave_and_what_was_seen_after_the_list_is_not() -> None:
    given: list[Step] = [*JOINED, IndexAssigned("d", "a", 0, 18), *gap(), cdc(9, Row("a", "", 0))]
    assert [one.inferred for one in (await examined(given)).holdings] == [()]
    later = (await examined([*gap(), cdc(9, A0)])).holdings
    assert [one.inferred for one in later] == [()]


def listing(cause: str) -> list[Step]:
    """Give the marks of a complete list."""
    key, resource = "watch/computedomaincliques", "computedomaincliques"
    return [(key, RelistBegan(resource, cause)), (key, RelistCompleted(resource, 9, 1))]


async def test_nobody_watched_before_the_list_of_a_controller_that_was_started_anew() -> None:
    first, last = listing("start"), listing("start")
    rows = [first[0], cdc(1, A0, B1), first[1], last[0], cdc(5, A0, Row("c", "3", 2)), last[1]]
    (a, b, c) = (await examined(rows)).holdings
    assert [reason.partition(":")[0] for reason in a.inferred] == ["across", "its begin"]
    assert [reason.partition(":")[0] for reason in b.inferred] == ["across", "its begin", "its end"]
    assert c.inferred == ("its begin: it was first seen in a list, at the start or after a gap of the watch",)
    given: list[Step] = [*first, *JOINED, IndexAssigned("d", "a", 0, 18), *last, cdc(9, Row("a", "", 0))]
    assert [one.inferred for one in (await examined(given)).holdings] == [()]


async def test_a_first_list_that_had_to_be_begun_again_is_no_gap() -> None:
    began, completed = listing("start")
    (one,) = (await examined([began, began, cdc(1, A0), completed])).holdings
    assert [reason.partition(":")[0] for reason in one.inferred] == ["its begin"]


async def test_a_gap_that_no_list_has_ended_goes_on() -> None:
    (one,) = (await examined([*gap(ends=False), cdc(9, A0)])).holdings
    assert one.inferred


def told(*steps: CdcSeen | CdcGone) -> list[Step]:
    """Give the events as an import that came to its end."""
    return [*(replace(step, provenance=Provenance("audit.log:1")) for step in steps), DONE]


async def test_of_two_objects_in_two_namespaces_an_import_follows_the_first() -> None:
    found = await examined(told(cdc(1, A0), elsewhere(2, B0), cdc(3, A0), elsewhere(4, B0), cdc(5, A0)))
    assert [(one.code, one.domain) for one in found.findings] == [("object-twice", "d")]
    assert [str(one.position)[-2:] for one in found.findings[0].records] == ["/0", "/1"]
    assert "is in namespace old-driver" in found.findings[0].message
    assert [(one.node, one.end) for one in found.holdings] == [("a", None)]


async def test_when_the_first_of_two_objects_is_gone_the_other_counts() -> None:
    found = await examined(told(cdc(1, A0), elsewhere(2, B0), CdcGone("d", C, "cdc-d", 3), elsewhere(4, B0)))
    assert [(one.node, one.end is None) for one in found.holdings] == [("a", False), ("b", True)]
    assert [one.code for one in found.findings] == ["object-twice"]


async def test_what_our_controller_decided_by_the_second_of_two_objects_has_its_effect() -> None:
    steps = [*JOINED, cdc(4, A0), IndexAdopted("d", "a", 0, 18), elsewhere(5, B1), IndexAdopted("d", "b", 1, 18)]
    found = await examined(steps)
    assert [one.code for one in found.findings] == ["object-twice"]
    assert {(one.node, one.index) for one in found.holdings if one.decided} == {("a", 0), ("b", 1)}


async def test_an_object_made_anew_in_another_namespace_is_no_second_one() -> None:
    found = await examined([cdc(1, A0), CdcGone("d", C, "cdc-d", 2), elsewhere(3, A0)])
    assert "object-twice" not in {one.code for one in found.findings}


LOST: Step = ("watch/import", WatchGap("import", 0, "a line was not understood", provenance=Provenance("audit.log:2")))
LIST: tuple[Step, ...] = (
    ("watch/computedomaincliques", RelistBegan("computedomaincliques", "start")),
    ("watch/computedomaincliques", RelistCompleted("computedomaincliques", 9, 1)),
)


@pytest.mark.parametrize(
    ("steps", "reasons"),
    [
        (
            [cdc(1, A0), 5000, LOST, LOST],
            ("still held: a line is lost 6.0 s after the last version that shows it, and may have told its end",),
        ),
        ([LOST, cdc(1, A0)], ()),
        ([cdc(1, A0), LOST, cdc(2, A0, B0)], ()),
        ([cdc(1, A0), LOST, cdc(1, A0)], ()),
        ([*JOINED, IndexAssigned("d", "a", 0, 18), cdc(4, A0), LOST], ()),
    ],
    ids=["last shown before", "lost before", "shown since", "told again", "decided"],
)
async def test_that_a_holding_lasts_is_inferred_after_a_lost_line(
    steps: Sequence[Step], reasons: tuple[str, ...]
) -> None:
    held = [one for one in (await examined(steps)).holdings if one.node == "a"]
    assert [one.inferred for one in held] == [reasons]


async def test_a_list_after_a_lost_line_proves_that_a_holding_lasts() -> None:
    (one,) = (await examined([cdc(1, A0), LOST, *LIST])).holdings
    assert not [reason for reason in one.inferred if reason.startswith("still held")]

"""Why a node is not ready: each missing step, told from the records that a log holds by then."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from controller.history import explaining
from eventlog import codec
from eventlog.event import Provenance
from eventlog.events import (
    AnyEvent,
    CdcSeen,
    Condition,
    DaemonPodGone,
    DaemonPodSeen,
    DaemonSetSeen,
    DomainGone,
    DomainNode,
    DomainSeen,
    IndexAssigned,
    IndexRefused,
    NodeGone,
    NodeSeen,
    RelistCompleted,
    Row,
    WatchGap,
    WriteAnswered,
)
from eventlog.memory import MemoryLog
from projections.audit.situation import Delay, Pending
from projections.audit.why import Explanation, explain

CLIQUE = "4d1f3a9e-8a64-4d0a-9f0e-1c35f0c6b001.7"
OTHER = "4d1f3a9e-8a64-4d0a-9f0e-1c35f0c6b001.8"
DOMAIN = "d0"
CDC = f"{DOMAIN}.{CLIQUE}"

DOCUMENT = Path(__file__).parents[2] / "docs" / "why.md"

Keyed = tuple[str, AnyEvent]


def both(event: AnyEvent) -> list[Keyed]:
    return [(CLIQUE, event), (DOMAIN, event)]


def cd(version: int = 1, **more: object) -> list[Keyed]:
    return both(DomainSeen(DOMAIN, version, "team", "train", "template", "Single", **more))  # type: ignore[arg-type]


def daemon_set(*, reader: bool = True) -> list[Keyed]:
    return both(DaemonSetSeen(DOMAIN, "ds", 2, "driver", "daemons", 18, reader=reader))


def label(node: str = "n0", version: int = 10) -> list[Keyed]:
    return both(NodeSeen(node, f"u-{node}", version, CLIQUE, DOMAIN))


def index(node: str = "n0", number: int = 0) -> list[Keyed]:
    return [(CLIQUE, IndexAssigned(DOMAIN, node, number, 18, "never used"))]


def pod(version: int, ip: str = "", uid: str = "p0", name: str = "daemon-0", **more: bool) -> list[Keyed]:
    more = {"reader": True} | more
    return both(DaemonPodSeen(DOMAIN, "n0", "driver", name, uid, version, CLIQUE, ip, **more))


def cdc(version: int, *rows: Row) -> list[Keyed]:
    return both(CdcSeen(DOMAIN, CLIQUE, "driver", CDC, "cdc", version, rows))


def row(ip: str = "", status: str = "NotReady", number: int | None = 0) -> Row:
    return Row("n0", ip, number, status)


MADE = [*cd(), *daemon_set()]
INDEXED = [*MADE, *label(), *index()]
RUNNING = [*INDEXED, *cdc(15, row()), *pod(20)]
ADDRESSED = [*RUNNING, *pod(21, "10.0.0.1")]
READY = [*ADDRESSED, *cdc(22, row("10.0.0.1")), *pod(23, "10.0.0.1", ready=True)]
DONE = [*READY, *cdc(24, row("10.0.0.1", "Ready"))]


async def told(
    history: Sequence[Keyed], subject: str = "n0", *, pending: Pending | None = None, until_ms: int | None = None
) -> Explanation:
    """Explain it after these records, which come one a second from second 1 on."""
    log = MemoryLog(partitions=3)
    for number, (key, event) in enumerate(history, 1):
        await log.append([codec.entry(key, event, timestamp_ms=number * 1000, controller="test")])
    found = await explaining.situation(log, subject, until_ms)
    return explain(msgspec.structs.replace(found, pending=pending))


FULL = [*MADE, *label("n1"), *index("n1"), *label(), (CLIQUE, IndexRefused(DOMAIN, "n0", 1))]
UNLABELLED = [*INDEXED, *both(NodeGone("n0", "u-n0", 11, "unlabelled or deleted"))]
REFUSED = both(WriteAnswered(DOMAIN, "computedomaincliques", "driver", CDC, "update", 409, CLIQUE, "n0"))
THROTTLED = both(WriteAnswered(DOMAIN, "computedomaincliques", "driver", CDC, "update", 429, CLIQUE, "n0", 30))
WRITTEN_BY_DAEMONS = [*cd(), *daemon_set(reader=False), *label(), *pod(20, reader=False)]


@pytest.mark.parametrize(
    ("history", "code", "part"),
    [
        ([], "unknown", "no record speaks of n0"),
        (label(), "domain-unknown", "no ComputeDomain with the UID d0 was seen"),
        ([(DOMAIN, NodeSeen("n0", "u", 10, "", DOMAIN)), *cd()], "no-clique", "the clique of node n0 is not known"),
        ([*INDEXED, *cd(30, terminating=True)], "domain-terminating", "team/train is being deleted"),
        ([*INDEXED, *both(DomainGone(DOMAIN, 30))], "domain-gone", "is gone"),
        (UNLABELLED, "no-label", "node n0 does not carry the ComputeDomain's label"),
        (FULL, "clique-full", "its indices are held by 1 node, and node n0 is number 1 in the line"),
        ([*MADE, *label()], "no-index", "node n0 has no index yet"),
        ([*cd(), *label(), *index()], "no-daemon-set", "team/train has no DaemonSet"),
        (INDEXED, "no-pod", "there is no daemon pod of the ComputeDomain team/train on node n0"),
        ([*DONE, *pod(30, "10.0.0.1", terminating=True)], "pod-terminating", "is being deleted"),
        (RUNNING, "no-address", "the kubelet has not published one"),
        (ADDRESSED, "imex-not-ready", "IMEX is not"),
        ([*INDEXED, *pod(20), *pod(21, "10.0.0.1")], "row-not-written", "the row of node n0 is not written"),
        (
            [*INDEXED, *pod(20, "10.0.0.1", ready=True), *cdc(22, row("10.0.0.9", "Ready"))],
            "row-not-written",
            "10.0.0.9",
        ),
        (READY, "row-not-written", "the row of node n0 is not Ready"),
        ([*READY, *cdc(24, row("10.0.0.1", "Ready", 5))], "row-not-written", "shows index 5, and 0 is the node's"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
async def test_the_missing_step_is_named(history: Sequence[Keyed], code: str, part: str) -> None:
    # That a controller gives the indices is known from its decisions: one of another clique will do.
    elsewhere: Keyed = (OTHER, IndexAssigned("d9", "other", 0, 18))
    answer = await told([elsewhere, *history])
    assert answer.missing == code
    assert part in answer.sentence
    assert answer.look_at.startswith("kubectl ")
    assert f"`{code}`" in DOCUMENT.read_text()
    assert [one.name for one in answer.shares if not one.done] == ([code] if answer.steps and answer.shares else [])


async def test_a_ready_node_is_ready_and_lacks_nothing() -> None:
    answer = await told(DONE)
    assert answer.missing is None
    assert answer.sentence == f"node n0 of clique {CLIQUE} is ready with index 0: a workload there may start"
    assert (answer.look_at, answer.pod, answer.domain_name) == ("", "driver/daemon-0", "team/train")
    assert all(step.time_ms is not None for step in answer.steps)


async def test_steps_are_told_with_their_records_and_times_are_shared_out() -> None:
    answer = await told(DONE)
    steps = {step.name: step.time_ms for step in answer.steps}
    # One record a second; the domain's own come between.
    assert list(steps) == ["label", "index", "pod", "address", "row", "ready", "row-ready"]
    assert list(steps.values()) == [5000, 7000, 10_000, 12_000, 14_000, 16_000, 18_000]
    assert sum(one.milliseconds for one in answer.shares) == 13_000
    assert sum(one.share for one in answer.shares) == pytest.approx(1.0)
    assert {one.name: one.milliseconds for one in answer.shares}["pod"] == 3000
    log = MemoryLog(partitions=3)
    for key, event in DONE:
        await log.append([codec.entry(key, event, timestamp_ms=1, controller="test")])
    last = answer.steps[-1].evidence
    assert last is not None
    (record,) = await log.read(last.position.partition, last.position.offset, limit=1, timeout_s=0)
    assert isinstance(codec.decode(record), CdcSeen)


async def test_what_a_step_took_still_counts_up_to_the_time_asked_for() -> None:
    answer = await told(DONE, until_ms=11_500)
    assert answer.missing == "no-address"
    (open_,) = [one for one in answer.shares if not one.done]
    assert (open_.name, open_.milliseconds) == ("no-address", 1500)
    assert answer.at_ms == 11_500


async def test_the_time_of_a_new_daemon_begins_where_the_one_before_ended() -> None:
    again = [*DONE, *both(DaemonPodGone(DOMAIN, "n0", "p0", 30)), *pod(31, uid="p1", name="daemon-1")]
    answer = await told(again)
    assert answer.missing == "no-address"
    assert [(one.name, one.milliseconds) for one in answer.shares] == [("pod", 2000), ("no-address", 1000)]


async def test_a_pod_is_looked_up_by_its_name_and_one_that_is_gone_is_said_to_be() -> None:
    for name in ("daemon-0", "driver/daemon-0"):
        answer = await told(DONE, name)
        assert (answer.node, answer.missing, answer.notes) == ("n0", None, ())
    assert (await told(DONE, "elsewhere/daemon-0")).missing == "unknown"
    gone = await told([*DONE, *both(DaemonPodGone(DOMAIN, "n0", "p0", 30))], "daemon-0")
    assert gone.missing == "no-pod"
    assert gone.notes == ("the pod daemon-0 is gone; this is about its node",)


@pytest.mark.parametrize(
    ("answers", "code", "part"),
    [
        ([*REFUSED, *REFUSED], "write-refused", "refused 2 writes, the last with 409"),
        (THROTTLED, "write-throttled", "refused 1 write, the last with 429, which asked for 30 seconds of pause"),
    ],
    ids=["conflicts", "throttling"],
)
async def test_refused_writes_are_told_until_the_row_changes(answers: list[Keyed], code: str, part: str) -> None:
    history = [*WRITTEN_BY_DAEMONS, *pod(21, "10.0.0.1", reader=False), *answers]
    answer = await told(history)
    assert answer.missing == code
    assert part in answer.sentence
    assert (await told([*history, *cdc(30, row("10.0.0.1"))])).missing == "imex-not-ready"


@pytest.mark.parametrize(
    ("delay", "part"),
    [
        ("in-flight", "on the way"),
        ("held", "read anew in 1.5 s"),
        ("paced", "waits 1.5 s for company"),
        ("backing-off", "the next try is in 1.5 s"),
        ("throttled", "throttling"),
        ("futile", "took the write for no change"),
        ("queued", "others go first"),
    ],
)
async def test_what_a_live_controllers_write_waits_for_is_told(delay: Delay, part: str) -> None:
    answer = await told(READY, pending=Pending(delay, 1.5))
    assert answer.missing == f"write-{delay}"
    assert f"`write-{delay}`" in DOCUMENT.read_text()
    assert part in answer.sentence


async def test_a_history_without_decisions_goes_by_the_rows_alone() -> None:
    answer = await told(cdc(20, row("10.0.0.1", "Ready", 3)))
    assert (answer.missing, answer.index) == (None, 3)
    assert answer.notes == ("the history tells of no daemon pod there: that the node is ready, its row alone says",)
    assert (await told(cdc(20, row("10.0.0.1")))).missing == "imex-not-ready"


async def test_a_history_without_nodes_says_nothing_of_labels() -> None:
    gone = [*cdc(20, row("10.0.0.1", "Ready")), *pod(21, "10.0.0.1", ready=True, reader=False)]
    gone += [*both(DaemonPodGone(DOMAIN, "n0", "p0", 30)), *cdc(31)]
    assert (await told(gone)).missing == "no-pod"


async def test_a_row_that_somebody_took_out_while_its_daemon_lived_is_told_with_who_did_it() -> None:
    by = Provenance("audit.log:7", "system:serviceaccount:driver:controller")
    without = [(key, msgspec.structs.replace(event, provenance=by)) for key, event in cdc(30)]
    history = [*WRITTEN_BY_DAEMONS, *pod(21, "10.0.0.1", ready=True, reader=False), *cdc(22, row("10.0.0.1", "Ready"))]
    assert (await told(history)).missing is None
    answer = await told([*history, *without])
    assert answer.missing == "row-removed"
    assert "was taken out by system:serviceaccount:driver:controller 1.0 s before" in answer.sentence
    back = await told([*history, *without, *cdc(31, row("10.0.0.1"))])
    assert back.missing == "row-not-written"
    anew = [*both(DaemonPodGone(DOMAIN, "n0", "p0", 32)), *pod(33, "10.0.0.2", uid="p1", reader=False)]
    assert (await told([*history, *without, *anew])).missing == "row-not-written"


async def test_a_node_without_a_fabric_goes_by_the_domains_status() -> None:
    daemon = DaemonPodSeen(DOMAIN, "n0", "driver", "daemon-0", "p0", 20, "", "10.0.0.1", ready=True)
    history: list[Keyed] = [*cd(), *daemon_set(), (DOMAIN, NodeSeen("n0", "u", 10, "", DOMAIN)), (DOMAIN, daemon)]
    assert (await told(history)).missing == "row-not-written"
    listed = (DomainNode("n0", "10.0.0.1", status="Ready"),)
    answer = await told([*history, *cd(30, nodes=listed)])
    assert answer.missing is None
    assert "has no fabric" in answer.sentence


async def test_a_view_that_was_not_complete_and_the_domains_conditions_are_noted() -> None:
    condition = Condition("WorkloadTemplateReady", "False", "NameTaken", "it exists")
    gap: Keyed = ("watch/pods", WatchGap("pods", 5, "expired"))
    answer = await told([*INDEXED, *cd(30, conditions=(condition,)), gap])
    assert answer.notes == (
        "the view of pods was not complete then: what is missing may only not have been seen",
        "condition of team/train: WorkloadTemplateReady is False: NameTaken. it exists",
    )
    mended: Keyed = ("watch/pods", RelistCompleted("pods", 40, 0))
    assert (await told([*INDEXED, gap, mended])).notes == ()


async def test_of_two_domains_the_one_that_the_label_names_counts() -> None:
    left = both(NodeGone("n0", "u-n0", 40, "moved"))
    other: list[Keyed] = [(OTHER, DomainSeen("d1", 41, "team", "next", "template", "Single"))]
    other += [(OTHER, NodeSeen("n0", "u-n0", 42, OTHER, "d1")), ("d1", NodeSeen("n0", "u-n0", 42, OTHER, "d1"))]
    answer = await told([*DONE, *left, *other])
    assert (answer.domain, answer.clique, answer.missing) == ("d1", OTHER, "no-index")


async def test_a_command_line_quotes_the_names_that_it_takes_from_the_history() -> None:
    answer = await told([], "$(reboot)")
    assert answer.look_at == "kubectl get node '$(reboot)' -L resource.nvidia.com/computeDomain"

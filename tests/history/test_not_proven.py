"""What a history does not prove is not said to be observed, and what did not happen is not found."""

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from controller.history import explaining, rerunning
from controller.history.auditing import Audit
from controller.history.timeline import Until
from controller.recording import capturing
from controller.writing.pacing import Pace
from eventlog import codec
from eventlog.event import Provenance
from eventlog.events import (
    DaemonPodGone,
    DomainSeen,
    IndexAdopted,
    NodeGone,
    NodeSeen,
    RelistBegan,
    RelistCompleted,
    Row,
    WatchGap,
    WriteAnswered,
)
from eventlog.memory import MemoryLog
from projections.audit.finding import Finding
from projections.audit.moves import moves
from projections.audit.why import explain
from projections.settings import Settings
from tests.history.histories import audited
from tests.history.rebuilt import CLIQUE, DOMAIN, NAMESPACE, AuditLog, Json, row
from tests.history.test_findings import (
    A0,
    A0_NEW,
    A1,
    B0,
    DONE,
    JOINED,
    OTHER,
    READY,
    C,
    Step,
    cdc,
    examined,
    gone,
    pod,
    refused,
)

WATCH = "watch/computedomaincliques"


async def findings(code: str, steps: Sequence[Step]) -> list[Finding]:
    return [one for one in (await examined(steps)).findings if one.code == code]


# --- row-removed ---


async def test_a_list_of_pods_does_not_tell_when_a_pod_went() -> None:
    absent = DaemonPodGone("d", "a", "p", 10, inferred="a complete list does not hold it")
    (one,) = await findings("row-removed", [pod(1), cdc(2, A0), cdc(6), absent])
    assert one.inferred


async def test_a_pod_that_was_ending_before_its_row_went_is_no_removal_though_its_watch_lags() -> None:
    assert await findings("row-removed", [pod(1), cdc(2, A0), cdc(5), pod(4, terminating=True), gone(6)]) == []


async def test_a_removal_is_told_though_the_deletion_of_the_pod_tells_no_version() -> None:
    untold = DaemonPodGone("d", "a", "p", 1, inferred="the answer to the deletion does not tell its version")
    (one,) = await findings("row-removed", [pod(1), cdc(2, A0), cdc(3), 600_000, untold])
    assert one.inferred


NEXT_LIFE = (pod(1), cdc(2, A0), gone(3), pod(4, uid="q", ip=""), cdc(5))


async def test_the_row_of_a_daemon_that_went_may_go_while_the_next_pod_waits_for_its_address() -> None:
    assert await findings("row-removed", [*NEXT_LIFE, pod(6, uid="q", ip="9")]) == []
    assert (await why([*NEXT_LIFE, pod(6, uid="q", ip="9")]) or "").split()[0] == "row-not-written"


# --- index-changed, index-not-kept ---


async def test_an_index_that_changed_while_the_row_was_out_and_no_pod_is_known_is_inferred() -> None:
    (one,) = await findings("index-changed", [cdc(1, A0), cdc(2), 3_600_000, cdc(3, A1)])
    assert one.inferred


async def test_a_node_that_came_back_at_the_same_address_with_another_index_is_found() -> None:
    steps: list[Step] = [pod(1), cdc(2, A0), gone(3), cdc(4), pod(5, uid="q"), cdc(6, A1)]
    assert [one.code for one in (await examined(steps)).findings if one.code.startswith("index-")] == ["index-not-kept"]


# --- row-pruned ---


async def test_a_node_whose_leave_is_told_after_its_row_went_was_not_pruned() -> None:
    steps: list[Step] = [
        *JOINED,
        cdc(4, A0),
        cdc(6),
        NodeGone("a", "ua", 5),
        NodeSeen("a", "ua", 7, C, "d"),
        cdc(8, A0_NEW),
    ]
    assert await findings("row-pruned", steps) == []


# --- domains-overlap, node-in-two-cliques ---


async def test_a_domain_that_was_away_meanwhile_does_not_overlap() -> None:
    steps: list[Step] = [cdc(1, A0), cdc(2), cdc(3, B0, domain="e"), cdc(4, domain="e"), cdc(5, A0)]
    assert await findings("domains-overlap", steps) == []


async def test_an_overlap_of_what_is_inferred_is_inferred() -> None:
    (one,) = await findings("domains-overlap", [cdc(1, A0), cdc(2, B0, domain="e", missing="1 change is missing")])
    assert one.inferred


async def test_a_short_holding_between_does_not_hide_rows_in_two_cliques() -> None:
    steps: list[Step] = [cdc(1, A0), cdc(2, A0, domain="e"), cdc(3, domain="e"), (OTHER, cdc(4, A0, clique=OTHER))]
    assert await findings("node-in-two-cliques", steps)


# --- write-delayed ---


async def test_a_refused_write_of_a_daemon_that_went_delays_nobody() -> None:
    steps: list[Step] = [pod(1), cdc(2, A0), refused(409), gone(3), 3_600_000, pod(4, uid="q", ip="9"), cdc(5, A0_NEW)]
    assert await findings("write-delayed", steps) == []


async def test_refused_writes_of_a_pod_are_none_of_its_row() -> None:
    answer = WriteAnswered("d", "pods", "driver", "p", "patch", 409, C, "a")
    assert await findings("write-delayed", [cdc(1), answer, 60_000, cdc(2, A0)]) == []


async def test_an_eviction_that_a_budget_refuses_is_no_throttling(tmp_path: Path) -> None:
    log = AuditLog()
    log.domain()
    log.pod("a", "10.0.0.1")
    log._line(
        "admin",
        "create",
        {**log._reference("pods", NAMESPACE, "computedomain-daemon-a"), "subresource": "eviction"},
        {"code": 429, "reason": "TooManyRequests"},
        None,
        None,
    )
    assert "throttled" not in codes(await of(log, tmp_path))


# --- stuck-deletion ---


@pytest.mark.parametrize("is_imported", [True, False])
async def test_a_deletion_of_which_an_import_tells_no_end_is_inferred(*, is_imported: bool) -> None:
    provenance = Provenance("audit.log:1") if is_imported else None
    ending = DomainSeen("d", 1, "team", "job", terminating=True, provenance=provenance)
    (one,) = await findings("stuck-deletion", [("d", ending), 600_000, cdc(2), DONE])
    assert bool(one.inferred) == is_imported


# --- visibility ---


async def test_a_hole_in_which_rows_may_have_gone_and_come_is_told() -> None:
    assert await findings("visibility-gap", [cdc(1, A0), cdc(3, A0, missing="2 changes are missing"), DONE])


async def test_rows_that_the_first_list_shows_began_earlier() -> None:
    steps: list[Step] = [
        (WATCH, RelistBegan("computedomaincliques", "start")),
        cdc(5, A0),
        (WATCH, RelistCompleted("computedomaincliques", 9, 1)),
    ]
    (one,) = (await examined(steps)).holdings
    assert one.inferred


async def test_a_row_that_a_list_after_a_gap_shows_began_earlier_though_it_was_adopted_then() -> None:
    steps: list[Step] = [
        *JOINED,
        (WATCH, WatchGap("computedomaincliques", 1, "410")),
        cdc(5, A0),
        (WATCH, RelistCompleted("computedomaincliques", 9, 1)),
        IndexAdopted("d", "a", 0, 18),
    ]
    (one,) = (await examined(steps)).holdings
    assert one.inferred


# --- moves ---


async def test_nodes_that_had_an_index_one_after_the_other_did_not_exchange_it() -> None:
    a0, a1, a2, b1, b0 = Row("a", "1", 0), Row("a", "1", 1), Row("a", "1", 2), Row("b", "2", 1), Row("b", "2", 0)
    steps: list[Step] = [cdc(1, a0), cdc(2, a1), cdc(3, a2), 3_600_000, cdc(4, a2, b1), cdc(5, a2, b0)]
    assert [one.partner for one in moves((await examined(steps)).holdings)] == ["", "", ""]


# --- replay ---


async def test_replay_counts_what_is_a_write_of_the_clique_object_and_nothing_else() -> None:
    accepted = WriteAnswered("d", "computedomaincliques", "driver", f"d.{C}", "update", 200, C, "a")
    elsewhere = WriteAnswered("d", "pods", "driver", "p", "patch", 409, C, "a")
    log = MemoryLog(partitions=3)
    for number, event in enumerate([cdc(1, A0), cdc(1, A0), accepted, elsewhere, refused(409)]):
        await log.append([codec.entry(C, event, timestamp_ms=1000 + number, controller="test")])
    rules = rerunning.Rules(Settings("driver"), Pace())
    found = await rerunning.rerun(log, rules, None, Until(), speed=None, show=lambda _: None)
    assert (found.recorded.writes, found.recorded.refused) == (2, 1)


# --- why ---


async def why(steps: Sequence[Step], subject: str = "a") -> str | None:
    log = MemoryLog(partitions=3)
    now = 1_000_000
    for step in steps:
        if isinstance(step, int):
            now += step
            continue
        now += 1000
        key, event = step if isinstance(step, tuple) else (C, step)
        await log.append([codec.entry(key, event, timestamp_ms=now, controller="test")])
    found = explain(await explaining.situation(log, subject, None))
    return f"{found.missing} {found.domain}"


async def test_a_history_without_pods_does_not_tell_that_there_is_no_pod() -> None:
    assert await why([cdc(1, A0)]) == "imex-not-ready d"


async def test_a_row_that_was_removed_in_a_history_without_pods_is_named() -> None:
    assert await why([cdc(1, READY), cdc(2)]) == "row-removed d"


async def test_a_refused_write_of_the_pod_is_not_why_the_row_is_not_written() -> None:
    steps: list[Step] = [*JOINED, pod(4), WriteAnswered("d", "pods", "driver", "p", "patch", 429, C, "a")]
    assert (await why(steps) or "").split()[0] != "write-throttled"


async def test_a_step_that_a_list_after_a_gap_shows_is_inferred() -> None:
    log = MemoryLog(partitions=3)
    marks = [WatchGap("computedomaincliques", 1, "410"), RelistBegan("computedomaincliques", "410")]
    steps = [(C, cdc(1)), *((WATCH, mark) for mark in marks), (C, cdc(9, A0))]
    steps += [(WATCH, RelistCompleted("computedomaincliques", 9, 1)), (C, cdc(10, READY))]
    for number, (key, event) in enumerate(steps):
        await log.append([codec.entry(key, event, timestamp_ms=1000 * number, controller="test")])
    found = explain(await explaining.situation(log, "a", None))
    assert {step.name: bool(step.inferred) for step in found.steps if step.time_ms} == {
        "index": True,
        "row": True,
        "row-ready": False,
    }


async def test_a_record_after_one_of_a_clock_that_was_ahead_counts_as_of_its_time() -> None:
    log = MemoryLog(partitions=3)
    for time_ms, event in ((1000, cdc(1)), (9000, cdc(2, B0)), (2000, cdc(3, B0, A1))):
        await log.append([codec.entry(C, event, timestamp_ms=time_ms, controller="test")])
    assert (await explaining.situation(log, "a", 3000)).standing.listed == A1


async def test_the_domain_that_a_node_left_last_is_told_of() -> None:
    steps: list[Step] = [cdc(1, A0, domain="z"), cdc(2, domain="z"), cdc(3, A0, domain="b"), cdc(4, domain="b")]
    assert (await why(steps) or "").split()[1] == "b"


# --- imports ---


async def of(log: AuditLog, tmp_path: Path) -> Audit:
    path = tmp_path / "audit.jsonl"
    path.write_text("\n".join(log.lines) + "\n")
    return await audited([path])


def codes(found: Audit) -> set[str]:
    return {one.code for one in found.findings}


def cdc_reference(log: AuditLog) -> Json:
    return log._reference("computedomaincliques", NAMESPACE, f"{DOMAIN}.{CLIQUE}")


def started(*rows: Json) -> AuditLog:
    log = AuditLog()
    log.domain()
    log.rows([])
    log.at_ms += 1000
    log.rows(list(rows))
    log.at_ms += 10_000
    return log


def at(log: AuditLog, number: int, change: Json) -> None:
    log.lines[number] = json.dumps({**json.loads(log.lines[number]), **change})


async def test_a_row_that_a_read_shows_first_began_earlier(tmp_path: Path) -> None:
    log = started(row("a", "10.0.0.1", 0))
    log.at_ms += 600_000
    seen = json.loads(log.lines.pop())["responseObject"]
    log._line("reader", "get", cdc_reference(log), {"code": 200}, None, seen)
    (one,) = (await of(log, tmp_path)).holdings
    assert one.inferred or one.begin.dated


async def test_the_write_counts_though_a_read_of_its_version_was_logged_first(tmp_path: Path) -> None:
    log = started(row("a", "10.0.0.1", 0))
    line = log.lines.pop()
    log._line("reader", "get", cdc_reference(log), {"code": 200}, None, json.loads(line)["responseObject"])
    log.lines.append(line)
    (one,) = (await of(log, tmp_path)).holdings
    assert "written by" in one.begin.cause


async def test_an_object_whose_last_finalizer_is_taken_off_at_once_is_gone(tmp_path: Path) -> None:
    """The answer has the version of the one before, since this one is never stored."""
    log = started(row("a", "10.0.0.1", 0))
    log.domain(deletionTimestamp="2026-09-11T10:00:11Z", finalizers=["resource.nvidia.com/computeDomain"])
    last = json.loads(log.lines[-1])["responseObject"]
    log.at_ms += 1000
    bare = {**last, "metadata": {**last["metadata"], "finalizers": []}}
    log._line("controller", "update", log._reference("computedomains", "training", "llama"), {"code": 200}, None, bare)
    log.at_ms += 900_000
    log.pod("elsewhere", "10.0.0.9")
    found = await of(log, tmp_path)
    assert "stuck-deletion" not in codes(found)
    assert found.holdings[0].end is not None


@pytest.mark.parametrize("uri", ["", "?dryRun=All"])
async def test_a_deletion_that_is_only_tried_ends_nothing(tmp_path: Path, uri: str) -> None:
    """Clients state it in the body of a deletion, not in its address."""
    log = started(row("a", "10.0.0.1", 0))
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background", "dryRun": ["All"]}
    done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    log._line("admin", "delete", cdc_reference(log), {"code": 200}, options, done)
    at(log, -1, {"requestURI": f"/apis/x{uri}"})
    assert (await of(log, tmp_path)).holdings[0].end is None


async def test_a_request_that_a_pod_answered_deletes_no_pod(tmp_path: Path) -> None:
    log = AuditLog()
    log.domain()
    log.pod("a", "10.0.0.1")
    log.rows([row("a", "10.0.0.1", 0)])
    log.at_ms += 1000
    reference = {**log._reference("pods", NAMESPACE, "computedomain-daemon-a"), "subresource": "proxy"}
    log._line("admin", "delete", reference, {"code": 200}, None, None)
    log.at_ms += 1000
    log.rows([])
    log.at_ms += 1000
    assert "row-removed" in codes(await of(log, tmp_path))


async def test_a_collection_that_was_deleted_is_gone(tmp_path: Path) -> None:
    """The answer lists the objects as they were before."""
    log = started(row("a", "10.0.0.1", 0))
    item = json.loads(log.lines[-1])["responseObject"]
    page = {"kind": "ComputeDomainCliqueList", "apiVersion": item["apiVersion"], "metadata": {}, "items": [item]}
    reference = {key: value for key, value in cdc_reference(log).items() if key != "name"}
    log._line("namespace-controller", "deletecollection", reference, {"code": 200}, None, page)
    (one,) = (await of(log, tmp_path)).holdings
    assert one.end is not None


async def test_a_late_line_of_a_deletion_does_not_end_the_object_that_came_after(tmp_path: Path) -> None:
    """The clock of the API server that answered the deletion is ahead by two seconds."""
    log = started(row("a", "10.0.0.1", 0))
    old = json.loads(log.lines[-1])["responseObject"]
    details = {"name": f"{DOMAIN}.{CLIQUE}", "group": "resource.nvidia.com", "uid": old["metadata"]["uid"]}
    done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    log.at_ms += 2000
    log._line("admin", "delete", cdc_reference(log), {"code": 200}, None, done)
    log.at_ms -= 1500
    new = {
        **old,
        "metadata": {
            **old["metadata"],
            "uid": "c0c0c0c0-0000-4000-8000-00000000new0",
            "resourceVersion": "2000",
            "generation": 1,
        },
    }
    log._line("daemon", "create", cdc_reference(log), {"code": 201}, None, new)
    log.lines[-2:] = reversed(log.lines[-2:])
    first, second = (await of(log, tmp_path)).holdings
    assert first.end is not None
    assert second.end is None


async def test_after_a_collection_that_was_deleted_untold_what_is_seen_is_observed(tmp_path: Path) -> None:
    log = started(row("a", "10.0.0.1", 0))
    reference = {key: value for key, value in cdc_reference(log).items() if key != "name"}
    log._line("namespace-controller", "deletecollection", reference, {"code": 200}, None, None)
    log.at_ms += 10_000
    log.rows([row("a", "10.0.0.1", 0), row("b", "10.0.0.2", 1)])
    a, b = (await of(log, tmp_path)).holdings
    assert a.inferred
    assert not b.inferred


async def test_a_change_that_is_missing_before_an_end_that_was_under_way_is_not_the_end(tmp_path: Path) -> None:
    log = started(row("a", "10.0.0.1", 0))
    last = json.loads(log.lines[-1])["responseObject"]
    end = {"deletionTimestamp": "2026-09-11T10:00:11Z", "deletionGracePeriodSeconds": 0}
    for number, finalizers in ((3, ["f"]), (4, [])):
        version = {"resourceVersion": f"300{number}", "generation": number + (number == 4), "finalizers": finalizers}
        answer = {**last, "metadata": {**last["metadata"], **end, **version}}
        log._line("admin", "update", cdc_reference(log), {"code": 200}, None, answer)
        log.at_ms += 10_000
    (one,) = (await of(log, tmp_path)).holdings
    assert one.end is not None
    assert one.inferred


@pytest.mark.parametrize("later_ms", [15, 25, 1000])
async def test_captures_whose_lists_overlap_end_nothing(tmp_path: Path, later_ms: int) -> None:
    seen = json.loads(started(row("a", "10.0.0.1", 0)).lines[-1])["responseObject"]
    page = msgspec.Raw(json.dumps({"items": [seen]}).encode())
    plural, paths = "computedomaincliques", [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    for path, begin in zip(paths, (10_000, 10_000 + later_ms), strict=True):
        lines = [
            capturing.Header(capturing.FORM, "1"),
            capturing.Began(begin, plural, "start"),
            capturing.Page(begin + 10, plural, page),
            capturing.Completed(begin + 20, plural, 1100, 1),
        ]
        path.write_bytes(b"".join([capturing.encode(line) for line in lines]))
    (one,) = (await audited(paths)).holdings
    assert one.end is None


async def test_the_user_that_was_impersonated_is_the_writer(tmp_path: Path) -> None:
    log = started(row("a", "10.0.0.1", 0))
    at(log, -1, {"impersonatedUser": {"username": "system:node:a"}})
    (one,) = (await of(log, tmp_path)).holdings
    assert "system:node:a" in one.begin.cause


async def test_after_a_torn_deletion_it_is_not_proven_that_the_index_is_held(tmp_path: Path) -> None:
    log = started(row("a", "10.0.0.1", 0))
    log._line("admin", "delete", cdc_reference(log), {"code": 200}, None, None)
    path = tmp_path / "audit.jsonl"
    path.write_text("\n".join([*log.lines[:-1], log.lines[-1][:200]]) + "\n")
    (torn,) = (await audited([path], strict=False)).holdings
    assert torn.end is None
    assert "a line is lost" in torn.inferred[-1]
    (whole,) = (await of(log, tmp_path)).holdings
    assert whole.end is not None


def watched(path: Path, *events: tuple[str, Json]) -> Path:
    path.write_text("".join(json.dumps({"type": kind, "object": seen}) + "\n" for kind, seen in events))
    return path


def between(found: Audit) -> list[Finding]:
    return [one for one in found.findings if "does not tell what was deleted between them" in one.message]


async def test_between_two_watches_of_a_kind_a_deletion_is_not_told(tmp_path: Path) -> None:
    log = started(row("a", "10.0.0.1", 0))
    first = json.loads(log.lines[-1])["responseObject"]
    log.rows([row("a", "10.0.0.1", 0), row("b", "10.0.0.2", 1)])
    second = json.loads(log.lines[-1])["responseObject"]
    name = {"name": f"{DOMAIN}.{CLIQUE}9", "uid": "another", "resourceVersion": "9999"}
    other = {**second, "metadata": {**second["metadata"], **name, "labels": {}}}
    one = watched(tmp_path / "1.json", ("ADDED", first), ("MODIFIED", second))
    alone = await audited([one])
    assert {held.node: held.inferred for held in alone.holdings}["b"] == ()
    later = watched(tmp_path / "2.json", ("ADDED", other))
    found = await audited([one, later])
    (gap,) = between(found)
    assert gap.records[0].source == f"{one}:2"
    held = {one.node: one.inferred for one in found.holdings if one.clique == CLIQUE}
    assert held.keys() == {"a", "b"}
    assert all("gap of the watch" in reasons[-1] or "had a gap" in reasons[-1] for reasons in held.values())
    beside = watched(tmp_path / "3.json", ("ADDED", first), ("MODIFIED", second), ("MODIFIED", other))
    assert between(await audited([beside, one])) == between(alone) == []

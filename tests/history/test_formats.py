"""Every form in which a history is kept gives the same holdings, or says what it cannot tell."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.importing.reading import UnfitInput
from tests.history.histories import Complaints, audit_log, audited, edited, facts, imported, lines, truth, watches

CHURN = "peer-churn-54"
Event = dict[str, Any]


def text(event: Event) -> str:
    return json.dumps(event, separators=(",", ":"))


GRPC = {409: 10, 429: 8}


def log_entry(event: Event) -> Event:
    """Tell an audit event as Google's Cloud Logging does."""
    ref, code = event["objectRef"], event["responseStatus"]["code"]
    group = ref.get("apiGroup", "core")
    namespace = f"namespaces/{ref['namespace']}/" if "namespace" in ref else ""
    path = "/".join(filter(None, (ref["resource"], ref.get("name"), ref.get("subresource"))))
    return {
        "insertId": event["auditID"],
        "timestamp": event["stageTimestamp"],
        "protoPayload": {
            "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
            "methodName": f"io.k8s.{group}.{ref['apiVersion']}.{ref['resource']}.{event['verb']}",
            "resourceName": f"{group}/{ref['apiVersion']}/{namespace}{path}",
            "authenticationInfo": {"principalEmail": event["user"]["username"]},
            "status": {"code": GRPC[code], "message": "refused"} if code >= 400 else {},
            "request": event.get("requestObject"),
            "response": event.get("responseObject"),
        },
    }


WRAPPINGS: dict[str, Callable[[Event], str]] = {
    "CloudWatch": lambda event: text({"timestamp": 1, "message": text(event)}),
    "CloudWatch subscription": lambda event: text(
        {"messageType": "DATA_MESSAGE", "logEvents": [{"id": "1", "timestamp": 1, "message": text(event)}]}
    ),
    "Azure Monitor": lambda event: text({"category": "kube-audit", "properties": {"log": text(event), "pod": "p"}}),
    "Azure storage": lambda event: text({"records": [{"category": "kube-audit", "properties": {"log": text(event)}}]}),
    "Cloud Logging": lambda event: text(log_entry(event)),
    "Docker": lambda event: text({"log": text(event) + "\n", "stream": "stdout", "time": "2026-11-29T12:00:00Z"}),
    "CRI": lambda event: f"2026-11-29T12:00:00.1Z stdout F {text(event)}",
    "webhook": lambda event: text({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": [event]}),
    "shipper of a webhook": lambda event: text({"message": WRAPPINGS["webhook"](event)}),
}


@pytest.mark.parametrize("name", WRAPPINGS)
async def test_an_audit_log_in_the_wrapping_of_a_service_gives_what_it_gives_without(name: str, tmp_path: Path) -> None:
    path = tmp_path / "exported"
    complete = [event for event in map(json.loads, lines(audit_log(CHURN))) if event["stage"] == "ResponseComplete"]
    path.write_text("\n".join(map(WRAPPINGS[name], complete)))
    found, plain = await audited([path]), await audited([audit_log(CHURN)])
    assert facts(found) == truth(CHURN)
    assert [one.message for one in found.findings] == [one.message for one in plain.findings]


async def test_an_export_that_is_one_json_array_over_many_lines_is_read(tmp_path: Path) -> None:
    events = [json.loads(line) for line in lines(audit_log(CHURN)) if b'"ResponseComplete"' in line]
    array, page = tmp_path / "array.json", tmp_path / "page.json"
    array.write_text(json.dumps([log_entry(event) for event in events], indent=2))
    page.write_text(json.dumps({"events": [{"message": text(event)} for event in events], "searched": []}, indent=4))
    assert facts(await audited([array])) == facts(await audited([page])) == truth(CHURN)


async def test_other_stages_and_dry_runs_change_nothing(tmp_path: Path) -> None:
    def dry(event: Event) -> Event:
        return {**event, "auditID": event["auditID"] + "-dry", "requestURI": event["requestURI"] + "?dryRun=All"}

    def moved(event: Event) -> Event:
        rows = [{**row, "index": 17 - row["index"]} for row in event["responseObject"].get("daemons", [])]
        return dry({**event, "responseObject": {**event["responseObject"], "daemons": rows}})

    path = tmp_path / "audit.log"
    events = [json.loads(line) for line in lines(audit_log(CHURN))]
    more = [{**event, "stage": "RequestReceived"} for event in events]
    tried = [moved(event) for event in events if "responseObject" in event]
    path.write_text("\n".join(map(text, sorted([*events, *more, *tried], key=lambda event: event["stageTimestamp"]))))
    assert facts(await audited([path])) == truth(CHURN)


async def test_two_api_servers_whose_clocks_differ_are_merged(tmp_path: Path) -> None:
    paths = [tmp_path / "one.log", tmp_path / "two.log"]
    halves: list[list[str]] = [[], []]
    for number, line in enumerate(lines(audit_log(CHURN))):
        event = json.loads(line)
        if number % 2:
            event["stageTimestamp"] = event["stageTimestamp"].replace("2026-11-29T12:24:", "2026-11-29T12:24:", 1)
            second = int(event["stageTimestamp"][17:19])
            event["stageTimestamp"] = (
                f"{event['stageTimestamp'][:17]}{max(second - 2, 0):02}{event['stageTimestamp'][19:]}"
            )
        halves[number % 2].append(text(event))
    for path, half in zip(paths, halves, strict=True):
        path.write_text("\n".join(half))
    assert facts(await audited(paths)) == facts(await audited(paths), observed=True) == truth(CHURN)


def level(name: str) -> Callable[[Event], Event | None]:
    """Cut an event down to what a policy of this level would have logged."""
    dropped = {"Metadata": ("requestObject", "responseObject"), "Request": ("responseObject",)}[name]
    return lambda event: {**{key: event[key] for key in event if key not in dropped}, "level": name}


async def test_an_audit_log_of_metadata_tells_no_holding_and_still_who_was_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(edited(audit_log(CHURN), level("Metadata")))
    found = await audited([path])
    assert found.holdings == ()
    assert sum(int(one.message.split()[0]) for one in found.findings if one.code == "conflict-storm") > 350


async def test_an_audit_log_of_requests_tells_the_holdings_as_inferred(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_bytes(edited(audit_log(CHURN), level("Request")))
    found = await audited([path])
    assert facts(found, observed=True) == []
    assert [fact[:3] for fact in facts(found)] == [fact[:3] for fact in truth(CHURN)]
    assert {one.code for one in found.findings} >= {"index-not-kept", "row-pruned"}


def newest_objects() -> list[Event]:
    newest: dict[str, Event] = {}
    for path in watches(CHURN):
        for line in lines(path):
            event = json.loads(line)
            newest[event["object"]["metadata"]["uid"]] = event["object"]
            if event["type"] == "DELETED":
                del newest[event["object"]["metadata"]["uid"]]
    return list(newest.values())


@pytest.mark.parametrize("form", ["json", "yaml", "yaml documents", "one line", "one after the other"])
async def test_a_snapshot_tells_who_holds_an_index_now_and_that_the_beginning_is_not_known(
    form: str, tmp_path: Path
) -> None:
    objects = newest_objects()
    whole = {"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {"resourceVersion": ""}}
    path = tmp_path / "snapshot"
    path.write_text(
        {
            "json": json.dumps(whole, indent=4),
            "yaml": yaml.safe_dump(whole),
            "yaml documents": yaml.safe_dump_all(objects),
            "one line": json.dumps(whole),
            "one after the other": "\n".join(json.dumps(one, indent=4) for one in objects),
        }[form]
    )
    found = await audited([path])
    held = [fact for fact in truth(CHURN) if fact[4] is None]
    assert [fact[:3] for fact in facts(found)] == [fact[:3] for fact in held]
    assert facts(found, observed=True) == []


async def test_a_watch_that_was_printed_over_many_lines_is_read(tmp_path: Path) -> None:
    paths = []
    for path in watches(CHURN):
        paths.append(tmp_path / path.name.removesuffix(".gz"))
        paths[-1].write_text("\n".join(json.dumps(json.loads(line), indent=4) for line in lines(path)))
    assert facts(await audited(paths)) == truth(CHURN)


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"items":[' + b"[" * 1_000_000,
        b'{"kind":"List","items":[' * 50,
        b"items:\n- &a [1]\n- *a\n",
        b"kind: " + b"[" * 10_000,
        b'{"a": 1e999999}\n{',
        b'{"a": ' + b"9" * 100_000 + b"}",
        b"kind: \x00",
    ],
)
async def test_a_document_that_is_none_is_named_and_ends_quietly(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "document"
    path.write_bytes(content + b'\n{"kind":"Pod","apiVersion":"v1"}')
    observer = Complaints()
    with suppress(UnfitInput):
        await imported([path], strict=False, observer=observer)
        assert observer.lines

"""A line of a capture tells the same however it is written, and what is no object of ours tells nothing."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from controller.importing.capture import Capture
from controller.importing.told import NotUnderstood, Objects, ObjectTold, Told
from controller.recording.capturing import Watched, encode
from kube.names import DOMAIN_LABEL

Event = dict[str, Any]
META = {"name": "d.f.0", "namespace": "driver", "uid": "u", "resourceVersion": "7", "generation": 3}
CDC: Event = {
    "kind": "ComputeDomainClique",
    "metadata": {**META, "labels": {DOMAIN_LABEL: "d"}},
    "daemons": [{"nodeName": "n", "ipAddress": "10.0.0.1", "cliqueID": "f.0", "index": 4, "status": "Ready"}],
}
POD: Event = {
    "kind": "Pod",
    "metadata": META,
    "spec": {"nodeName": "n"},
    "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
}


def told(line: bytes) -> Sequence[Told]:
    return Capture(Objects()).read(line, "a:1")


def written(resource: str, event: Event) -> bytes:
    return encode(Watched(5, resource, msgspec.Raw(json.dumps(event, separators=(",", ":")).encode())))


def anew(line: bytes) -> bytes:
    """Write the line as another program would: with its fields in another order, so that the kind stands at its end."""
    fields = json.loads(line)
    return json.dumps({"event": {**fields.pop("event"), "padding": "x" * 200}, **fields}).encode()


@pytest.mark.parametrize(("resource", "found"), [("computedomaincliques", CDC), ("pods", POD)])
@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_a_line_of_a_watch_tells_the_same_in_any_order_of_its_fields(kind: str, resource: str, found: Event) -> None:
    line = written(resource, {"type": kind, "object": found})
    (one,) = told(line)
    assert isinstance(one, ObjectTold)
    assert (one.time_ms, one.resource.plural, one.version, one.generation) == (5, resource, 7, 3)
    assert one.gone == (kind == "DELETED")
    assert told(anew(line)) == (one,)


@pytest.mark.parametrize(
    "event", [{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}, {"type": "ERROR", "object": POD}]
)
def test_what_is_no_change_tells_nothing(event: Event) -> None:
    line = written("pods", event)
    assert told(line) == told(anew(line)) == ()


def test_the_kind_is_the_one_that_the_line_states_not_one_that_stands_in_it() -> None:
    line = b'{"told":"watch","at":5,"no":{"resource":"computedomaincliques"},"resource":"pods","event":%s}'
    (one,) = told(line % json.dumps({"type": "ADDED", "object": POD}).encode())
    assert isinstance(one, ObjectTold)
    assert one.resource.plural == "pods"


def test_a_line_that_cannot_be_understood_says_why() -> None:
    bad = {**POD, "metadata": {**META, "resourceVersion": 7}}
    with pytest.raises(NotUnderstood, match="resourceVersion"):
        told(written("pods", {"type": "ADDED", "object": bad}))

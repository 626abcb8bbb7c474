import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.codec import SCHEMA_VERSION, Decoder, NewerSchema, UndecodableRecord, decode, encode, entry
from eventlog.event import Event
from eventlog.events import ControllerStarted, IndexAssigned, NodeSeen
from eventlog.record import GENESIS, Entry, Headers, Record, chain
from tests.eventlog.any_event import EVENTS, any_event

GOLDEN = Path(__file__).parent / "golden"
"""Records as each schema version wrote them, `v<version>.jsonl`: lines are added, none is ever changed."""
GOLDEN_HEAD = "7a4f0905e4b05f372a6b12ced9e5f178430f99bf5a2d43aa75beb209e15ec7e5"
"""Head of the hash chain over the first 35 recordings of version 1."""


def recordings(version: int) -> list[Entry]:
    lines = (GOLDEN / f"v{version}.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        Entry(
            line["key"],
            line["timestamp_ms"],
            Headers(line["event_type"], line["schema_version"], line["controller"]),
            line["value"].encode(),
        )
        for line in map(json.loads, lines)
    ]


def tag(event: type[Event]) -> str:
    return str(event.__struct_config__.tag)


def one(value: bytes, version: int = SCHEMA_VERSION) -> Entry:
    return Entry("clique.0", 1, Headers("node-seen", version, "test"), value)


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_every_golden_recording_decodes_to_the_event_that_its_headers_name(version: int) -> None:
    for recording in recordings(version):
        assert tag(type(decode(recording))) == recording.headers.event_type
        assert recording.headers.schema_version == version


def test_encoding_a_golden_recording_of_this_version_again_gives_the_same_bytes() -> None:
    for recording in recordings(SCHEMA_VERSION):
        assert encode(decode(recording)) == recording.value


def test_every_event_and_every_field_of_it_is_among_the_golden_recordings() -> None:
    seen: dict[str, set[str]] = {tag(event): set() for event in EVENTS}
    for recording in recordings(SCHEMA_VERSION):
        seen[recording.headers.event_type] |= json.loads(recording.value).keys()
    assert seen == {tag(event): {"type", *event.__struct_fields__} for event in EVENTS}


def test_the_chain_over_the_golden_recordings_has_the_head_that_it_always_had() -> None:
    head = by_hand = GENESIS
    for recording in recordings(1)[:35]:
        head = chain(head, recording)
        names = [recording.key, str(recording.timestamp_ms), recording.headers.event_type, "1"]
        joined = "\0".join([*names, recording.headers.controller, ""]).encode() + recording.value
        by_hand = hashlib.sha256(by_hand + joined).digest()
    assert head.hex() == by_hand.hex() == GOLDEN_HEAD


def test_an_entry_carries_the_events_tag_and_the_version_of_this_program() -> None:
    made = entry("clique.0", NodeSeen("n", "u", 7), timestamp_ms=5, controller="one")
    assert made == Entry("clique.0", 5, Headers("node-seen", SCHEMA_VERSION, "one"), made.value)
    assert made.value == b'{"type":"node-seen","name":"n","uid":"u","resource_version":7}'


def test_settings_are_encoded_in_sorted_order_whatever_order_they_were_given_in() -> None:
    forward = ControllerStarted("i", "v", {"a": "1", "b": "2"})
    backward = ControllerStarted("i", "v", {"b": "2", "a": "1"})
    assert encode(forward) == encode(backward)


@given(any_event(st.text()))
def test_any_event_comes_back_equal_and_gives_equal_bytes_again(event: Event) -> None:
    made = entry("k", event, timestamp_ms=1, controller="c")
    again = decode(made)
    assert again == event
    assert encode(again) == made.value


def test_a_field_that_a_later_program_added_is_passed_over() -> None:
    value = b'{"type":"node-seen","name":"n","uid":"u","resource_version":7,"zone":"eu-1"}'
    assert decode(one(value)) == NodeSeen("n", "u", 7)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "truncated"),
        (b'{"type":"node-seen","name":"n","uid":"u"', "truncated"),
        (b'{"type":"node-seen","name":"n","uid":"u"}', "resource_version"),
        (b'{"type":"node-seen","name":"n","uid":"u","resource_version":"7"}', "Expected `int`"),
        (b'{"type":"node-lost"}', "node-lost"),
        (b'{"name":"n"}', "type"),
        (b"[1]", "Expected `object`"),
        (b"\xff\xfe", "malformed"),
        (b'{"type":"node-seen","name":"\xff","uid":"u","resource_version":7}', "utf-8"),
        (b'{"type":"node-seen","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "recursion"),
    ],
    ids=["empty", "cut", "missing", "mistyped", "unknown", "untagged", "array", "binary", "text", "deep"],
)
def test_bytes_that_are_no_event_are_refused_with_the_place_and_the_reason(value: bytes, reason: str) -> None:
    record = Record("cliquelog", 3, 41, "clique.0", 1, Headers("node-seen", SCHEMA_VERSION, "test"), value)
    with pytest.raises(UndecodableRecord, match=rf"(?i)record cliquelog 3/41 cannot be decoded: .*{reason}"):
        decode(record)
    with pytest.raises(UndecodableRecord, match=r"record of key clique.0 cannot be decoded"):
        decode(one(value))


def test_a_record_of_a_newer_schema_is_refused_with_the_mend() -> None:
    newer = one(encode(NodeSeen("n", "u", 7)), version=SCHEMA_VERSION + 1)
    expected = f"has schema version {SCHEMA_VERSION + 1} and this program reads up to {SCHEMA_VERSION}; use a newer"
    with pytest.raises(NewerSchema, match=expected):
        decode(newer)


@pytest.mark.parametrize("version", [0, -1])
def test_a_schema_version_that_never_was_is_refused(version: int) -> None:
    with pytest.raises(UndecodableRecord, match=f"nothing lifts version {version}"):
        decode(one(encode(NodeSeen("n", "u", 7)), version=version))


# Two past versions, as they might have been: version 1 called the index a slot, version 2 had no capacity.
def rename_slot(fields: dict[str, object]) -> dict[str, object]:
    return {**{name: value for name, value in fields.items() if name != "slot"}, "index": fields["slot"]}


def add_capacity(fields: dict[str, object]) -> dict[str, object]:
    # Looks at the index: it cannot run before the other.
    return {**fields, "capacity": 18 if int(str(fields["index"])) < 18 else 64}


def test_old_events_are_lifted_by_each_upcaster_from_their_version_on_in_order() -> None:
    decoder = Decoder(3, {1: rename_slot, 2: add_capacity})
    start = b'{"type":"index-assigned","domain":"d","node":"n",'
    assert decoder.decode(one(start + b'"slot":4}', 1)) == IndexAssigned("d", "n", 4, 18)
    assert decoder.decode(one(start + b'"index":40}', 2)) == IndexAssigned("d", "n", 40, 64)
    assert decoder.decode(one(start + b'"index":4,"capacity":9}', 3)) == IndexAssigned("d", "n", 4, 9)


def test_an_old_event_that_its_upcasters_leave_unfit_is_refused() -> None:
    decoder = Decoder(3, {1: rename_slot, 2: lambda fields: fields})
    start = b'{"type":"index-assigned","domain":"d","node":"n",'
    with pytest.raises(UndecodableRecord, match="capacity"):
        decoder.decode(one(start + b'"slot":4}', 1))
    with pytest.raises(UndecodableRecord, match="slot"):
        decoder.decode(one(start + b'"index":4}', 1))
    with pytest.raises(UndecodableRecord, match="nothing lifts version 2 to 3"):
        Decoder(3, {1: rename_slot}).decode(one(start + b'"slot":4}', 1))

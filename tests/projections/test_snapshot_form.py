"""A snapshot's form is pinned: one that was saved by another form of the state must not be read as this one."""

import hashlib

import msgspec
import pytest

from eventlog import codec
from eventlog.events import NodeSeen
from eventlog.record import Record
from projections.partition import SNAPSHOT_VERSION, PartitionFold, PartitionState, restore

FORMS = {
    1: "30f573a932b35aa0",
    2: "8e933f20165e93a7",
    3: "6bcb724b547bee34",
    4: "32f0983309438148",
    5: "aab93f9d3bf8aeeb",
    6: "f4a1d052bd4c2217",
}
"""By snapshot version: the fingerprint of the state's JSON schema."""


def fingerprint(state: type) -> str:
    """Give a digest of field names, types, order and defaults; what docstrings say is left out."""
    schema = without_descriptions(msgspec.json.schema(state))
    return hashlib.sha256(msgspec.json.encode(schema)).hexdigest()[:16]


def without_descriptions(schema: object) -> object:
    if isinstance(schema, dict):
        return {
            name: without_descriptions(value)
            for name, value in schema.items()
            if not (name == "description" and isinstance(value, str))
        }
    return [without_descriptions(value) for value in schema] if isinstance(schema, list) else schema


def test_a_changed_state_comes_with_a_new_snapshot_version() -> None:
    now = fingerprint(PartitionState)
    assert FORMS.get(SNAPSHOT_VERSION) == now, (
        f"The form of the state that snapshots hold has changed: raise SNAPSHOT_VERSION in projections/partition.py "
        f"(it is {SNAPSHOT_VERSION}) and enter the new version with the fingerprint {now!r} in FORMS here."
    )


def test_the_fingerprint_sees_fields_and_types_but_not_docstrings() -> None:
    plain = msgspec.defstruct("State", [("one", int)], namespace={"__doc__": "A state."})
    told = msgspec.defstruct("State", [("one", int)], namespace={"__doc__": "The same, described otherwise."})
    typed = msgspec.defstruct("State", [("one", str)], namespace={"__doc__": "A state."})
    more = msgspec.defstruct("State", [("one", int), ("two", int)], namespace={"__doc__": "A state."})
    assert fingerprint(plain) == fingerprint(told)
    assert len({fingerprint(form) for form in (plain, typed, more)}) == 3


@pytest.mark.parametrize("version", [SNAPSHOT_VERSION - 1, SNAPSHOT_VERSION + 1])
def test_a_snapshot_of_another_version_is_not_read(version: int) -> None:
    fold = PartitionFold()
    entry = codec.entry("c1.0", NodeSeen("n0", "u0", 1, "c1.0", "d"), timestamp_ms=1, controller="test")
    fold.apply(Record("t", 0, 0, entry.key, entry.timestamp_ms, entry.headers, entry.value))
    assert restore(fold.snapshot()) is not None
    other = PartitionState(version, fold.next_offset, fold.before, fold.head, fold.aggregates)
    assert restore(msgspec.msgpack.encode(other)) is None

"""`docs/records.md` describes every event and every field as they are, and its examples are events."""

import json
import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from eventlog.codec import SCHEMA_VERSION, decode, encode
from eventlog.event import Event, Provenance
from eventlog.events import AnyEvent, Condition, DomainNode, Row
from eventlog.record import Entry, Headers

DOCUMENT = (Path(__file__).parents[2] / "docs" / "records.md").read_text(encoding="utf-8")
SECTIONS = {
    heading.strip("`"): text for heading, text in re.findall(r"^### (.+)\n((?:(?!^##).*\n)*)", DOCUMENT, re.MULTILINE)
}
EVENTS: dict[str, type[Event]] = {str(event.__struct_config__.tag): event for event in get_args(AnyEvent)}
PARTS: dict[str, type[msgspec.Struct]] = {part.__name__: part for part in (Row, DomainNode, Condition, Provenance)}
TYPES = {
    str: "string",
    int: "integer",
    bool: "boolean",
    int | None: "integer or null",
    tuple[str, ...]: "list of strings",
    dict[str, str]: "map of strings to strings",
    Provenance | None: "[Provenance](#provenance) or null",
    **{tuple[part, ...]: f"list of [{name}](#{name.lower()})" for name, part in PARTS.items()},
}


def documented(section: str) -> list[tuple[str, str, str]]:
    """Give field, type and default of each row of the section's table; each row must give a meaning, too."""
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if line[:1] == "|"]
    assert rows[0] == ["field", "type", "default", "meaning"]
    assert all(len(row) == 4 and row[3] for row in rows[2:])
    return [(row[0].strip("`"), row[1], row[2].strip("`")) for row in rows[2:]]


def actual(struct: type[msgspec.Struct]) -> list[tuple[str, str, str]]:
    return [
        (
            field.name,
            TYPES[field.type],
            "required" if field.default is msgspec.NODEFAULT else json.dumps(field.default),
        )
        for field in msgspec.structs.fields(struct)
    ]


def test_the_document_has_a_section_for_every_event_and_part_and_no_other() -> None:
    assert SECTIONS.keys() == EVENTS.keys() | PARTS.keys()


@pytest.mark.parametrize("name", [*EVENTS, *PARTS])
def test_a_section_describes_every_field_with_its_type_and_default_in_order(name: str) -> None:
    assert documented(SECTIONS[name]) == actual({**EVENTS, **PARTS}[name])


@pytest.mark.parametrize("name", EVENTS)
def test_the_example_of_an_event_decodes_to_it_and_leaves_nothing_over(name: str) -> None:
    (example,) = re.findall(r"^```json\n(.+?)^```", SECTIONS[name], re.MULTILINE | re.DOTALL)
    compact = json.dumps(json.loads(example), separators=(",", ":"), ensure_ascii=False).encode()
    event = decode(Entry("k", 1, Headers(name, SCHEMA_VERSION, "test"), compact))
    assert type(event) is EVENTS[name]
    assert encode(event) == compact

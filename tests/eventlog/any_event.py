"""Hypothesis strategies for any event that decodes, sensible or not."""

from typing import Any, get_args

import msgspec
from hypothesis import strategies as st

from eventlog.event import Event, Provenance
from eventlog.events import AnyEvent, Condition, DomainNode, Row

EVENTS: tuple[type[Event], ...] = get_args(AnyEvent)


def any_event(texts: st.SearchStrategy[str]) -> st.SearchStrategy[AnyEvent]:
    """Give a strategy for events of every type, their texts drawn from `texts`."""
    values: dict[Any, st.SearchStrategy[Any]] = {
        str: texts,
        int: st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-2, 20),
        bool: st.booleans(),
        dict[str, str]: st.dictionaries(texts, texts, max_size=3),
        tuple[str, ...]: st.lists(texts, max_size=3).map(tuple),
    }
    values[int | None] = st.none() | values[int]

    def built(struct: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
        return st.builds(struct, **{field.name: values[field.type] for field in msgspec.structs.fields(struct)})

    for part in (Row, DomainNode, Condition):
        values[tuple[part, ...]] = st.lists(built(part), max_size=3).map(tuple)
    values[Provenance | None] = st.none() | built(Provenance)
    return st.one_of(*(built(event) for event in EVENTS))

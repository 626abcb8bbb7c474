"""What all events have in common, and what is said of those that were imported."""

import msgspec


class Event(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True):
    """Base of all events; never stored itself."""


class Provenance(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where an imported record comes from, and how certain it is.

    `source` is `<file>:<line>`. `writer` is the user whose write made the object so, empty if the source does not tell.
    `inferred` is empty if the source shows the fact, else the reason why it is concluded all the same. `dated` is empty
    if the source states the record's time, else what the time was taken from.
    """

    source: str
    writer: str = ""
    inferred: str = ""
    dated: str = ""


class Told(Event, frozen=True, kw_only=True):
    """Base of what a source may have told long after it happened; `provenance` is None if our own process saw it."""

    provenance: Provenance | None = None

"""A capture: what the reflectors of a controller were told, as JSON Lines, one step before the normaliser.

A line is one of the structs below, `told` first; the objects are as the API server sent them. So a capture holds more
than a log does, and what a later version reads of an object can be read from an old capture. The first line of a file
is a `Header`; a rotated capture is several files, each with one.
"""

from typing import Annotated

import msgspec

FORM = "cliquelog-capture/1"

Milliseconds = Annotated[int, msgspec.Meta(ge=0, lt=253_402_300_800_000)]
"""Unix time, up to the year 9999."""
Count = Annotated[int, msgspec.Meta(ge=0, lt=9 * 10**18)]
"""A resourceVersion, or how many objects there were."""


class Line(msgspec.Struct, frozen=True, tag_field="told", omit_defaults=True):
    """Base of the lines."""


class Header(Line, frozen=True, tag="capture"):
    """The beginning of a file: its form, and who wrote it."""

    form: str
    version: str


class Began(Line, frozen=True, tag="list-began"):
    """A complete list was asked for; `at` is Unix time in milliseconds, as in all lines."""

    at: Milliseconds
    resource: str
    cause: str


class Page(Line, frozen=True, tag="page"):
    """A page of a list, as it was sent."""

    at: Milliseconds
    resource: str
    page: msgspec.Raw


class Completed(Line, frozen=True, tag="list-completed"):
    """The list was complete as of `version`, with so many objects."""

    at: Milliseconds
    resource: str
    version: Count
    objects: Count


class Watched(Line, frozen=True, tag="watch"):
    """A line of a watch, as it was sent."""

    at: Milliseconds
    resource: str
    event: msgspec.Raw


class Missed(Line, frozen=True, tag="gap"):
    """Changes since `version` may have been missed."""

    at: Milliseconds
    resource: str
    version: Count
    cause: str


AnyLine = Header | Began | Page | Completed | Watched | Missed


def encode(line: AnyLine) -> bytes:
    """Give the line, with its end."""
    return msgspec.json.encode(line) + b"\n"

"""A capture: what the reflectors of a controller were told, as JSON Lines, one step before the normaliser.

A line is one of the structs below, `told` first; the objects are as the API server sent them. So a capture holds more
than a log does, and what a later version reads of an object can be read from an old capture. The first line of a file
is a `Header`; a rotated capture is several files, each with one.
"""

import msgspec

FORM = "cliquelog-capture/1"


class Line(msgspec.Struct, frozen=True, tag_field="told", omit_defaults=True):
    """Base of the lines."""


class Header(Line, frozen=True, tag="capture"):
    """The beginning of a file: its form, and who wrote it."""

    form: str
    version: str


class Began(Line, frozen=True, tag="list-began"):
    """A complete list was asked for; `at` is Unix time in milliseconds, as in all lines."""

    at: int
    resource: str
    cause: str


class Page(Line, frozen=True, tag="page"):
    """A page of a list, as it was sent."""

    at: int
    resource: str
    page: msgspec.Raw


class Completed(Line, frozen=True, tag="list-completed"):
    """The list was complete as of `version`, with so many objects."""

    at: int
    resource: str
    version: int
    objects: int


class Watched(Line, frozen=True, tag="watch"):
    """A line of a watch, as it was sent."""

    at: int
    resource: str
    event: msgspec.Raw


class Missed(Line, frozen=True, tag="gap"):
    """Changes since `version` may have been missed."""

    at: int
    resource: str
    version: int
    cause: str


AnyLine = Header | Began | Page | Completed | Watched | Missed


def encode(line: AnyLine) -> bytes:
    """Give the line, with its end."""
    return msgspec.json.encode(line) + b"\n"

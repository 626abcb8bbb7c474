"""Tables for people, as lines of text: names stay whole, and no line ends with spaces.

A name that is broken in the middle can be neither read nor copied, so the last column alone is wrapped, at words, and
a column of long names gets lines of its own. What is wrapped may still hold a name that is longer than a line.
"""

import textwrap
from collections.abc import Iterator, Sequence

GAPS = (2, 1)
"""Spaces between columns: narrow where the wide ones would take the room of the last column."""
LEAST = 20
"""Signs that the last column has at least; it has room for its longest word, or names go into lines of their own."""


def wrapped(text: str, width: int, *, indent: str = "", first: str = "") -> str:
    """Give the text as lines of the width, broken between words alone; `first` stands before the first one."""
    return textwrap.fill(
        text,
        width,
        initial_indent=first or indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ).rstrip()


def lines(
    names: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, apart: int | None = None
) -> Iterator[str]:
    """Give the table's head and rows, each of them as one text; the last column is wrapped.

    `apart` is the column of names that may be long: if they leave no room, a row has them in a line before the others.
    """
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)][:-1]
    needed = max([LEAST, *(len(word) for row in rows for word in row[-1].split())])
    room = width - needed - sum(widths)
    gap = next((gap for gap in GAPS if gap * len(widths) <= room), None)
    padded = [size + (gap or GAPS[0]) for size in widths]
    if gap is None and apart is not None:
        yield from _in_two(names, rows, padded, width, apart)
    else:
        yield from (_line(row, padded, width, 0) for row in (names, *rows))


def _in_two(
    names: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], width: int, apart: int
) -> Iterator[str]:
    left, rest = widths[:apart], widths[apart + 1 :]
    for row in (names, *rows):
        named = _cells(row[:apart], left) + row[apart]
        yield f"{named.rstrip()}\n{_line(row[apart + 1 :], rest, width, sum(left))}"


def _line(row: Sequence[str], widths: Sequence[int], width: int, indent: int) -> str:
    before = " " * indent + _cells(row[:-1], widths)
    return wrapped(row[-1], max(width, len(before) + LEAST), indent=" " * len(before), first=before) or before.rstrip()


def _cells(row: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True))

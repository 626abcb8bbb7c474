"""Tables of figures: plain text within 80 columns for people, plain values for `--json`."""

import msgspec

Cell = str | int | float


class Table(msgspec.Struct, frozen=True):
    """Figures with their names; `notes` say what a reader must know to judge them."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


def render(table: Table) -> str:
    """Give the table as text, numbers to the right."""
    cells = [table.columns, *(tuple(_text(cell) for cell in row) for row in table.rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(table.columns))]
    lines = [
        "  ".join(
            text.ljust(width) if place == 0 else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join([table.title, *lines, *table.notes])


def _text(cell: Cell) -> str:
    if isinstance(cell, float):
        return f"{cell:,.2f}" if abs(cell) < 100 else f"{cell:,.0f}"
    return f"{cell:,}" if isinstance(cell, int) else cell

"""A small chart as SVG: some curves of named points, readable on light and on dark pages."""

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

import msgspec

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 60, 24, 24, 52
STYLE = """
    text { font-family: sans-serif; font-size: 13px; }
    .grid { stroke: #44546a; stroke-opacity: 0.18; } .t { fill: #1b2430; }
    .c0 { stroke: #96711a; fill: #96711a; } .c1 { stroke: #3d6b35; fill: #3d6b35; }
    .line { fill: none; stroke-width: 2; }
    text.n { font-size: 12px; stroke: none; }
    @media (prefers-color-scheme: dark) {
      .grid { stroke: #9db0c8; } .t { fill: #eef2f8; }
      .c0 { stroke: #d8b45a; fill: #d8b45a; } .c1 { stroke: #8fc284; fill: #8fc284; }
      .line { fill: none; }
    }
"""


class Series(msgspec.Struct, frozen=True):
    """A curve: points of x, y and a name, in the order in which they are joined. The first two series have colours."""

    name: str
    points: Sequence[tuple[float, float, str]]


def draw(x_name: str, y_name: str, series: Sequence[Series]) -> str:
    """Give the chart. Both axes begin at 0."""
    x_step, x_steps = _scale([x for one in series for x, _, _ in one.points])
    y_step, y_steps = _scale([y for one in series for _, y, _ in one.points])

    def place(x: float, y: float) -> tuple[float, float]:
        right = LEFT + x / (x_step * x_steps) * (WIDTH - LEFT - RIGHT)
        return round(right, 1), round(HEIGHT - BOTTOM - y / (y_step * y_steps) * (HEIGHT - TOP - BOTTOM), 1)

    x_end, y_end = x_step * x_steps, y_step * y_steps
    described = f"{escape(y_name)} against {escape(x_name)}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{described}">',
        f"<style>{STYLE}</style>",
    ]
    for number in range(x_steps + 1):
        (x, y), (_, top) = place(number * x_step, 0), place(0, y_end)
        parts.append(f'<path class="grid" d="M{x} {y} V{top}"/>')
        parts.append(f'<text class="t" x="{x}" y="{y + 18}" text-anchor="middle">{number * x_step:g}</text>')
    for number in range(y_steps + 1):
        (x, y), (right, _) = place(0, number * y_step), place(x_end, 0)
        parts.append(f'<path class="grid" d="M{x} {y} H{right}"/>')
        parts.append(f'<text class="t" x="{x - 8}" y="{y + 4}" text-anchor="end">{number * y_step:g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="t" x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x_name)}</text>')
    parts.append(f'<text class="t" x="{LEFT}" y="{TOP - 10}">{escape(y_name)}</text>')
    for number, one in enumerate(series):
        parts += _curve(number, one, [place(x, y) for x, y, _ in one.points])
    return "\n".join([*parts, "</svg>", ""])


def _curve(number: int, series: Series, places: Sequence[tuple[float, float]]) -> list[str]:
    line = " L".join(f"{x} {y}" for x, y in places)
    parts = [f'<path class="c{number} line" d="M{line}"/>']
    for (x, y), (_, _, name) in zip(places, series.points, strict=True):
        parts.append(f'<circle class="c{number}" cx="{x}" cy="{y}" r="3.5"/>')
        parts.append(f'<text class="c{number} n" x="{x + 6}" y="{y - 6}">{escape(name)}</text>')
    at = TOP + 14 + 18 * number
    parts.append(
        f'<text class="c{number} n" x="{WIDTH - RIGHT}" y="{at}" text-anchor="end">{escape(series.name)}</text>'
    )
    return parts


def _scale(values: Sequence[float]) -> tuple[float, int]:
    """Give the distance of an axis' lines, 1, 2 or 5 times a power of ten, and how many are needed, at most 10."""
    most = max(values)
    power = 10.0 ** math.floor(math.log10(most / 10))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if most <= 10 * power * factor)
    return step, math.ceil(most / step)

"""Renders the page: one HTML document that loads nothing.

Problem: names in a log are whatever somebody wrote into a cluster or an audit file, and the page is opened by people
with rights. Invariant: text from the log is never markup or script. In the template it is escaped; the data is
compressed and in base64, which has no character that HTML knows; and the policy in the page lets no script run but the
two whose hashes it names, and nothing be loaded. Reason for compressing: the chart library alone has 4.8 MB, and a
page is sent around.
"""

import base64
import gzip
import hashlib
from collections.abc import Iterator
from importlib import resources
from importlib.metadata import version

import jinja2
import msgspec
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from controller import moments
from controller.history.audit_report import short
from controller.reporting.model import Page

SWAPS_MAX = 6
"""Exchanges of indices that the summary tells one by one."""


class Headline(msgspec.Struct, frozen=True):
    """A line of the summary and where it leads."""

    severity: str
    badge: str
    text: str
    target: str


class Library(msgspec.Struct, frozen=True):
    """The chart library: as a source of the page's policy, and packed."""

    source: str
    packed: str


def library() -> Library:
    """Load the chart library that ships in the `plotly` package."""
    charts = get_plotlyjs()
    return Library(_source(charts), _packed(charts.encode()))


def render(page: Page, charts: Library) -> bytes:
    """Give the HTML document; equal pages give equal bytes."""
    assets = resources.files("controller.reporting") / "assets"
    style, script = ((assets / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters.update(_filters(page))
    template = environment.from_string((assets / "page.html").read_text(encoding="utf-8"))
    document = template.render(
        page=page,
        headlines=list(headlines(page)),
        policy=policy(_source(script), charts.source),
        style=Markup(style),  # noqa: S704 - ours
        script=Markup(script),  # noqa: S704 - ours
        data=_packed(msgspec.json.encode(page.data)),
        charts=charts.packed,
        version=version("cliquelog"),
    )
    return document.encode("utf-8", "backslashreplace")


def policy(*scripts: str) -> str:
    """Give the content security policy that lets these scripts run, which are named by their hashes.

    What is not named is refused, above all every address.

    The chart library makes style sheets of its own when it starts, so those are allowed; style attributes are not.
    """
    return (
        f"default-src 'none'; script-src {' '.join(scripts)}; style-src-elem 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()


def headlines(page: Page) -> Iterator[Headline]:
    """Give the lines of the summary: who exchanged an index, then the findings by code, worst first."""
    told: set[tuple[str, str, str]] = set()
    for one in page.moves:
        now, partner = one.move.begun, one.move.partner
        if not partner or (now.clique, now.node, partner) in told:
            continue
        if len(told) == SWAPS_MAX:
            yield Headline("error", "more", "More nodes exchanged indices: see the list", "#moves")
            break
        told.add((now.clique, partner, now.node))
        target = "#moves" if one.section is None else f"#clique-{one.section}"
        text = (
            f"{now.node} and {partner} exchanged indices {one.move.ended.index} and {now.index}, "
            f"from {moments.clock(now.begin.time_ms)} on"
        )
        yield Headline("error", "swap", text, target)
    for group in page.groups:
        yield Headline(group.severity, group.severity, f"{group.title} ({group.count:,})", f"#{group.code}")


def _filters(page: Page) -> dict[str, object]:
    return {
        "utc": moments.rfc3339,
        "clock": moments.clock,
        "after": lambda time_ms: moments.relative(time_ms, page.data.begin_ms),
        "seconds": lambda ms: "not formed" if ms is None else f"{ms / 1000:,.1f} s",
        "width": _width,
        "short": short,
    }


def _width(width_ms: int) -> str:
    if width_ms < 1000:
        return f"{width_ms} ms"
    return f"{width_ms // 1000} s" if width_ms < 120_000 else f"{width_ms // 60_000} min"

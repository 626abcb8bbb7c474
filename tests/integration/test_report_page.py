"""The report in a real browser: it says what it should, loads nothing, is usable by keyboard, in the dark, on paper.

Each test ends with the check that the page complained of nothing and asked for nothing but itself.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from bench.workload import Shape, entries
from eventlog.memory import MemoryLog
from tests.history.histories import audit_log, imported
from tests.history.pages import HOSTILE, log_with_names, odd_log, page_of
from tests.integration.browser import NoBrowser, Visit, running

pytestmark = pytest.mark.integration

SHAPE = Shape(cliques=280, nodes=18)
RECORDS = 40_000
"""The domain of 5,040 nodes is formed by then."""
CONTRAST = 4.5
"""WCAG 2.2, success criterion 1.4.3, level AA."""

Open = Callable[..., Visit]
"""Opens a file as a visit; options are those of Visit."""
PAPER = ".chart .main-svg"
DRAWN = ".chart .main-svg:first-child"
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(15, 20, 25)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    try:
        with running() as browser:
            yield browser
    except NoBrowser as error:
        pytest.fail(str(error), pytrace=False)


def write(making: Coroutine[Any, Any, MemoryLog], path: Path) -> Path:
    """Write the page of the log, in a thread of its own: Playwright's loop holds this one."""

    async def made() -> str:
        return await page_of(await making)

    with ThreadPoolExecutor(max_workers=1) as pool:
        path.write_text(pool.submit(asyncio.run, made()).result(), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def incident(folder: Path) -> Path:
    return write(imported([audit_log("peer-churn-54")]), folder / "incident.html")


@pytest.fixture(scope="module")
def fleet(folder: Path) -> Path:
    async def made() -> MemoryLog:
        log = MemoryLog(partitions=24)
        await log.append(list(entries(SHAPE, RECORDS, seed=1)))
        return log

    return write(made(), folder / "fleet.html")


@pytest.fixture
def visit(browser: Browser) -> Iterator[Open]:
    """Opens pages that must complain of nothing and ask for nothing but themselves."""
    visits: list[Visit] = []

    def open_(file: Path, **options: Any) -> Visit:  # noqa: ANN401 - Playwright's
        visits.append(Visit(browser, file, **options))
        return visits[-1]

    yield open_
    for one in visits:
        one.close()
        assert one.said == []
        assert one.asked == [one.address]


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.getAttribute('href') ?? document.activeElement.id"))


def test_a_page_of_an_incident_opens_with_the_clique_that_matters(visit: Open, incident: Path) -> None:
    page = visit(incident).ready()

    assert page.locator(".headlines li").first.inner_text() == (
        "swap node-00020 and node-00033 exchanged indices 11 and 9, from 12:24:50.094 on"
    )
    assert page.locator("details.clique[open]").count() == 1
    bars = page.locator("details.clique[open] .bartext").all_text_contents()
    assert bars.count("node-00004") == bars.count("node-00011") == 2
    assert page.locator("details.clique[open] tbody tr").count() == 22


def test_nothing_of_a_page_of_5040_nodes_is_drawn_before_it_is_looked_at(visit: Open, fleet: Path) -> None:
    page = visit(fleet).ready()
    assert page.locator("details.clique").count() == SHAPE.cliques
    expect(page.locator(DRAWN)).to_have_count(2)

    page.fill("#filter", "node-0123-07")
    section = page.locator("details.clique:visible")
    assert section.count() == 1
    assert page.locator("#shown").inner_text() == "1 of 280"
    section.locator("summary").click()
    section.locator(".main-svg").first.wait_for()
    expect(page.locator(DRAWN)).to_have_count(4)
    assert "node-0123-07" in section.locator(".bartext").all_text_contents()

    section.locator("summary").click()
    expect(page.locator(DRAWN)).to_have_count(2)
    page.fill("#filter", "")
    assert page.locator("details.clique:visible").count() == SHAPE.cliques
    page.select_option("#order", "clique")
    names = page.locator("details.clique code").all_inner_texts()
    assert [int(name.rpartition(".")[2]) for name in names] == list(range(SHAPE.cliques))


def test_a_page_is_used_by_keyboard_alone(visit: Open, incident: Path) -> None:
    page = visit(incident).ready()
    page.keyboard.press("Tab")
    assert focused(page) == "#findings", "the skip link comes first"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "findings"

    for _ in range(10):
        page.keyboard.press("Tab")
        if focused(page).startswith("#record-"):
            break
    link = focused(page)
    assert link.startswith("#record-")
    page.keyboard.press("Enter")
    dialog = page.locator("dialog[open]")
    dialog.wait_for()
    assert page.evaluate("document.activeElement.id") == "record-title"
    assert dialog.locator("h2").inner_text() == f"Record {link.removeprefix('#record-').replace('-', '/')}"
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    assert focused(page) == link, "focus goes back to where it was"

    page.locator("#clique-1 summary").focus()
    page.keyboard.press("Enter")
    page.locator("#clique-1 .bartext").first.wait_for()
    expect(page.locator(DRAWN)).to_have_count(6)


def contrast(of: Locator) -> float:
    """Give the contrast of an element's text with what is behind it, as WCAG reckons it."""
    measured = of.evaluate(
        """element => {
            const rgb = text => text.match(/[\\d.]+/g).map(Number);
            const light = text => rgb(text).slice(0, 3).map(v => v / 255)
                .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
                .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
            let behind = element;
            const under = one => getComputedStyle(one).backgroundColor;
            while (behind.parentElement && rgb(under(behind))[3] === 0) behind = behind.parentElement;
            const both = [getComputedStyle(element).color, under(behind)].map(light);
            return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
        }"""
    )
    return float(measured)


@pytest.mark.parametrize(("scheme", "paper"), [("light", LIGHT), ("dark", DARK)])
def test_text_stands_out_in_light_and_in_dark(visit: Open, incident: Path, scheme: str, paper: str) -> None:
    page = visit(incident, color_scheme=scheme).ready()

    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == paper
    for selector in (
        "h1",
        "header p",
        ".headlines a",
        ".badge.error",
        ".badge.warning",
        "td",
        ".after",
        ".record",
        "dt",
    ):
        assert contrast(page.locator(selector).first) >= CONTRAST, selector


def test_charts_follow_the_scheme_when_it_changes(visit: Open, incident: Path) -> None:
    page = visit(incident, color_scheme="light").ready()
    assert paper_of(page) == LIGHT
    page.emulate_media(color_scheme="dark")
    expect(page.locator(PAPER).first).to_have_css("background-color", DARK)


def paper_of(page: Page) -> str:
    return str(page.locator(PAPER).first.evaluate("chart => getComputedStyle(chart).backgroundColor"))


def test_a_page_in_the_dark_is_printed_on_white_and_fits_the_paper(visit: Open, incident: Path) -> None:
    page = visit(incident, color_scheme="dark", viewport={"width": 1600, "height": 900}).ready()
    assert paper_of(page) == DARK
    page.emulate_media(media="print")
    expect(page.locator(PAPER).first).to_have_css("background-color", LIGHT)
    widths = page.locator(PAPER).evaluate_all("all => all.map(one => one.getBoundingClientRect().width)")
    assert max(widths) <= 690
    assert page.locator("nav").is_hidden()
    assert page.locator("#filter").is_hidden()
    printed = page.pdf(format="A4")
    assert printed.startswith(b"%PDF-")
    assert 2 <= printed.count(b"/Type /Page\n") <= 8


def test_text_can_be_selected(visit: Open, incident: Path) -> None:
    page = visit(incident).ready()
    page.locator("#moves ~ .scroll tbody th").first.click(click_count=3)
    assert "node-00020" in page.evaluate("getSelection().toString()")
    page.keyboard.press("Control+A")
    selected = page.evaluate("getSelection().toString()")
    for text in ("exchanged indices 11 and 9", "row removed by compute-domain-controller", "audit.jsonl.gz:860"):
        assert text in selected


def test_a_link_to_a_record_or_a_clique_opens_it_when_the_page_opens(visit: Open, incident: Path) -> None:
    page = visit(incident).ready()
    page.evaluate("location.hash = '#record-0-196'")
    page.locator("dialog[open]").wait_for()
    shown = page.locator("dialog").inner_text()
    assert "row of node node-00004 went: it had index 6, 10.64.0.4, Ready" in shown
    assert "audit.jsonl.gz:860" in shown
    page.evaluate("location.hash = '#clique-2'")
    page.locator("#clique-2 .bartext").first.wait_for()
    assert not page.locator("dialog").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_names_that_want_to_be_markup_are_text(visit: Open, folder: Path, scheme: str) -> None:
    file = write(log_with_names(HOSTILE), folder / f"hostile-{scheme}.html")
    page = visit(file, color_scheme=scheme).ready()
    title = page.title()
    for number in range(len(HOSTILE)):
        section = page.locator(f"#clique-{number}")
        if not section.evaluate("details => details.open"):
            section.locator("summary").click()
        section.locator(".bartext").first.hover(force=True)
        section.locator(".record").first.click()
        page.locator("dialog[open]").wait_for()
        page.keyboard.press("Escape")
    assert page.title() == title == "cliquelog report: memory:log"
    links = page.locator("a").evaluate_all("all => all.map(one => one.getAttribute('href') ?? one.href.baseVal)")
    assert all(link.startswith("#") for link in links)
    assert page.locator("img, iframe, object, embed, .chart b, .chart i, [onload], [onerror]").count() == 0
    shown = page.locator("main").inner_text()
    for name in HOSTILE[:7]:
        assert " ".join(name.split()) in " ".join(shown.split()), name


def test_a_page_of_nothing_and_one_beyond_reason_open_as_well(visit: Open, folder: Path) -> None:
    async def nothing() -> MemoryLog:
        return MemoryLog(partitions=3)

    assert "the log is empty" in visit(write(nothing(), folder / "empty.html")).ready().inner_text("header")
    page = visit(write(odd_log(), folder / "odd.html")).ready()
    for section in page.locator("details.clique:not([open]) summary").all():
        section.click()
    expect(page.locator(DRAWN)).to_have_count(6)
    assert page.locator("details.clique tbody tr").count() == 200
    assert max(page.locator(PAPER).evaluate_all("all => all.map(one => one.clientHeight)")) < 2000


def test_without_scripts_the_findings_are_there(visit: Open, incident: Path) -> None:
    page = visit(incident, java_script_enabled=False).page

    assert page.locator(".notice").first.is_visible()
    assert page.locator("#index-not-kept tbody tr").count() == 4


def test_the_policy_refuses_what_a_page_must_not_do(browser: Browser, incident: Path) -> None:
    visit = Visit(browser, incident)
    page = visit.ready()
    page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "document.title = 'owned'";
            document.body.append(script);
            const image = document.createElement("img");
            image.src = "https://example.invalid/image.png";
            document.body.append(image);
            fetch("https://example.invalid/data").catch(() => undefined);
        }"""
    )
    page.wait_for_timeout(500)
    title = page.title()
    visit.close()

    assert title == "cliquelog report: memory:log"
    for what in ("Executing inline script", "Loading the image", "Connecting to 'https://example.invalid/data'"):
        assert any(what in text and "Content Security Policy" in text for text in visit.said), what


def test_these_tests_would_see_what_a_page_asks_for(browser: Browser, incident: Path, folder: Path) -> None:
    policy = "default-src &#39;none&#39;"
    text = incident.read_text(encoding="utf-8")
    assert policy in text
    open_page = folder / "open.html"
    open_page.write_text(
        text.replace(policy, "default-src https:").replace("</main>", "<img src=https://example.invalid/seen></main>"),
        encoding="utf-8",
    )
    visit = Visit(browser, open_page)
    visit.ready()
    visit.close()

    assert "https://example.invalid/seen" in visit.asked
    assert any("ERR_" in text for text in visit.said)

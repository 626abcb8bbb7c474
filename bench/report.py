"""How long `cliquelog report` takes for the log of a whole formation, and its page to open in a browser.

The log is that of `cliquelog simulate`, the browser this machine's own Chromium, headless, a new profile each time: no
load finds anything in a cache. Each figure of the page is by the clock, from the request to open it, with what it takes
to be told of it.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import Browser, Page

from bench.real import simulated
from bench.tables import Table
from simulation.formation import Plan
from tests.integration.browser import Visit, running

CLIQUE_SIZE = 18
LOADS = 5


class ReportFailed(Exception):
    """A page did not come about, or not as it should; the message is what was said."""


def measure(nodes: int, folder: Path) -> list[Table]:
    """Form the domain, report on its log, and open the page. Raises SimulationFailed, ReportFailed, NoBrowser."""
    log, page = folder / "log.sqlite", folder / "page.html"
    formed = simulated(Plan(nodes, CLIQUE_SIZE, seed=1, window_s=11.0, wave=nodes), log)
    made = Table(
        f"Report on the log of a formation of {nodes:,} nodes, {formed.result.records:,} records",
        ("figure", "value"),
        (*_report(log, page), ("page, MB", page.stat().st_size / 1e6)),
    )
    return [made, _opened(page)]


def _report(log: Path, page: Path) -> tuple[tuple[str, float], ...]:
    began = time.perf_counter()
    command = [sys.executable, "-m", "controller", "report", f"sqlite:{log}", "-o", str(page)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise ReportFailed(f"{' '.join(command)} ended with {process.returncode}")
    return (
        ("by the clock, s", time.perf_counter() - began),
        ("CPU, s", used.ru_utime + used.ru_stime),
        ("memory at most, MiB", used.ru_maxrss / 1024),
    )


def _opened(page: Path) -> Table:
    with running() as browser:
        runs = [_load(browser, page) for _ in range(LOADS)]
        version = browser.version
    rows = tuple(
        (
            name,
            statistics.median(run[name] for run in runs),
            min(run[name] for run in runs),
            max(run[name] for run in runs),
        )
        for name in runs[0]
    )
    title = f"The page in Chromium {version}, headless, {LOADS} loads (goal: 3 s)"
    return Table(title, ("from opening it until", "median s", "least s", "most s"), rows)


def _load(browser: Browser, file: Path) -> dict[str, float]:
    began = time.perf_counter()
    visit = Visit(browser, file)
    try:
        page = visit.ready()
        drawn = time.perf_counter() - began
        if visit.said:
            raise ReportFailed("; ".join(visit.said))
        painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000")
        return {
            "its text shows": float(painted),
            "its charts are drawn": drawn,
            "the same, in CPU time of its process": _cpu(page),
            **_used(page),
        }
    finally:
        visit.close()


def _cpu(page: Page) -> float:
    """Give the processor's time, in seconds, that the page's own process has had."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(float(one["value"]) for one in metrics if one["name"] == "ProcessTime")


def _used(page: Page) -> dict[str, float]:
    began = time.perf_counter()
    page.locator("details.clique summary").last.click()
    page.locator("details.clique[open] .bartext").first.wait_for()
    opened = time.perf_counter()
    page.fill("#filter", "node-0000")
    page.locator("#shown", has_text="1 of").wait_for()
    return {
        "a clique is opened (from the click)": opened - began,
        "filtered (from the key)": time.perf_counter() - opened,
    }

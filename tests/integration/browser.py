"""A real browser, and all that a page says and asks for in it.

The browser is this machine's own Chromium; without one a test fails. `python -m tests.integration.browser` installs it
where there is none, from Debian's packages: Playwright's own builds would come from elsewhere.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
READY = "main[aria-busy=false]"
LOAD_MS = 60_000
"""A page that is not drawn by then never will be: this is no measurement."""


class NoBrowser(Exception):
    """There is none; the message names the mend."""


def find_browser() -> str:
    """Give the path of a browser. Raises NoBrowser."""
    for program in PROGRAMS:
        if path := shutil.which(program):
            return path
    raise NoBrowser(f"no browser was found ({', '.join(PROGRAMS)}): run `make browser`")


@contextmanager
def running() -> Iterator[Browser]:
    """Run a browser without a window. Raises NoBrowser."""
    path = find_browser()
    # Chromium's own sandbox refuses to be root's.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """A page that was opened: `said` is what it complained of, `asked` each address that it asked for."""

    def __init__(self, browser: Browser, file: Path, **options: Any) -> None:  # noqa: ANN401 - Playwright's
        """Open the file in a browser of its own settings; `options` are those of Playwright's contexts."""
        self.said: list[str] = []
        self.asked: list[str] = []
        self._context: BrowserContext = browser.new_context(**options)
        self.page: Page = self._context.new_page()
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.said.append(f"dialog: {dialog.message}"))
        self._context.on("request", lambda request: self.asked.append(request.url))
        self.address = file.resolve().as_uri()
        self.page.goto(self.address)

    def ready(self) -> Page:
        """Wait until all that is open is drawn, and give the page."""
        self.page.wait_for_selector(READY, timeout=LOAD_MS)
        return self.page

    def close(self) -> None:
        """Close it."""
        self._context.close()


def install() -> str:
    """Give the path of a browser, which is installed if there is none. Raises NoBrowser."""
    try:
        return find_browser()
    except NoBrowser:
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            raise NoBrowser("no browser was found: install Chromium (on Debian: apt-get install chromium)") from None
    subprocess.run(["apt-get", "update", "-qq"], check=True)
    # Fonts are only recommended there; without one a page has no text.
    words = ["--yes", "-qq", "--no-install-recommends", "chromium", "fonts-dejavu-core"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "install", *words], env=environment, stdout=subprocess.DEVNULL, check=True)
    return find_browser()


if __name__ == "__main__":
    try:
        print(f"browser: {install()}")
    except NoBrowser as error:
        sys.exit(str(error))

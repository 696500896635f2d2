"""A real Chromium, that of the system, which looks at pages as people do."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

WIDE, NARROW = 1280, 390
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
#: What axe calls a hindrance for somebody; below are matters of taste.
_SERIOUS = ("serious", "critical")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Skips where there is none, but fails in continuous integration."""
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        words = f"none of {', '.join(_PROGRAMS)} is on this machine"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    with sync_playwright() as playwright:
        # Its sandbox needs a user other than root; what it opens here are pages of this test alone. A container's
        # /dev/shm may be too small for it.
        options = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        browser = playwright.chromium.launch(executable_path=program, args=options)
        yield browser
        browser.close()


class Watched:
    """A page that remembers what its console complained about."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def check(self) -> None:
        """No complaint, nothing to scroll sideways, nothing that hinders somebody."""
        assert self.complaints == [], self.page.url
        wide = self.page.evaluate("document.scrollingElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{self.page.url} is {wide} pixels too wide"
        found = Axe().run(self.page).response["violations"]
        serious = [(each["id"], [node["html"][:200] for node in each["nodes"]][:3]) for each in found
                   if each["impact"] in _SERIOUS]  # fmt: skip
        assert serious == [], f"{self.page.url}: {serious}"

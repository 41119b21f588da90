"""Pages in a real browser: Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""


@contextmanager
def open_page(url: str, *, width: int = 1200, dark: bool = False) -> Iterator[tuple[Page, list[str]]]:
    """A page, and all that it asks for beside itself and tells on the console from then on."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light")
        told: list[str] = []
        page.on("request", lambda request: told.append(request.url))
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.goto(url)
        assert told.pop(0) == url
        yield page, told
        browser.close()

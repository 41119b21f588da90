"""Pages in a real browser: Chromium, driven by Playwright."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@contextmanager
def open_page(browser: Browser, url: str, *, width: int = 1200, dark: bool = False) -> Iterator[tuple[Page, list[str]]]:
    """A page, and all that it asks for beside itself and tells on the console from then on."""
    with browser.new_page(viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light") as page:
        told: list[str] = []
        page.on("request", lambda request: told.append(request.url))
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.goto(url)
        assert told.pop(0) == url.partition("#")[0]
        yield page, told

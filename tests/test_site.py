"""The documentation as a site: what a browser makes of every page, with no other machine to ask."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from tests.documentation import DOCS, ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

PHONE = {"width": 360, "height": 740}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, served on this machine."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder], cwd=ROOT, check=True)
    assert not [page.name for page in DOCS.glob("*.md") if not (folder / page.with_suffix(".html").name).is_file()]
    assert (folder / "mha_cli" / "layers" / "attention.py").read_bytes() == (ROOT / "mha_cli" / "layers" / "attention.py").read_bytes()
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_a_phone_shows_every_page_and_asks_nobody_else(site: str, browser: Browser) -> None:
    faults: list[str] = []
    asked: set[str] = set()

    def look(page: Any, name: str, scheme: str) -> None:
        page.goto(site + name)
        width, red = page.evaluate(
            "[document.documentElement.scrollWidth, getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]]"
        )
        assert width == PHONE["width"], f"{name} is {width} wide"
        assert (int(red) > 127) == (scheme == "light"), f"{name}: {red}"

    for scheme in ("light", "dark"):
        page = browser.new_page(viewport=PHONE, color_scheme=scheme)  # type: ignore[arg-type]
        page.on("request", lambda request: asked.add(request.url))
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        look(page, "index.html", scheme)
        links = page.eval_on_selector_all("nav a[href$='.html']", "all => all.map(one => one.href)")
        names = {link.rpartition("/")[2] for link in links}
        assert len(names) > len(list(DOCS.glob("*.md")))  # the README, too
        for name in sorted(names) if scheme == "light" else []:
            look(page, name, scheme)
        page.keyboard.press("f")
        page.keyboard.type("subwords")
        page.wait_for_selector(".md-search-result__item a[href*='train.html#subwords']")
    assert faults == []
    assert [url for url in asked if not url.startswith((site, "data:", "blob:"))] == []

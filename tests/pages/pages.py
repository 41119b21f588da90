"""What is asked of every page that a command writes for a browser."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

HOSTILE = "</script><b>& the <!-- film \u2028 'was' \"not\" \x1b[31m ${superb} `a` \u202e"
"""Might end the script that it stands in, or start something of its own."""


class Parsed(HTMLParser):
    """The tags of a page, its ids, what it refers to, its text and its scripts; no attribute may be code."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.policies: list[str] = []
        self.scripts: list[str] = []
        self.text = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = {name: value or "" for name, value in attrs}
        assert not [name for name in found if name.startswith("on")]
        self.ids += [found["id"]] if "id" in found else []
        self.references += [found[name] for name in {"href", "src", "srcset", "action", "data", "poster", "xlink:href"} & found.keys()]
        self.references += [f"#{found['aria-labelledby']}"] if "aria-labelledby" in found else []
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policies.append(found["content"])

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.tags and self.tags[-1] == "script" and data.strip():
            self.scripts.append(data)


def data_of(path: Path) -> dict[str, Any]:
    """What a page shows, once it is certain that it needs nothing but itself and that its data are nothing but data."""
    source = path.read_text(encoding="utf-8")
    page = Parsed(source)
    assert [reference for reference in page.references if not reference.startswith("#")] == []
    assert "http:" not in source and "https:" not in source and "url(" not in source and "@import" not in source
    assert page.policies == ["default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"]
    assert page.tags.count("script") == 1
    assert source.count("</script") == 1
    assert not {"link", "img", "iframe", "object"} & set(page.tags)
    (script,) = page.scripts
    assert {*page.ids} == set(re.findall(r'getElementById\("(\w+)"\)', script))
    for wanted in ("prefers-color-scheme: dark", ":focus-visible", 'aria-live="polite"', 'name="viewport"'):
        assert wanted in source
    assert not re.search(r"/\*[A-Z]+\*/", source)  # all that belongs into the template is in it
    assert "innerHTML" not in script and "document.write" not in script and "eval(" not in script
    found = re.search(r"^const data = (.*);$", script, re.MULTILINE)
    assert found is not None
    assert found[1].isascii()
    assert not set("<>&") & set(found[1])
    return json.loads(found[1])

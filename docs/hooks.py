"""What MkDocs is told beside mkdocs.yml: these pages stand in a repository, and link to what lies in it beside ``docs/``.

Groups, titles and order of the pages are those of ``index.md``. What a page links to beside ``docs/`` becomes part of the site: pages
under names of their own, other files (sources, pictures) as they are; of a link to a folder its text is left.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
BESIDE = {
    "README.md": "overview.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "measuring.md",
}
"""Pages beside ``docs/``, and their names in the site."""
LINK = re.compile(r"(\[[^\]]*\])\(([^)\s:#]+)(#[^)\s]*)?\)")
"""A link to another file: its text, the file and the anchor; none with a scheme."""
ROW = re.compile(r"^\| \[([^\]]*)\]\(([^)]+)\)", re.MULTILINE)
"""The first cell of a row that is a link: a page of the navigation."""
CODE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> None:
    """Take the navigation from the sections of ``index.md`` and their tables."""
    _, *sections = (ROOT / "docs" / "index.md").read_text("utf-8").split("\n## ")
    groups = [
        {section.partition("\n")[0]: [{title: site_name("docs", link)} for title, link in ROW.findall(section)]} for section in sections
    ]
    config.nav = [{"Start": "index.md"}, *groups]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages beside ``docs/``."""
    for name, uri in BESIDE.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / name)))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to where their targets are in the site."""
    uri = page.file.src_uri
    folder = posixpath.dirname({site: name for name, site in BESIDE.items()}.get(uri, f"docs/{uri}"))

    def lead(link: re.Match[str]) -> str:
        name = site_name(folder, link[2])
        if not files.get_file_from_path(name):
            if not (ROOT / name).is_file():
                return link[1][1:-1]
            files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
        return f"{link[1]}({posixpath.relpath(name, posixpath.dirname(uri) or '.')}{link[3] or ''})"

    return "".join(part if part.startswith("```") else LINK.sub(lead, part) for part in CODE.split(markdown))


def site_name(folder: str, target: str) -> str:
    """The name in the site of what a page in a folder of the repository links to."""
    name = posixpath.normpath(posixpath.join(folder, target))
    return BESIDE.get(name, name.removeprefix("docs/"))

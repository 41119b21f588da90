"""What MkDocs is told beside mkdocs.yml: these pages stand in a repository, and link to what lies in it beside ``docs/``.

Groups and order of the pages are those of ``index.md``. Pages and pictures from beside ``docs/`` are part of the site; a link to any other file
of the repository leads there where ``repo_url`` says where that is, and is plain text where nothing does.
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
    "benchmarks/README.md": "benchmarks.md",
} | {name: name for name in (path.relative_to(ROOT).as_posix() for path in (ROOT / "benchmarks" / "results").rglob("*.png"))}
"""Files of the repository that are part of the site, and their names in it."""
LINK = re.compile(r"(\[[^\]]*\])\(([^)\s:#]+)(#[^)\s]*)?\)")
"""A link to another file: its text, the file and the anchor; none with a scheme."""
GROUP = re.compile(r"^([A-Z][\w ]+)\b.*:\n\n((?:\|.*\n)+)", re.MULTILINE)
CODE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> None:
    """Take the navigation from the tables of ``index.md``."""
    tables = GROUP.findall((ROOT / "docs" / "index.md").read_text("utf-8"))
    config.nav = ["index.md", *({title: [site_name("docs", link) for _, link, _ in LINK.findall(table)]} for title, table in tables)]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add what lies beside ``docs/``."""
    for name, uri in BESIDE.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / name)))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to where their targets are in the site."""
    uri = page.file.src_uri
    folder = posixpath.dirname({site: name for name, site in BESIDE.items()}.get(uri, f"docs/{uri}"))

    def lead(link: re.Match[str]) -> str:
        name = site_name(folder, link[2])
        if files.get_file_from_path(name):
            return f"{link[1]}({posixpath.relpath(name, posixpath.dirname(uri) or '.')}{link[3] or ''})"
        return f"{link[1]}({config.repo_url}/{name})" if config.repo_url else link[1][1:-1]

    parts = CODE.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(lead, part) for part in parts)


def site_name(folder: str, target: str) -> str:
    """The name in the site of what a page in a folder of the repository links to; of what is not in it, that in the repository."""
    name = posixpath.normpath(posixpath.join(folder, target))
    return BESIDE.get(name, name.removeprefix("docs/"))

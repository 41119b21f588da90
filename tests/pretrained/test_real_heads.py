"""The heads of a real encoder look where docs/attention.md says."""

import os
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.command import run_here
from tests.documentation import DOCS, fits, text_block

HEADING = "## Heads of a pretrained encoder"
RIVERS = [f"What river flows through {town} ?,LOC" for town in ("Rome", "Cairo", "London", "Vienna", "Prague", "Boston")]
WRITERS = [f"Who wrote the novel {title} ?,HUM" for title in ("Emma", "Ulysses", "Dracula", "Rebecca", "Kim", "Lolita")]


@pytest.mark.minilm
def test_the_commands_of_the_chapter_print_what_it_shows(tmp_path: Path) -> None:
    chapter = (DOCS / "attention.md").read_text("utf-8").partition(HEADING)[2].partition("\n## ")[0]
    (tmp_path / "encoder").symlink_to(os.environ["MHA_MINILM"])
    (tmp_path / "docs" / "figures").mkdir(parents=True)
    for name in ("questions.csv", "questions-test.csv"):
        (tmp_path / name).write_text("\n".join(["text,label", *RIVERS, *WRITERS]))
    printed = {}
    for line in re.findall(r"^(?:\$ )?(mha .*)$", chapter, re.MULTILINE):
        result = run_here(*shlex.split(line)[1:], cwd=tmp_path).well()
        printed[line] = result.stdout
    (shown,) = (line for line in printed if "--head 2" in line)
    assert fits(printed[shown], text_block("attention.md", shown))
    (table,) = (output for line, output in printed.items() if line.startswith("mha heads"))
    looks_at = {tuple(map(int, row[:2])): (row[2], int(row[3])) for row in re.findall(r"(\d+) +│ (\d+) .*│ +(\w+) (\d+)% +│", table)}
    assert len(looks_at) == 72
    assert looks_at[0, 2] == ("previous", 100)
    assert looks_at[1, 8][0] == "next"
    assert looks_at[2, 4][0] == "first"
    assert len(list((tmp_path / "docs" / "figures").iterdir())) == 2

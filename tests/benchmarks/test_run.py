import re

import harness
from run import SCRIPTS


def test_what_the_page_gives_a_results_file_is_run() -> None:
    page = (harness.ROOT / "benchmarks" / "README.md").read_text("utf-8")
    without_folder = re.findall(r"^\| `(\w+\.py)(?: --[^`]+)?` \|.*\.json`.*\|$", page, re.MULTILINE)
    assert {line.split()[0] for line, _ in SCRIPTS.values()} == set(without_folder)

import re

import harness
from run import SCRIPTS, TRY_OUTS


def test_what_the_page_gives_a_results_file_is_run_and_tried_out() -> None:
    page = (harness.ROOT / "benchmarks" / "README.md").read_text("utf-8")
    without_folder = re.findall(r"^\| `(\w+\.py)(?: --[^`]+)?` \|.*\.json`.*\|$", page, re.MULTILINE)
    assert {script for script, *_ in SCRIPTS.values()} == set(without_folder)
    assert SCRIPTS.keys() == TRY_OUTS.keys()

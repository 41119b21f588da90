import json
import sys
from contextlib import ExitStack
from pathlib import Path

import harness
import pytest

WORKER = """
import sys
import harness

print("chatter", end="")
log = open(sys.argv[1], "a")

def answer(number):
    print("more chatter")
    print(sys.argv[2], number, file=log, flush=True)
    return [sys.argv[2], 10 // number]

harness.serve(answer)
"""


def made(system: str, seed: int | None, accuracy: float) -> harness.Record:
    return {"settings": {"system": system, "seed": seed}, "figures": {"accuracy": accuracy}}


def test_merging_replaces_the_records_with_the_same_settings_only(tmp_path: Path) -> None:
    path = tmp_path / "results" / "accuracy.json"
    harness.merge_records(path, [made("b", 0, 0.5), made("b", 1, 0.6), made("a", None, 0.7)])
    merged = harness.merge_records(path, [made("b", 1, 0.65432198)])
    assert merged == [made("b", 0, 0.5), made("b", 1, 0.654322), made("a", None, 0.7)]
    assert json.loads(path.read_text()) == merged


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "worker.py"
    path.write_text(f"import sys\nsys.path.insert(0, {str(harness.ROOT / 'benchmarks')!r})\n" + WORKER)
    return path


def test_workers_are_asked_in_turn_and_the_first_round_does_not_count(script: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with ExitStack() as stack:
        workers = harness.start_all(stack, script, {name: (str(log), name) for name in "AB"})
        assert harness.ask_in_turn(workers, 2, number=5) == {"A": [["A", 2]] * 2, "B": [["B", 2]] * 2}
    assert log.read_text().split() == ["A", "5", "B", "5"] * 3


def test_a_worker_that_fails_says_why(script: Path, tmp_path: Path) -> None:
    with (
        harness.Worker(script, str(tmp_path / "log"), "A") as worker,
        pytest.raises(RuntimeError, match=r"(?s)ended with code 1.*ZeroDivisionError"),
    ):
        worker.ask(number=0)


def test_a_command_is_measured() -> None:
    finished = harness.run_command([sys.executable, "-c", "import time; held = bytearray(300_000_000); time.sleep(0.1); print('done')"])
    assert finished.stdout == "done\n"
    assert finished.seconds > 0.1
    assert finished.peak_megabytes > 300

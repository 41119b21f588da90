import json
from pathlib import Path
from typing import Any

import harness
import pytest
import readme_table
import tables

README = f"# mha\n\nBefore.\n\n{readme_table.BEGIN}\nold\n{readme_table.END}\n\nAfter.\n"


def record(settings: dict[str, Any], figures: Any, busy: float = 0.0) -> harness.Record:
    machine = {
        "cpu": "Some CPU",
        "cores": 2,
        "instructions": ["avx2"],
        "memory_gib": 24,
        "python": "3.11.7",
        "packages": {"torch": "2.13.0"},
    }
    return {"machine": machine, "date": "2030-01-02", "busy_share": busy, "settings": settings, "figures": figures}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    runs = [("fastText, bigrams", None, 0.9, 30.0), ("mha imdb", 0, 0.91, 250.0), ("mha imdb", 1, 0.93, 350.0)]
    accuracy = [record({"system": name, "seed": seed}, {"accuracy": share, "wall_seconds": wall}) for name, seed, share, wall in runs]
    for made, share in zip(accuracy[1:], (0.88, 0.89), strict=True):
        made["figures"]["parts"] = {"encoder": share, "encoder without heads": share / 2, "scores": 0.9}
    (folder / "accuracy.json").write_text(json.dumps(accuracy))
    figures = {
        "training": {"listing": [10.0, 20.0, 15.0], "torch": [40.0, 40.0, 38.0], "mha": [50.0, 60.0, 55.0]},
        "inference": {"listing": [100.0, 90.0, 100.0], "torch": [300.0, 300.0, 300.0], "mha": [1200.0, 1150.0, 1100.0]},
    }
    figures["inference"]["mha predict"] = [600.0, 590.0, 580.0]  # trains nothing
    (folder / "book.json").write_text(json.dumps(record({"reviews": 320, "rounds": 3}, figures, busy=0.5)))
    (folder / "accuracy.png").touch()
    return folder


def test_tables_are_made_of_the_results_that_there_are(results: Path) -> None:
    written = readme_table.with_tables(README, readme_table.full_tables(results))
    assert written.startswith(f"# mha\n\nBefore.\n\n{readme_table.BEGIN}\n")
    assert written.endswith(f"{readme_table.END}\n\nAfter.\n")
    assert "old" not in written
    assert "Some CPU, 2 cores (avx2), 24 GiB, Python 3.11.7, torch 2.13.0, 2030-01-02." in written
    assert (
        "| mha imdb | 92.00 ± 1.41 % | 88.50 % | 44.25 % | 90.00 % | 2 | 5 min | 10 |\n"
        "| fastText, bigrams | 90.00 % | – | – | – | 1 | 30 s | 1.00 |" in written
    )
    assert "](../benchmarks/results/accuracy.png)" in written
    assert "each at its best of 3 rounds.** Some CPU, 2 cores (avx2), 24 GiB, Python 3.11.7, torch 2.13.0, 2030-01-02, beside" in written
    assert "| mha | 60 | 3.00 | 1.50 | 1,200 | 12 | 4.00 |" in written
    assert "| mha predict | – | – | – | 600 | 6.00 | 2.00 |" in written
    assert readme_table.with_tables(written, readme_table.full_tables(results)) == written
    (table,) = readme_table.short_tables(results)  # chosen columns and systems; the other one has no results here
    expected = ["| system | test accuracy | reading and training |", "| --- | ---: | ---: |", "| fastText, bigrams | 90.00 % | 30 s |"]
    assert table.splitlines()[2:] == expected


def test_the_pages_have_the_tables_of_the_results_in_this_checkout() -> None:
    assert readme_table.main(["--check"]) == 0, "run python benchmarks/readme_table.py"


def test_a_machine_is_named_once_with_all_that_ran_on_it() -> None:
    runs = [record({"system": name, "seed": 0}, {"accuracy": 0.9, "wall_seconds": 1.0}) for name in ("a", "b", "c", "d")]
    runs[0]["machine"]["packages"] = {"fasttext": "0.9.3", "torch": "2.13.0", "numpy": "2.4.6"}
    runs[2]["machine"]["packages"] = {"torch": "2.14.0"}
    runs[3]["machine"]["cpu"] = "Other CPU"
    expected = (
        "Some CPU, 2 cores (avx2), 24 GiB, Python 3.11.7, torch 2.13.0 and 2.14.0, fastText 0.9.3; "
        "Other CPU, 2 cores (avx2), 24 GiB, Python 3.11.7, torch 2.13.0"
    )
    assert tables.accuracy(runs).machine == expected

"""Every command with a model of 77 classes with long names, on a terminal of 80 columns."""

import random
from pathlib import Path

import pytest

from tests.checkpoints import WORDS, small_checkpoint_file
from tests.cli.command import Mha, run_here
from tests.tables import write_table

NAMES = tuple(f"balance_not_updated_after_cheque_or_cash_deposit_{number:02}" for number in range(77))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint and labelled texts; two classes have none."""
    folder, rng = tmp_path_factory.mktemp("many"), random.Random(0)
    small_checkpoint_file(folder / "many.keras", NAMES)
    texts = [(" ".join(rng.choices(WORDS, k=5)), rng.choice(NAMES[2:])) for _ in range(300)]
    write_table(folder / "mine.csv", [*texts, *(("a film", name) for name in NAMES[2:])])
    return folder


@pytest.fixture
def mha(folder: Path, untraced: None) -> Mha:
    """``mha ARGS`` in that folder."""
    return lambda *args: run_here(*args, cwd=folder, env={"COLUMNS": "80"})


def test_the_worst_classes_and_the_most_frequent_confusions(mha: Mha) -> None:
    figures = mha("evaluate", "many.keras", "--data", "mine.csv", "--json").json
    counts = figures["confusion"]
    assert (len(counts), len(figures["classes"]), len(figures["confusions"])) == (77, 77, 15)
    for pair in figures["confusions"]:
        row = NAMES.index(pair["true"])
        assert pair["num_texts"] == counts[row][NAMES.index(pair["predicted"])]
        assert pair["share"] == pytest.approx(pair["num_texts"] / sum(counts[row]))
    shown = mha("evaluate", "many.keras", "--data", "mine.csv").stdout
    assert "The 15 classes of lowest F1, of 77 (--json has all)" in shown
    assert f"macro F1          │ {figures['macro_f1']:.4f}" in shown
    assert f"top-3 accuracy    │ {figures['top_3_accuracy']:.2%}" in shown
    for pair in figures["confusions"]:
        assert f"│ {pair['true']} →" in shown
        assert f"│ {pair['predicted']} " in shown


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "many.keras", "--data", "mine.csv"),
        ("shuffle-test", "many.keras", "--data", "mine.csv", "-n", "1"),
        ("heads", "many.keras", "--data", "mine.csv", "--max-texts", "5"),
        ("explain", "-c", "many.keras", "the film was superb"),
        ("attention", "-c", "many.keras", "the film was superb"),
        ("export", "many.keras", "--format", "int8", "--output", "small.keras"),
        ("doctor", "many.keras"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_tables_fit_the_terminal(arguments: tuple[str, ...], mha: Mha) -> None:
    result = mha(*arguments).well()
    assert all(len(line) <= 80 for line in result.lines if line.startswith(("┏", "┃", "│", "└", " ")))
    assert len(result.lines) < 130


@pytest.mark.parametrize(
    ("names", "heading"),
    [
        (("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"), "┃ as ABBR "),
        (("Lob & Dank", "Rückgabe 2024", "Störung", "Öffnungszeiten"), " Öffnungszeiten ┃\n"),  # broken, to fit
        (NAMES[:3], "Most frequent confusions"),
    ],
)
def test_a_matrix_where_there_is_room_for_it(names: tuple[str, ...], heading: str, mha: Mha, folder: Path) -> None:
    small_checkpoint_file(folder / "few.keras", names)
    (folder / "few.csv").write_text("text,label\n" + "".join(f"the film,{name}\n" for name in names))
    shown = mha("evaluate", "few.keras", "--data", "few.csv").stdout
    assert heading in shown
    assert ("Most frequent confusions" in shown) == (" Confusion " not in shown)
    assert "…" not in shown

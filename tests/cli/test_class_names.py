"""Every command with a model of 77 classes with long names, on a terminal of 80 columns, and with names that a terminal might obey."""

import json
import random
from contextlib import nullcontext
from pathlib import Path

import pytest

from mha_cli.errors import printable
from tests.checkpoints import WORDS, small_checkpoint_file
from tests.cli.command import Mha, has_control_characters, run_here, step_by_step
from tests.tables import write_table

HOSTILE = ("[bold]\x1b[31mred[/red]", "[/nonsense]a\tb\nc\x00", "</script>🙂")
NAMES = tuple(f"balance_not_updated_after_cheque_or_cash_deposit_{number:02}" for number in range(77))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint and labelled texts; two classes have none."""
    folder, rng = tmp_path_factory.mktemp("many"), random.Random(0)
    small_checkpoint_file(folder / "many.keras", NAMES)
    texts = [(" ".join(rng.choices(WORDS, k=5)), rng.choice(NAMES[2:])) for _ in range(300)]
    write_table(folder / "mine.csv", [*texts, *(("a film", name) for name in NAMES[2:])])
    small_checkpoint_file(folder / "hostile.keras", HOSTILE)
    lines = [json.dumps({"text": f"the film {row}", "label": name}) for row, name in enumerate(HOSTILE)]
    (folder / "hostile.jsonl").write_text("\n".join(lines))
    return folder


@pytest.fixture
def mha(folder: Path) -> Mha:
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
    with step_by_step() if arguments[0] == "heads" else nullcontext():
        result = mha(*arguments).well()
    assert all(len(line) <= 80 for line in result.lines if line.startswith(("┏", "┃", "│", "└", " ")))
    assert len(result.lines) < 130


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "hostile.keras", "--data", "hostile.jsonl"),
        ("evaluate", "hostile.keras", "--data", "hostile.jsonl", "--find-threshold", "recall=0.1"),
        ("predict", "-c", "hostile.keras", "--top-k", "all", "the film"),
        ("explain", "-c", "hostile.keras", "[bold]the[/bold] \x1b[31mfilm\x1b]0;title\x07 [/red]"),
        ("attention", "-c", "hostile.keras", "the film"),
        ("doctor", "hostile.keras"),
    ],
    ids=" ".join,
)
def test_names_are_shown_and_not_obeyed(arguments: tuple[str, ...], mha: Mha) -> None:
    shown, as_json = mha(*arguments).well().stdout, mha(*arguments, "--json").well().stdout
    assert not has_control_characters(shown + as_json)
    assert any(printable(name) in shown for name in HOSTILE)
    assert any(json.dumps(name, ensure_ascii=False) in as_json for name in HOSTILE)


def test_thresholds_of_many_classes(mha: Mha, folder: Path) -> None:
    names = NAMES[:17]
    small_checkpoint_file(folder / "some.keras", names)
    write_table(folder / "more.csv", ((text, name) for name in names for text in ("the film", "a superb film")))
    shown = mha("evaluate", "some.keras", "--data", "more.csv", "--find-threshold", "precision=1", "-o", "kept.keras").stdout
    assert mha("evaluate", "kept.keras", "--data", "more.csv").stdout.count("none") == shown.count("none") == 15
    assert "17 of 17 classes miss the target at every threshold" in shown
    assert "the 15 that find least, of 17 (--json has all)" in shown
    assert "0.0% of the texts are answered, 0.0% of these rightly" in shown


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

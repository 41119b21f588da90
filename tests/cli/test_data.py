"""`mha data`: the overview of labelled texts, and labels that may be wrong."""

from pathlib import Path

from tests.cli.command import Mha, has_control_characters, run_mha, tree

WORDS = {"bad": ("broken", "dim"), "good": ("bright", "fine")}
ROWS = [(f"lamp {number}: {WORDS[label][number % 4 // 2]}", label) for number in range(40) for label in [("bad", "good")[number % 2]]]
CONFIG = "auto: true\ntext: {sequence_length: 2}\ndata: {source: files, train: a.csv, text_column: what happened, label_column: verdict}"


def table(rows: list[tuple[str, str]]) -> str:
    return "id;what happened;verdict\n" + "".join(f"7;{text};{label}\n" for text, label in rows)


def test_a_file_is_looked_at(tmp_path: Path, mha: Mha) -> None:
    (tmp_path / "lamps.csv").write_text(table([*ROWS, ROWS[0], ("", "good")]))
    before = tree(tmp_path)
    result = run_mha("data", "lamps.csv", cwd=tmp_path).silent()
    for words in (
        "text column │ what happened (longest texts, ",
        "texts │ 42",
        "classes │ 2: bad (21), good (21)",
        "tokens per text │ 4 (median), 90 % up to 4, longest 4",
        "warnings │ without a word: 1, repeated to the letter: 1",
        "cut to 16 tokens │ 0 (0.0%)",
        "│ up to 4 │ 97.6% ████████████████████ │",
        "unknown words",
    ):
        assert words in " ".join(result.stdout.split()), result.stdout
    assert "in training too" not in result.stdout
    found = mha("data", "lamps.csv", "--set", "text.sequence_length=3", "--set", "data.test=lamps.csv", "--json").json
    assert (found["sequence_length"], found["train"]["num_cut"], found["test"]["num_in_training"]) == (3, 41, 41)  # all but the empty one
    assert found["layout"]["label_column"] == "verdict"
    assert tree(tmp_path) == before


def test_training_and_test_data_of_a_config(tmp_path: Path, mha: Mha) -> None:
    (tmp_path / "a.csv").write_text(table(ROWS))
    (tmp_path / "b.csv").write_text(table([*ROWS[:3], ("a new thing", "odd\x1b")]))
    (tmp_path / "run").mkdir()
    for name in ("lamps.yaml", "run/config.yaml"):
        (tmp_path / name).write_text(CONFIG)
    result = mha("data", "lamps.yaml", "--set", "data.test=b.csv")
    assert mha("data", "run", "--set", "data.test=b.csv") == result
    assert (result.code, result.stderr) == (0, "")
    assert not has_control_characters(result.stdout)
    rows = {cells[1].strip(): [cell.strip() for cell in cells[2:4]] for line in result.lines if len(cells := line.split("│")) == 5}
    expected = {
        "texts": ["40", "4"],
        "cut to 2 tokens": ["40 (100.0%)", "4 (100.0%)"],
        "in training too": ["", "3"],
        "of other classes": ["", "1"],
    }
    assert rows.items() >= expected.items()
    assert "split test" in result.stdout


def test_label_issues_are_listed_with_their_places(tmp_path: Path, mha: Mha) -> None:
    """Two labels are wrong: in the first file on line 8, in the second on line 3."""
    rows = [(text + " \t!\x1b" * 50, label) for text, label in ROWS]
    rows[6], rows[21] = (rows[6][0], "good"), (rows[21][0], "bad")
    for name, part in (("lamps-1.csv", rows[:20]), ("lamps-2.csv", rows[20:])):
        (tmp_path / name).write_text(table(part))
    result = mha("data", "lamps-1.csv", "lamps-2.csv", "--label-issues", "2", "--label-column", "3").well()
    columns, agreement = result.stderr.splitlines()
    assert columns.startswith("lamps-1.csv and 1 more: text column what happened (longest texts, ")
    assert columns.endswith("), label column verdict (given)")
    assert agreement.startswith(
        "lamps-1.csv and 1 more: 95.0% of the labels of 40 texts are what a model of the others answers; contradicted: "
    )
    found = [line.split("\t") for line in result.lines]
    assert sorted(cells[:2] + cells[3:4] for cells in found) == [["lamps-1.csv:8", "good", "bad"], ["lamps-2.csv:3", "bad", "good"]]
    assert not has_control_characters(result.stdout.replace("\t", ""))
    for _, _, probability, _, likelier, text in found:
        assert float(probability) < 0.5 < float(likelier) <= 1
        assert len(text) < 300

    whole = mha("data", "lamps-1.csv", "lamps-2.csv", "--label-issues", "2", "--json").json
    assert (whole["num_texts"], whole["accuracy"], len(whole["label_issues"])) == (40, 0.95, 2)
    assert (whole["layout"]["label_column"], whole["layout"]["label_reason"]) == ("verdict", "by its name")
    first = whole["label_issues"][0]
    assert [f"{first['file']}:{first['line']}", first["label"], first["suggested"]] == [*found[0][:2], found[0][3]]
    assert first["text"] in {rows[6][0], rows[21][0]}

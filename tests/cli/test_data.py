"""`mha data`: the overview of labelled texts, and labels that may be wrong."""

from pathlib import Path

from tests.cli.command import Mha, has_control_characters, refusal, run_mha, tree

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


def test_labels_of_two_people_are_compared(tmp_path: Path, mha: Mha) -> None:
    """The columns of each file are guessed by themselves."""
    (tmp_path / "a.csv").write_text(table([("lamp\x1b 1", "good"), ("lamp 2", "bad"), ("lamp 3", "bad"), ("lamp 4", "good")]))
    (tmp_path / "b.csv").write_text("text,label\nlamp 3,bad\nlamp\x1b  1,bad\nlamp 4,good\nlamp 9,good\n")
    result = mha("data", "a.csv", "--agreement", "b.csv").silent()
    assert not has_control_characters(result.stdout)
    shown = " ".join(result.stdout.split())
    for words in (
        "texts in both │ 3",
        "equal labels │ 2 (66.7%)",
        "Cohen's kappa │ 0.400",
        "only in a.csv │ 1",
        "only in b.csv │ 1",
        r"│ a.csv:2 │ good │ b.csv:3 │ bad │ lamp\x1b 1 │",
    ):
        assert words in shown, shown
    found = mha("data", "a.csv", "--agreement", "b.csv", "--json").json
    assert (found["num_texts"], found["num_equal"], found["layout"]["label_column"]) == (3, 2, "verdict")
    assert found["differences"] == [
        {"file": "a.csv", "line": 2, "label": "good", "other_file": "b.csv", "other_line": 3, "other_label": "bad", "text": "lamp\x1b 1"}
    ]
    same = mha("data", "a.csv", "--agreement", "a.csv").stdout
    assert ("1.000" in same, "different labels" in same) == (True, False)
    (tmp_path / "c.csv").write_text("text,label\nlamp 3,bad|old\nlamp 4,good\nlamp 2,old\n")
    several = " ".join(
        mha("data", "c.csv", "--agreement", "b.csv", "--label-column", "label", "--set", "data.label_separator=|").stdout.split()
    )
    assert "kappa, mean of the labels │ 0.667" in several
    assert "│ bad|old │ b.csv:2 │ bad │" in several
    one = mha("data", "c.csv", "--agreement", "c.csv", "--label-issues", "1")
    assert refusal(one) == "data takes either --label-issues or --agreement, not both; leave one of them out"

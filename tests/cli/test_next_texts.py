"""`mha data` with --next: from texts without labels to a table that is ready for them."""

import csv
import json
import random
from pathlib import Path

import pytest

import mha_cli
from mha_cli.config.settings import FilesData
from mha_cli.runs import CONFIG
from mha_cli.sources.files import FileTexts
from tests.checkpoints import WORDS, small_checkpoint, write_run
from tests.cli.command import Mha, refusal
from tests.tables import write_table

LABELLED = {"source": "files", "train": "labelled.csv"}
KNOWN = ["the film was superb", "a dreadful film", "not superb"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run on a file with columns of its own."""
    write_table(tmp_path / "labelled.csv", ((text, "pos") for text in KNOWN), "what,verdict")
    return write_run(tmp_path / "run", small_checkpoint(), data=LABELLED | {"text_column": "what", "label_column": "verdict"})


def new_texts(number: int) -> list[str]:
    rng = random.Random(0)
    return sorted({" ".join(rng.choices(WORDS, k=rng.randrange(2, 9))) for _ in range(number)} - {*KNOWN})


def test_the_most_uncertain_new_texts_come_with_their_columns(tmp_path: Path, run: Path, mha: Mha) -> None:
    texts = new_texts(200)
    given = [*texts, *KNOWN, texts[0], f" {KNOWN[0]}\n", "", "  "]
    write_table(tmp_path / "new.csv", ((f"n{row}", text, "Zoë, A.") for row, text in enumerate(given)), "id,what,by")
    result = mha("data", "new.csv", "--next", "7", "-c", "run", "-o", "next.csv")
    told = "7 texts, the most useful first; write the labels into the column verdict\n"
    assert (result.code, result.stdout, result.stderr) == (0, "", told)
    with (tmp_path / "next.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["id", "what", "by", "verdict"]
    assert len({row[1] for row in rows} & {*texts}) == 7
    assert all((given[int(row[0][1:])], row[2], row[3]) == (row[1], "Zoë, A.", "") for row in rows)
    model = mha_cli.load(run)
    probabilities = sorted(one.probability for one in model.predict(texts))
    assert max(one.probability for one in model.predict([row[1] for row in rows])) <= probabilities[69] + 1e-5
    assert [texts[row] for row in mha_cli.next_texts(model, texts, 7)] == [row[1] for row in rows]

    all_of_them = mha("data", "new.csv", "--next", "500", "-c", "run")
    assert len(list(csv.reader(all_of_them.lines))) == 1 + len(texts)
    assert mha_cli.next_texts(model, KNOWN, 2, known=KNOWN[1:]) == [0]


def test_the_table_begins_with_the_mark_of_its_input(tmp_path: Path, mha: Mha) -> None:
    mark = b"\xef\xbb\xbf"
    (tmp_path / "new.csv").write_bytes(mark + "text\nthe café film\n".encode())
    for extension, first in ((".csv", mark), (".jsonl", b"{")):
        assert mha("data", "new.csv", "--next", "1", "-o", f"next{extension}").code == 0
        assert (tmp_path / f"next{extension}").read_bytes().startswith(first)
    assert mha("data", "new.csv", "--next", "1").stdout.startswith("text,")


def test_texts_of_unknown_words_are_told(tmp_path: Path, run: Path, mha: Mha) -> None:
    (tmp_path / "new.txt").write_text("\n".join(f"ein Film Nummer {row} superb" for row in range(30)))
    told = "60% of the words are not in the model's vocabulary: was it trained on such texts, in this language?\n1 text, the most useful"
    assert mha("data", "new.txt", "--next", "1", "-c", "run").stderr.startswith(told)


def test_other_formats(tmp_path: Path, run: Path, mha: Mha) -> None:
    """A text alone gets the name of the column in training; a label that is there already is emptied."""
    lines = [json.dumps({"id": 1, "what": "a film", "verdict": "bad", "more": {"a": None}}), json.dumps({"what": "it's dreadful"})]
    (tmp_path / "new.jsonl").write_text("\n".join(lines))
    found = [json.loads(line) for line in mha("data", "new.jsonl", "--next", "2", "-c", "run", "--json").lines]
    expected = [{"id": 1, "what": "a film", "verdict": "", "more": {"a": None}}, {"what": "it's dreadful", "verdict": ""}]
    assert sorted(found, key=len) == sorted(expected, key=len)
    rows = list(csv.reader(mha("data", "new.jsonl", "--next", "2", "-c", "run").lines))
    assert rows[0] in (["id", "what", "verdict", "more"], ["what", "verdict", "id", "more"])
    assert sorted(map(sorted, rows[1:])) == [["", "", "", "it's dreadful"], ["", "1", "a film", '{"a": null}']]
    piped = mha("data", "-", "--next", "2", "-c", "run", stdin=b"a film\n\nit's dreadful\n")
    assert sorted(piped.lines) == ["a film,\r", "it's dreadful,\r", "what,verdict\r"]
    piped = mha("data", "-", "--next", "1", "-c", "run", "--format", "csv", stdin=b"what,by\na film,me\n")
    assert piped.lines == ["what,by,verdict\r", "a film,me,\r"]
    (tmp_path / "bare.csv").write_text("7,a film\n8,not superb .\n")
    numbered = mha("data", "bare.csv", "--next", "2", "-c", "run", "--text-column", "2", "--label-column", "3")
    assert sorted(numbered.lines) == ["1,what,3\r", "7,a film,\r", "8,not superb .,\r"]


@pytest.mark.parametrize(
    ("columns", "pool", "options"),
    [
        ({"text_column": "2", "label_column": "1"}, "a lovely café, not superb\n", ["new.txt"]),
        ({"text_column": "2", "label_column": "4"}, '"a lovely café, not superb"\n', ["new.csv", "--text-column", "1"]),
        ({"text_column": "a.text", "label_column": "a.label"}, '{"a": {"text": "a lovely café, not superb"}, "id": 1}\n', ["new.jsonl"]),
        ({"text_column": "what", "label_column": "of"}, 'id,text\n1,"a lovely café, not superb"\n', ["new.csv", "--text-column", "text"]),
        ({"text_column": "what", "label_column": "of", "weight_column": "sure"}, "a lovely café, not superb\n", ["new.txt"]),
        ({"text_column": "what", "label_column": "of", "encoding": "windows-1252"}, "a lovely café, not superb\n", ["new.txt"]),
    ],
)
def test_the_run_can_be_trained_on_with_the_table(
    columns: dict[str, str], pool: str, options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mha: Mha
) -> None:
    write_run(tmp_path / "run", small_checkpoint(), data=LABELLED | columns)
    (tmp_path / options[0]).write_text(pool)
    result = mha("data", *options, "--next", "1", "-c", "run", "-o", "next.csv")
    assert result.stderr.splitlines()[0].startswith(
        "the run's own texts cannot be read, so they may be chosen again: labelled.csv: no such"
    )
    written = (tmp_path / "next.csv").read_text("utf-8").rstrip()
    (tmp_path / "next.csv").write_text(f"pos{written}" if columns["label_column"] == "1" else f"{written}pos", "utf-8")
    monkeypatch.chdir(tmp_path)
    settings = FilesData.model_validate({"source": "files", "train": "next.csv", **columns})
    assert [(one.text, one.label, one.weight) for one in FileTexts(settings).read("train")] == [("a lovely café, not superb", "pos", 1.0)]


def test_a_checkpoint_without_its_run_knows_no_texts(tmp_path: Path, run: Path, mha: Mha) -> None:
    (tmp_path / "new.txt").write_text(f"{KNOWN[0]}\n")
    (run / CONFIG).unlink()
    assert mha("data", "new.txt", "--next", "1", "-c", "run").lines == ["what,verdict\r", f"{KNOWN[0]},\r"]


FIRST_TEXTS = ["broken lamp", "a broken lamp", "late train", "a late train again", "odd"]
TOLD = "the most typical first, chosen without a model; write the labels into the column"


def test_without_a_model_the_most_typical_texts_come(tmp_path: Path, run: Path, mha: Mha) -> None:
    """Though there is a trained run. Texts that have a label cover those that they resemble."""
    run.parent.joinpath("runs").mkdir()
    run.rename(tmp_path / "runs" / "run")
    given = [*FIRST_TEXTS, " ", "broken  lamp"]
    write_table(tmp_path / "new.csv", ((f"n{row}", text, "") for row, text in enumerate(given)), "id,text,label")
    result = mha("data", "new.csv", "--next", "2").well()
    assert result.stderr == f"2 texts, {TOLD} label\n"
    header, first, second = csv.reader(result.lines)
    assert (header, first[2], second[2]) == (["id", "text", "label"], "", "")
    assert all(given[int(row[0][1:])] == row[1] for row in (first, second))
    assert sorted("lamp" in row[1] for row in (first, second)) == [False, True]
    rows = mha_cli.next_texts(None, given, 2)
    assert [given[row] for row in rows] == [first[1], second[1]]
    (tmp_path / "first.csv").write_text(result.stdout.replace(",\r", ",good\r"))
    settings = FilesData.model_validate({"source": "files", "train": str(tmp_path / "first.csv")})
    assert [(one.text, one.label) for one in FileTexts(settings).read("train")] == [(given[row], "good") for row in rows]

    labels = ["good", "", "", "", "", "", ""]
    write_table(tmp_path / "some.csv", zip(given, labels, strict=True), "what,kind")
    [row] = csv.reader(mha("data", "some.csv", "--next", "1", "--text-column", "what", "--label-column", "kind").lines[1:])
    assert "train" in row[0]
    assert mha_cli.next_texts(None, given, 1, known=["broken lamp"]) == [given.index(row[0])]


def test_first_texts_of_other_formats(tmp_path: Path, mha: Mha) -> None:
    (tmp_path / "new.txt").write_text("\n".join(FIRST_TEXTS))
    assert mha("data", "new.txt", "--next", "1").lines[0] == "text,label\r"
    piped = mha("data", "-", "--next", "1", "--label-column", "kind", "--json", stdin="\n".join(FIRST_TEXTS).encode())
    assert [*json.loads(piped.stdout)] == ["text", "kind"]
    (tmp_path / "bare.csv").write_text("7,broken lamp\n8,a broken lamp\n")
    assert mha("data", "bare.csv", "--next", "1", "--text-column", "2").lines[0] == "1,text,label\r"
    lines = [json.dumps({"text": text, "label": label}) for text, label in zip(FIRST_TEXTS, [0, None, [], "", ""], strict=True)]
    (tmp_path / "new.jsonl").write_text("\n".join(lines))
    chosen = [json.loads(line)["text"] for line in mha("data", "new.jsonl", "--next", "9", "--json").lines]
    assert not {*chosen} & {FIRST_TEXTS[0], FIRST_TEXTS[2]}
    assert FIRST_TEXTS[1] in chosen


def test_an_encoder_compares_the_first_texts(tmp_path: Path, mha: Mha) -> None:
    (tmp_path / "new.txt").write_text("\n".join(FIRST_TEXTS))
    pytest.importorskip("safetensors")
    from tests.pretrained.tiny import tiny_folder

    tiny_folder(tmp_path / "encoder", "bert")
    result = mha("data", "new.txt", "--next", "2", "--pretrained", "encoder").well()
    rows = mha_cli.next_texts(None, FIRST_TEXTS, 2, pretrained=tmp_path / "encoder")
    assert [row[0] for row in csv.reader(result.lines[1:])] == [FIRST_TEXTS[row] for row in rows]


def test_refusals_of_first_texts(tmp_path: Path, run: Path, mha: Mha) -> None:
    (tmp_path / "empty.csv").write_text("text\n")
    assert refusal(mha("data", "empty.csv", "--next", "1")) == "empty.csv: holds no text; give texts without labels"
    write_table(tmp_path / "done.csv", [("a lamp", "good")])
    nothing = "done.csv: each text has a label or has no words; give texts without labels"
    assert refusal(mha("data", "done.csv", "--next", "1")) == nothing
    both = mha("data", "done.csv", "--next", "1", "--pretrained", "encoder", "-c", "run")
    assert refusal(both) == "data takes either --checkpoint or --pretrained, not both; leave one of them out"
    assert refusal(mha("data", "done.csv", "--pretrained", "encoder")) == "--pretrained goes with --next; leave it out"


def test_refusals(tmp_path: Path, run: Path, mha: Mha) -> None:
    (tmp_path / "new.txt").write_text(f"{KNOWN[0]}\n\n")
    new = ("data", "new.txt", "--next", "1", "-c", "run")
    nothing = "new.txt: each text is in the run's files or has no words; give texts without labels"
    assert refusal(mha(*new)) == nothing
    (tmp_path / "empty.csv").write_text("what\n")
    assert refusal(mha("data", "empty.csv", *new[2:])) == "empty.csv: holds no text; give texts without labels"
    for other in (("--set", "seed=1"), ("--label-issues", "1")):
        assert (
            refusal(mha(*new, *other))
            == "data takes either --next or --label-issues or --agreement or --set, not both; leave one of them out"
        )
    assert refusal(mha("data", "labelled.csv", "-o", "a.csv")) == "--output goes with --next; leave it out"
    (tmp_path / "labels.csv").write_text("labels that someone has written")
    assert refusal(mha(*new, "-o", "labels.csv")) == "--output labels.csv: exists; choose another name, or remove it"
    named = "--output a.tsv: neither a .csv nor a .jsonl file; name one, which mha train can read"
    assert refusal(mha(*new, "-o", "a.tsv")) == named

"""The file of labels: an ordinary data file that loses nothing."""

import csv
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mha_cli.config.loading import load_config
from mha_cli.errors import JOINT, MhaError
from mha_cli.labelling import store as stores
from mha_cli.labelling.store import CHOSEN, GIVEN, RANDOM, Answer, LabelStore
from mha_cli.records.record import Record
from mha_cli.runtime.inputs import read_inputs
from mha_cli.sources.opening import open_source
from mha_cli.system.whole_files import held

TEXTS = """id,review,label
7,a fine film,
8,"dull,
and long",neg
9,a  fine film,
10,so so,
"""


@contextmanager
def opened(
    folder: Path, texts: str = TEXTS, name: str = "texts.csv", column: str = "review", several: bool = False
) -> Iterator[LabelStore]:
    (folder / name).write_text(texts)
    store = LabelStore(folder / "labels.csv", read_inputs([str(folder / name)], None, column, ["*"]), column, several=several)
    try:
        yield store
    finally:
        store.close()


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "labels.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_all_columns_are_kept_and_records_of_one_text_share_an_answer(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert store.texts == ["a fine film", "dull,\nand long", "so so"]
        assert store.answers == {1: Answer(("neg",), GIVEN)}
        assert (store.columns(0), not (tmp_path / "labels.csv").exists()) == ({"id": "7"}, True)
        store.write(0, Answer(("pos",), RANDOM))
        given = {"review": "dull,\nand long", "id": "8", "label": "neg", "drawn": "given"}
        fine = {"review": "a fine film", "label": "pos", "drawn": "random"}
        assert rows(tmp_path) == [given, fine | {"id": "7"}, fine | {"id": "9"}]
    settings = [f"data.train={tmp_path / 'labels.csv'}", "data.text_column=review"]
    source = open_source(load_config(Path("configs/text.yaml"), settings).data)
    assert [(text.text, text.label) for text in source.read("train")] == [("dull,\nand long", "neg")] + [("a fine film", "pos")] * 2


def test_the_parts_of_a_text_stay_in_their_columns(tmp_path: Path) -> None:
    table, both = "id,title,body,label\n1,Ink,none left,\n2,,so so,\n", JOINT.join(("title", "body"))
    with opened(tmp_path, table, column=both) as store:
        assert store.texts == [f"Ink{JOINT}none left", f"{JOINT}so so"]
        assert (store.columns(0), store.text_columns) == ({"id": "1"}, ["title", "body"])
        for number, label in enumerate(("pos", "neg")):
            store.write(number, Answer((label,), RANDOM))
    labelled = [
        {"title": "Ink", "body": "none left", "id": "1", "label": "pos", "drawn": "random"},
        {"title": "", "body": "so so", "id": "2", "label": "neg", "drawn": "random"},
    ]
    assert rows(tmp_path) == labelled
    with opened(tmp_path, table, column=both) as store:
        assert [answer.labels for answer in store.answers.values()] == [("pos",), ("neg",)]
    (tmp_path / "labels.csv").unlink()
    with opened(tmp_path, f'review\n"a {JOINT} b"\n', "other.csv") as store:
        store.write(0, Answer(("pos",), RANDOM))
        assert rows(tmp_path)[0]["review"] == f"a {JOINT} b"


def test_a_file_with_a_byte_order_mark_is_gone_on_with(tmp_path: Path) -> None:
    record = Record("un café", b"", ({"text": "un café"},))
    for answer in (Answer(("pos",), RANDOM), Answer(("neg",), RANDOM)):
        store = LabelStore(tmp_path / "labels.csv", [record], "text", mark=BOM_UTF8)
        store.write(0, answer)
        store.close()
    assert (tmp_path / "labels.csv").read_bytes() == BOM_UTF8 + "text,label,drawn\r\nun café,neg,random\r\n".encode()


def test_it_goes_on_where_it_was_and_keeps_what_others_have_added(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.write(2, Answer(("pos",), CHOSEN))
        store.write(0, Answer(("pos",), RANDOM))
        store.write(1, Answer(("pos",), GIVEN))
    written = (tmp_path / "labels.csv").read_text()
    noted = [
        line + (",odd" if line.startswith("so so") else ",note" if "drawn" in line else ",")
        for line in written.splitlines()
        if line != '"dull,'
    ]
    (tmp_path / "labels.csv").write_text("\n".join([*noted, "of elsewhere,1,neg,,new"]).replace('and long"', '"dull,\nand long"'))
    with opened(tmp_path, TEXTS.replace("10,", "11,")) as store:
        assert [*store.answers.items()] == [(1, (("pos",), GIVEN)), (2, (("pos",), CHOSEN)), (0, (("pos",), RANDOM))]
        store.write(0, None)
    assert [(row["review"], row["id"], row["note"]) for row in rows(tmp_path)] == [
        ("of elsewhere", "1", "new"),
        ("dull,\nand long", "8", ""),
        ("so so", "10", "odd"),
    ]


def test_what_was_edited_by_hand_stays(tmp_path: Path) -> None:
    texts, path = "id,review\n7,fine\n8,dull\n", tmp_path / "labels.csv"
    with opened(tmp_path, texts) as store:
        store.write(0, Answer(("pos",), CHOSEN))
        store.write(1, Answer(("neg",), RANDOM))
    emptied = (
        path.read_text().replace(",pos,", ",,").replace("drawn", "drawn,note").replace(CHOSEN, "chosen,mine").replace(RANDOM, "random,")
    )
    path.write_text(emptied)
    with opened(tmp_path, texts) as store:
        assert store.several  # since an answer without a label is one of several
        assert store.answers[0].labels == ()
    path.write_text(emptied.replace(CHOSEN, ""))
    with opened(tmp_path, texts) as store:
        assert not store.several
        assert [*store.answers] == [1]
        store.write(1, Answer(("pos",), RANDOM))
    assert [(row["label"], row["note"]) for row in rows(tmp_path)] == [("", "mine"), ("pos", "")]


def test_a_link_to_the_file_is_the_file(tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to("labels.csv")
    with opened(tmp_path), pytest.raises(MhaError, match="another process writes there"), held(tmp_path / "link.csv"):
        pass


@pytest.mark.parametrize("content", ["review,label\nof elsewhere,neg\n", "review,id\na fine film,7\n", "PK\x03\x04\0\0"])
def test_a_file_of_something_else_is_refused_and_left_as_it_is(content: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(content)
    with (
        pytest.raises(MhaError, match=r"labels\.csv:.*; so it has no labels of these texts; choose another name, or remove it"),
        opened(tmp_path),
    ):
        pass
    assert (path.read_text(), [*tmp_path.glob(".*")]) == (content, [])


def test_labels_of_one_text_that_contradict_each_other_are_asked_about(tmp_path: Path) -> None:
    with opened(tmp_path, "review,label\nso so,pos\nso so,neg\nfine,pos\nfine,\n") as store:
        assert store.answers == {1: Answer(("pos",), GIVEN)}


def test_several_labels_are_separated_and_none_is_an_answer(tmp_path: Path) -> None:
    with opened(tmp_path, several=True) as store:
        store.write(2, Answer(("a", "b"), CHOSEN))
        store.write(0, Answer((), RANDOM))
    assert [row["label"] for row in rows(tmp_path)] == ["neg", "a|b", "", ""]
    with opened(tmp_path) as store:  # the separator tells it
        assert (store.several, store.answers[2].labels, store.answers[0].labels) == (True, ("a", "b"), ())
    with opened(tmp_path, '{"review": "new", "label": ["b", "a"]}\n{"review": "so so", "label": []}\n', "texts.jsonl") as store:
        assert store.answers[0] == Answer(("a", "b"), GIVEN)


def test_plain_lines_and_tables_without_a_header_get_one(tmp_path: Path) -> None:
    for texts, name, column, header in (
        ("fine\ndull\n", "t.txt", "text", "text,label,drawn"),
        ("1,fine\n2,dull\n", "t.csv", "2", "text,1,label,drawn"),
    ):
        (tmp_path / "labels.csv").unlink(missing_ok=True)
        with opened(tmp_path, texts, name, column) if name == "t.csv" else _lines(tmp_path, texts) as store:
            store.write(1, Answer(("neg",), CHOSEN))
        assert (tmp_path / "labels.csv").read_text().splitlines()[0] == header
        assert rows(tmp_path)[0]["text"] == "dull"


@contextmanager
def _lines(folder: Path, texts: str) -> Iterator[LabelStore]:
    (folder / "t.txt").write_text(texts)
    store = LabelStore(folder / "labels.csv", read_inputs([str(folder / "t.txt")], fields=["*"]), "text")
    yield store
    store.close()


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    with (
        opened(tmp_path),
        pytest.raises(MhaError, match=r"labels\.csv: another process writes there; end it first, or choose another name"),
        opened(tmp_path),
    ):
        pass
    with opened(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["texts.csv"]


def test_an_answer_that_cannot_be_written_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as store:
        store.write(0, Answer(("pos",), CHOSEN))
        before = (tmp_path / "labels.csv").read_bytes()

        def full(_path: Path) -> None:
            raise MhaError("the disk is full")

        monkeypatch.setattr(stores, "atomic_write", full)
        with pytest.raises(MhaError, match="the disk is full"):
            store.write(2, Answer(("pos",), CHOSEN))
        assert ([*store.answers], (tmp_path / "labels.csv").read_bytes()) == ([1, 0], before)

"""Labelled texts in figures, and the config that is made of them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mha_cli.config.loading import load_config
from mha_cli.config.recipes import find_config
from mha_cli.config.settings import FilesData
from mha_cli.describe.new_config import new_config
from mha_cli.describe.profile import DataProfile, Lengths, TextFigures, data_overview, profile_data
from mha_cli.errors import JOINT, MhaError
from mha_cli.sources.layout import Layout
from tests.records.test_readers import STREAMS

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


def write(path: str, rows: list[tuple[str, str]], blank_lines: int = 0) -> None:
    Path(path).write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows) + "\n" * blank_lines)


TRAIN = [("a b c", "x"), ("a b b b", "x"), ("a d", "y"), ("A b c", "y"), ("e " * 9, "x"), ("", "y")]


def test_scripts() -> None:
    Path("a.csv").write_text("text,label\nGood 12!,x\nтоже,x\n很好啊,y\nหมา,y\nहिन्दी,x\nⵣ,y\n", encoding="utf-8")
    shares = profile_data(["a.csv"], "text", "label").texts.scripts
    letters = {"Latin": 4, "Cyrillic": 4, "Han": 3, "Thai": 3, "Devanagari": 3, "Tifinagh": 1}
    assert shares == pytest.approx({script: number / 18 for script, number in letters.items()})


@given(
    st.sampled_from(["a.csv", "a.tsv", "a.txt", "a.jsonl", "a.parquet"]), STREAMS, st.none() | st.sampled_from(["text", "1", "2", "a.b"])
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_is_looked_at_or_refused_in_one_line(name: str, content: bytes, column: str | None) -> None:
    Path(name).write_bytes(content)
    try:
        found = profile_data([name], column)
    except MhaError as error:
        assert str(error).startswith(name)
        assert str(error).isprintable()
    else:
        assert found.texts.num_texts == sum(found.texts.classes.values())


@pytest.mark.parametrize(("cell", "found"), [("['{}', '{}']", {"c", "d"}), ('["{}", "{}"]', {"c", "d"}), ("{} / {}", {"c", "d"})])
def test_lists_in_cells_are_several_labels(cell: str, found: set[str]) -> None:
    pairs = [("c", "d"), ("d", "c"), ("c", "c"), ("d", "d")] * 5
    write("a.jsonl", [(f"some text {number}", cell.format(*pair)) for number, pair in enumerate(pairs)])
    profile = profile_data(["a.jsonl"])
    assert profile.texts.classes.keys() == found and profile.texts.labels_per_text == 1.5
    Path("a.yaml").write_text(new_config(profile, find_config("text")))
    assert data_overview(load_config("a.yaml")).train.texts.classes == profile.texts.classes


def test_columns_of_marks_are_labels() -> None:
    Path("a.csv").write_text("text,bill,refund\n" + "".join(f"a text {number},{number % 2},{number % 3 % 2}\n" for number in range(20)))
    profile = profile_data(["a.csv"])
    assert (profile.texts.classes, profile.texts.labels_per_text) == ({"bill": 10, "refund": 7}, 0.85)
    Path("a.yaml").write_text(new_config(profile, find_config("text")))
    assert data_overview(load_config("a.yaml")).train.texts.classes == profile.texts.classes


# The config


def test_labels_that_differ_in_case_alone_are_merged_where_one_spelling_is_rare() -> None:
    sizes = {"billing": 40, "BILLING": 4, "Polish": 20, "polish": 30, "No": 3, "no": 30}
    labels = [label for label, size in sizes.items() for _ in range(size)]
    write("a.jsonl", [(f"some text {number}", label) for number, label in enumerate(labels)])
    written = new_config(profile_data(["a.jsonl"]), find_config("text"))
    assert "  merge_labels: {No: no, BILLING: billing}  # labels that differ in case alone\n" in written
    assert "  # merge_labels: {Polish: polish}  (for labels that mean the same; both spellings are frequent)\n" in written
    Path("a.yaml").write_text(written)
    config = load_config("a.yaml")
    assert data_overview(config).train.texts.classes == {"billing": 44, "no": 33, "polish": 30, "Polish": 20}
    assert [*config.classes] == ["billing", "no", "polish"]


def profile(data: tuple[str, ...], text_column: str, label_column: str, classes: Iterable[str] = ("a", "b")) -> DataProfile:
    layout = Layout("table", "comma", True, (text_column, label_column), text_column, label_column, "given", "by \x1b its name")
    figures = TextFigures(num_texts=7, classes=dict.fromkeys(classes, 4), lengths=Lengths(1, 2, 3), scripts={"Latin": 1.0})
    return DataProfile(data, 1, layout, figures)


NAMES = st.text(min_size=1, max_size=12) | st.sampled_from(
    ["yes", "null", "3", "1e3", "~", "a: b", "a #b", "- a", "[x]", "é", "*", "<<", "", " "]
)


@given(
    st.lists(NAMES.filter(bool), min_size=1, max_size=3),
    NAMES.filter(bool),
    NAMES.filter(lambda name: name and JOINT not in name),  # several columns of labels are for levels
    st.lists(NAMES.map(str.strip).filter(bool), min_size=2, max_size=5, unique_by=str.casefold),
)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_names_are_those_that_the_config_gives_back(paths: list[str], text_column: str, label_column: str, classes: list[str]) -> None:
    recipe = find_config("imdb-fast")
    text = new_config(profile(tuple(paths), text_column, label_column, classes), recipe)
    Path("new.yaml").write_text(text, encoding="utf-8")
    config, original = load_config("new.yaml"), load_config(recipe)
    assert isinstance(config.data, FilesData)
    assert (config.data.train_paths, config.data.text_column, config.data.label_column) == (paths, text_column, label_column)
    assert config.data.validation_share == original.data.validation_share
    assert config.classes == dict.fromkeys(classes, "")
    assert config.class_lines == []
    assert config.model_copy(update={"data": original.data, "classes": {}}) == original


def test_classes_are_listed_for_their_words_unless_there_are_many() -> None:
    names = [f"class {number}" for number in range(100)]
    assert new_config(profile(("a.csv",), "2", "3", names), find_config("text")).endswith('\n  class 98: ""\n  class 99: ""\n')
    assert "classes:" not in new_config(profile(("a.csv",), "2", "3", [*names, "one more"]), find_config("text"))


@pytest.mark.parametrize("section", ["", "data: {source: sample}\n", "data:\n  source: sample  # made up\n\n"])
def test_all_but_the_data_is_the_recipe_to_the_letter(section: str) -> None:
    rest = "# Of the text.\ntext:\n  punctuation: false  # twice\n"
    Path("r.yaml").write_text(f"# A recipe.\n{section}{rest}")
    text = new_config(profile(("a.csv",), "2", "3"), Path("r.yaml"))
    assert text.startswith("# Written by `mha init` from the recipe r: 7 texts, 2 classes.\n# A recipe.\n")
    assert rest in text
    assert "sample" not in text
    Path("new.yaml").write_text(text)
    data: Any = load_config("new.yaml").data
    assert (data.train, data.text_column, data.label_column) == ("a.csv", "2", "3")


# Training and test data of a config, counted by hand


def test_figures_of_both() -> None:
    write("train.jsonl", TRAIN, blank_lines=2)
    write("test.jsonl", [("a b c", "y"), ("a b c", "x"), ("e f f f", "z"), ("", "x")], blank_lines=1)
    both = profile_data(["train.jsonl", "t?s*.jsonl"])
    assert (both.data, both.num_files, both.texts.num_texts, both.texts.num_blank) == (("train.jsonl", "t?s*.jsonl"), 2, 10, 3)
    assert (both.texts.classes, both.texts.lengths, [*both.texts.scripts]) == ({"x": 5, "y": 4, "z": 1}, Lengths(3, 4, 9), ["Latin"])
    settings = ["data.train=train.jsonl", "data.test=test.jsonl", "text.sequence_length=3", "text.vocabulary_size=6"]
    found = data_overview(load_config(find_config("text"), settings))
    assert (found.data, found.vocabulary_size, found.sequence_length) == ("train.jsonl", 6, 3)
    train, test = found.train, found.test
    assert test is not None
    assert (train.split, train.texts.num_texts, train.texts.classes, train.texts.num_blank) == ("train", 6, {"x": 3, "y": 3}, 2)
    assert (test.split, test.texts.num_texts, test.texts.classes, test.texts.num_blank) == ("test", 4, {"x": 2, "y": 1, "z": 1}, 1)
    assert (train.texts.num_wordless, test.texts.num_wordless, test.texts.num_two_labels) == (1, 1, 1)
    assert (train.histogram, test.histogram) == ({1: 1, 2: 1, 3: 2, 4: 1, 6: 0, 8: 0, 12: 1}, {1: 1, 2: 0, 3: 2, 4: 1})
    assert (train.num_cut, test.num_cut) == (2, 1)
    # Of the words a (4), b (5), c (2), d (1), e (9) the vocabulary has room for e, b, a and c. No other text has e or d.
    assert train.unknown_share == pytest.approx(10 / 21)
    assert test.unknown_share == pytest.approx(3 / 10)
    assert (train.num_in_training, train.num_new_classes) == (None, None)
    assert (test.num_in_training, test.num_new_classes) == (2, 1)


def test_the_recipe_decides_lengths_and_vocabulary_from_the_texts() -> None:
    write("train.jsonl", [(f"{'word ' * 30} {number}", "xy"[number % 2]) for number in range(50)])
    found = data_overview(load_config(find_config("text"), ["data.train=train.jsonl"]))
    assert (found.vocabulary_size, found.sequence_length, found.test) == (53, 31, None)
    assert (found.train.num_cut, found.train.histogram) == (0, {32: 50})
    assert found.train.unknown_share == pytest.approx(1 / 31)


def test_texts_without_a_word() -> None:
    write("train.jsonl", [("fine", "x"), ("fine", "x"), ("dull", "y"), ("dull", "y")])
    write("test.jsonl", [("", "x"), ("", "y")])
    found = data_overview(load_config(find_config("text"), ["data.train=train.jsonl", "data.test=test.jsonl"])).test
    assert found is not None
    assert (found.texts.num_wordless, found.unknown_share, found.histogram) == (2, 0.0, {1: 2})

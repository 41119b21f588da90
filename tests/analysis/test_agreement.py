"""How far two people agree: kappa by its definition, matched texts, and where the labels differ."""

import numpy as np
import pytest

from mha_cli.analysis.agreement import Agreement, find_agreement
from mha_cli.config.loading import load_config
from mha_cli.config.recipes import find_config
from mha_cli.errors import MhaError
from tests.tables import write_table

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


def compared(here: list[tuple[str, str]], there: list[tuple[str, str]], *settings: str) -> Agreement:
    """The agreement of two files with a header of their own each."""
    write_table("a.csv", here)
    write_table("b.csv", [(label, text) for text, label in there], "kind,what")
    common = [f"data.{setting}" for setting in settings]
    configs = (
        load_config(find_config("text"), ["data.train=a.csv", *common]),
        load_config(find_config("text"), ["data.train=b.csv", "data.text_column=what", "data.label_column=kind", *common]),
    )
    return find_agreement(*configs)


def kappa(table: list[list[int]]) -> float:
    """(p_o - p_e) / (1 - p_e) of a table of counts, by Cohen 1960."""
    shares = np.array(table) / np.sum(table)
    chance = float(shares.sum(axis=0) @ shares.sum(axis=1))
    return (float(np.trace(shares)) - chance) / (1 - chance)


def test_kappa_is_cohens_and_differences_have_their_places() -> None:
    labels = ["xx"] * 7 + ["xy"] * 2 + ["yx"] + ["yy"] * 5 + ["zy"] + ["zz"] * 3
    here = [(f"text {row}", pair[0]) for row, pair in enumerate(labels)]
    there = [(f"text {row}", pair[1]) for row, pair in enumerate(labels)]
    found = compared(here, there[::-1])
    assert (found.data, found.other, found.num_texts, found.num_equal, found.kappa_of_labels) == ("a.csv", "b.csv", 19, 15, {})
    assert found.kappa == pytest.approx(kappa([[7, 2, 0], [1, 5, 0], [0, 1, 3]]))
    assert [(one.line, one.label, one.other_line, one.other_label, one.text) for one in found.differences] == [
        (row + 2, labels[row][0], 20 - row, labels[row][1], f"text {row}") for row in (7, 8, 9, 15)
    ]
    assert {(one.file, one.other_file) for one in found.differences} == {("a.csv", "b.csv")}


def test_texts_match_by_content_and_labels_without_regard_to_case() -> None:
    """The first of a repeated text counts, whatever white space it has."""
    here = [("a  lamp", "good"), ("a train", "bad"), ("a lamp", "bad"), ("mine", "good"), ("a cake", "good")]
    found = compared(here, [("a lamp\n", "Good"), ("a cake", "bad"), (" a train", "bad"), ("theirs", "bad"), ("hers", "good")])
    assert (found.num_texts, found.num_equal, found.num_only_here, found.num_only_other) == (3, 2, 1, 2)
    assert [one.text for one in found.differences] == ["a cake"]


def test_several_labels_have_a_kappa_each() -> None:
    here = [("1", "x|y"), ("2", "x"), ("3", ""), ("4", "y|x"), ("5", "x")]
    found = compared(here, [("1", "x"), ("2", "x"), ("3", ""), ("4", "x|y"), ("5", "z")], "label_separator=|")
    assert (found.num_equal, [(one.label, one.other_label) for one in found.differences]) == (3, [(("x", "y"), ("x",)), (("x",), ("z",))])
    assert found.kappa_of_labels == pytest.approx({"x": kappa([[3, 1], [0, 1]]), "y": kappa([[1, 1], [0, 3]]), "z": 0.0})
    assert found.kappa == pytest.approx(np.mean([*found.kappa_of_labels.values()]))


def test_one_label_throughout_has_no_kappa() -> None:
    found = compared([("a lamp", "x"), ("a train", "x")], [("a train", "x"), ("a lamp", "x")])
    assert (found.num_equal, found.kappa) == (2, None)


def test_files_without_a_common_text_are_refused() -> None:
    with pytest.raises(MhaError, match=r"a\.csv and b\.csv: no text is in both") as refused:
        compared([("1", "x")], [("2", "x")])
    assert refused.value.hint == "give the labels of two people for the same texts"

"""What is decided from the texts, at the borders, and beside whatever settings stand already."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_cli.config.decisions import Facts, decide, rules
from mha_cli.config.loading import config_from_dict, config_to_dict, load_config
from mha_cli.config.recipes import RECIPES
from mha_cli.corpus.corpus import Corpus
from mha_cli.errors import MhaError
from mha_cli.sources.labelled_text import LabelledText

TEXTS = load_config(RECIPES / "text.yaml", ["data.train=texts.csv"])


def facts(
    num_texts: int, num_classes: int, median: int, usual: int, words: int | None = None, characters: float = 7.0, tokens: int | None = None
) -> Facts:
    tokens = num_texts * median if tokens is None else tokens
    return Facts(num_texts, num_classes, tokens, tokens // 20 if words is None else words, characters, median, usual)


def decided(of_texts: Facts) -> tuple[Any, ...]:
    """Share, vocabulary, length, characters; buckets of n-grams, subwords, linear model; end decay, windows; epochs, batch size."""
    config = decide(TEXTS, of_texts)
    data, text, model, linear, training = config.data, config.text, config.model, config.linear, config.training
    assert linear and not config.auto
    assert (model.subword_buckets > 0) == (text.subword_characters > 0)
    of_text = (data.validation_share, text.vocabulary_size, text.sequence_length, text.subword_characters)
    of_model = (model.ngram_buckets, model.subword_buckets, linear.buckets, linear.end_decay, linear.context_windows)
    return (*of_text, *of_model, training.epochs, training.batch_size)


@pytest.mark.parametrize(
    ("of_texts", "expected"),
    [
        (facts(2, 2, 1, 1, words=1), (0.2, 3, 16, 16, 2, 32768, 16, 0, [], 10, 8)),
        (facts(40, 3, 6, 12, words=90), (0.2, 92, 16, 16, 256, 32768, 2048, 0, [], 10, 8)),
        (facts(999, 2, 20, 50), (0.2, 1001, 50, 16, 32768, 32768, 262144, 0, [], 10, 8)),
        (facts(1000, 2, 20, 50), (0.2, 1002, 50, 16, 32768, 32768, 262144, 0, [], 10, 32)),
        (facts(25_000, 2, 200, 800, words=100_000), (0.05, 30_000, 800, 16, 65536, 32768, 1 << 21, 50, [5, 25], 4, 32)),
        (facts(25_000, 2, 200, 5000, words=100_000, tokens=6_000_000), (0.05, 30_000, 800, 0, 65536, 0, 1 << 21, 50, [5, 25], 4, 32)),
        (facts(10_000, 14, 25, 60, words=4000, characters=1.4), (0.05, 4002, 60, 0, 65536, 0, 1 << 21, 0, [], 10, 32)),
        (facts(1_000_000, 4, 40, 90, words=500_000), (0.05, 30_000, 90, 0, 65536, 0, 1 << 21, 0, [], 1, 32)),
        (facts(5_000, 2000, 40, 90), (0.05, 10_002, 90, 16, 65536, 32768, 16384, 0, [], 10, 32)),
    ],
    ids=["two", "forty", "999", "1000", "films", "long-films", "Chinese", "million", "2000-classes"],
)
def test_decisions(of_texts: Facts, expected: tuple[Any, ...]) -> None:
    assert decided(of_texts) == expected


@pytest.mark.parametrize(("new_share", "epochs"), [(1.0, 10), (0.9, 8), (0.5, 2), (0.06, 1)])
def test_a_model_that_knows_most_texts_trains_for_fewer_epochs(new_share: float, epochs: int) -> None:
    assert decide(TEXTS, replace(facts(3_000, 6, 10, 20), new_share=new_share)).training.epochs == epochs


@pytest.mark.parametrize(
    ("num_texts", "classes", "named", "epochs"),
    [
        *[(5_000, 2, [], 10), (8_000, 2, [], 6), (20_000, 4, [], 5), (25_000, 4, [], 4), (199_999, 4, [], 2), (200_000, 4, [], 1)],
        *[(8_000, 9, [], 10), (8_000, 2, ["linear=null"], 10)],
    ],
)
def test_an_encoder_that_is_taught_trains_for_fewer_epochs(num_texts: int, classes: int, named: list[str], epochs: int) -> None:
    config = load_config(RECIPES / "text.yaml", ["data.train=texts.csv", *named])
    assert decide(config, facts(num_texts, classes, 10, 20)).training.epochs == epochs


def test_words_of_a_model_are_kept_beside_new_ones() -> None:
    assert decide(TEXTS, replace(facts(3_000, 6, 10, 20, words=70_000), known_words=29_998)).text.vocabulary_size == 59_998


@pytest.mark.parametrize(
    ("section", "setting", "below", "above", "values"),
    [
        ("linear", "end_decay", facts(500, 2, 100, 200), facts(500, 2, 101, 200), (0, 50)),
        ("text", "subword_characters", facts(500, 2, 20, 50, characters=2.99), facts(500, 2, 20, 50, characters=3.0), (0, 16)),
        ("text", "subword_characters", facts(9, 2, 9, 9, tokens=5_000_001), facts(9, 2, 9, 9, tokens=5_000_000), (0, 16)),
        ("training", "teacher", facts(5999, 6, 20, 50), facts(6000, 6, 20, 50), (None, "linear")),
        ("data", "validation_share", facts(4000, 2, 20, 50), facts(2000, 2, 20, 50), (0.05, 0.1)),
        ("linear", "buckets", facts(9, 2, 9, 9, tokens=1 << 19), facts(9, 2, 9, 9, tokens=1 << 22), (1 << 21, 1 << 21)),
        ("linear", "buckets", facts(9, 2, 9, 9, tokens=1 << 17), facts(9, 2, 9, 9, tokens=(1 << 17) + 1), (1 << 20, 1 << 21)),
    ],
)
def test_borders(section: str, setting: str, below: Facts, above: Facts, values: tuple[Any, Any]) -> None:
    assert tuple(getattr(getattr(decide(TEXTS, of_texts), section), setting) for of_texts in (below, above)) == values


def test_a_pretrained_encoder_of_few_texts_learns_from_the_validation_part() -> None:
    named = config_to_dict(load_config(RECIPES / "pretrained.yaml", ["data.train=texts.csv"]))
    for num_texts, is_few in ((1_999, True), (2_000, False)):
        assert rules(facts(num_texts, 2, 20, 50), named)["training"]["few_labels"] == is_few


@pytest.mark.parametrize("named", [["linear=null"], ["data.unlabelled=more.txt"]])
def test_scores_teach_by_themselves_no_unlabelled_texts(named: list[str]) -> None:
    """Every epoch would read those as well, however many they are."""
    config = load_config(RECIPES / "text.yaml", ["data.train=texts.csv", *named])
    assert decide(TEXTS, KINDS_OF_TEXTS["films"]).training.teacher
    assert not decide(config, KINDS_OF_TEXTS["films"]).training.teacher


def test_a_pretrained_encoder_without_the_linear_model_reads_no_subwords() -> None:
    named = config_to_dict(load_config(RECIPES / "pretrained.yaml", ["data.train=texts.csv", "linear=null"]))
    assert rules(KINDS_OF_TEXTS["films"], named)["text"]["subword_characters"] == 0


NAMED: list[list[dict[str, Any]]] = [
    [{"data": {"validation_share": 0.3}}, {"text": {"vocabulary_size": 77}}, {"text": {"sequence_length": 9}}],
    [{"training": {"epochs": 1}}, {"training": {"batch_size": 4}}],
    [{"training": {"teacher": teacher}} for teacher in (None, "linear")] + [{"training": {"teacher": "linear", "keep_linear": False}}],
    [{"linear": {"end_decay": decay}} for decay in (0, 7)] + [{"linear": {"context_windows": windows}} for windows in ([], [3])],
    [{"linear": {"max_ngram": 1}}, {"linear": {"max_ngram": 3, "buckets": 64}}],
    [{"model": {"max_ngram": 1, "ngram_buckets": 0}}, {"model": {"max_ngram": 3}}, {"model": {"max_ngram": 3, "ngram_buckets": 64}}],
    [{"text": {"subword_characters": number}} for number in (0, 24)] + [{"model": {"subword_buckets": number}} for number in (0, 64)],
    [{"model": {"positions": kind}} for kind in ("none", "learned")],
]
"""Settings that a config may name: at most one of each row goes with at most one of every other row."""

KINDS_OF_TEXTS = {
    "tiny": facts(4, 2, 3, 5),
    "films": facts(25_000, 2, 180, 700),
    "Chinese": facts(9000, 14, 150, 300, words=4000, characters=1.4),
    "many classes": facts(10_000, 150, 12, 30),
    "million": facts(1_000_000, 4, 40, 90),
}


@given(st.tuples(*(st.sampled_from([{}, *row]) for row in NAMED)), st.sampled_from(sorted(KINDS_OF_TEXTS)))
def test_whatever_is_named_stands_and_the_rest_goes_with_it(named: tuple[dict[str, Any], ...], kind: str) -> None:
    sections: dict[str, Any] = {}
    for section, values in (item for part in named for item in part.items()):
        sections.setdefault(section, {}).update(values)
    try:
        config = config_from_dict({"auto": True, **sections}, "test")
    except MhaError:  # without positions there are no n-grams, whatever the texts are
        return
    found = config_to_dict(decide(config, KINDS_OF_TEXTS[kind]))
    for section, values in sections.items():
        assert found[section].items() >= values.items()


def test_facts_are_those_of_the_texts() -> None:
    texts = ["a film", "the film was good", "", "bad , bad", *["fine"] * 96]
    corpus = Corpus((LabelledText(text, "ab"[number % 2]) for number, text in enumerate(texts)), TEXTS.text, None, "texts.csv")
    assert corpus.facts() == Facts(100, 2, 2 + 4 + 3 + 96, 8, 22 / 7, 1, 2)  # a mark has no letters to read
    assert str(Facts(25_000, 2, 1, 101_000, 7.26, 174, 900)) == (
        "25,000 texts in 2 classes; half are up to 174 tokens long, 98 % up to 900; 101,000 distinct tokens, 7.3 characters on average"
    )

    emojis = Corpus((LabelledText(text, text) for text in "😀😡" * 2), TEXTS.text, None, "texts.csv").facts()
    assert str(emojis) == "4 texts in 2 classes; half are up to 1 token long, 98 % up to 1; 2 distinct tokens"

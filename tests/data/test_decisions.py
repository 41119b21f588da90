"""What is decided from the texts, at the borders, and beside whatever settings stand already."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_cli.config.loading import config_from_dict, config_to_dict, load_config
from mha_cli.config.recipes import RECIPES
from mha_cli.data.corpus import Corpus
from mha_cli.data.decisions import Facts, decide
from mha_cli.data.labelled_text import LabelledText
from mha_cli.errors import MhaError

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
    assert linear.subwords == (model.subword_buckets > 0) == (text.subword_characters > 0)
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
        (facts(10_000, 150, 12, 30), (0.05, 6002, 30, 16, 65536, 32768, 131072, 0, [], 10, 32)),
        (facts(1_000_000, 4, 40, 90, words=500_000), (0.05, 30_000, 90, 0, 65536, 0, 1 << 21, 0, [], 2, 32)),
        (facts(5_000, 2000, 40, 90), (0.05, 10_002, 90, 16, 65536, 32768, 16384, 0, [], 10, 32)),
    ],
    ids=["two", "forty", "999", "1000", "films", "long-films", "Chinese", "150-classes", "million", "2000-classes"],
)
def test_decisions(of_texts: Facts, expected: tuple[Any, ...]) -> None:
    assert decided(of_texts) == expected


@pytest.mark.parametrize(
    ("section", "setting", "below", "above", "values"),
    [
        ("linear", "end_decay", facts(500, 2, 100, 200), facts(500, 2, 101, 200), (0, 50)),
        ("text", "subword_characters", facts(500, 2, 20, 50, characters=2.99), facts(500, 2, 20, 50, characters=3.0), (0, 16)),
        ("text", "subword_characters", facts(9, 2, 9, 9, tokens=5_000_001), facts(9, 2, 9, 9, tokens=5_000_000), (0, 16)),
        ("training", "distill_linear", facts(5999, 6, 20, 50), facts(6000, 6, 20, 50), (False, True)),
        ("data", "validation_share", facts(4000, 2, 20, 50), facts(2000, 2, 20, 50), (0.05, 0.1)),
        ("linear", "buckets", facts(9, 2, 9, 9, tokens=1 << 19), facts(9, 2, 9, 9, tokens=1 << 22), (1 << 21, 1 << 21)),
        ("linear", "buckets", facts(9, 2, 9, 9, tokens=1 << 17), facts(9, 2, 9, 9, tokens=(1 << 17) + 1), (1 << 20, 1 << 21)),
    ],
)
def test_borders(section: str, setting: str, below: Facts, above: Facts, values: tuple[Any, Any]) -> None:
    assert tuple(getattr(getattr(decide(TEXTS, of_texts), section), setting) for of_texts in (below, above)) == values


@pytest.mark.parametrize("named", [["linear=null"], ["data.unlabelled=more.txt"]])
def test_scores_teach_by_themselves_neither_where_there_are_none_nor_texts_without_labels(named: list[str]) -> None:
    """Every epoch would read those as well, however many they are."""
    config = load_config(RECIPES / "text.yaml", ["data.train=texts.csv", *named])
    assert decide(TEXTS, KINDS_OF_TEXTS["films"]).training.distill_linear
    assert not decide(config, KINDS_OF_TEXTS["films"]).training.distill_linear


NAMED = {
    "data.validation_share": [0.3],
    "text.vocabulary_size": [77],
    "text.sequence_length": [9],
    "text.subword_characters": [0, 24],
    "model.positions": ["none", "learned"],
    "model.max_ngram": [1, 3],
    "model.ngram_buckets": [0, 64],
    "model.subword_buckets": [0, 64],
    "linear.max_ngram": [1, 3],
    "linear.buckets": [64],
    "linear.subwords": [False, True],
    "linear.end_decay": [0, 7],
    "linear.context_windows": [[], [3]],
    "training.epochs": [1],
    "training.batch_size": [4],
    "training.distill_linear": [False, True],
    "training.keep_linear": [False],
}
KINDS_OF_TEXTS = {
    "tiny": facts(4, 2, 3, 5),
    "films": facts(25_000, 2, 180, 700),
    "Chinese": facts(9000, 14, 150, 300, words=4000, characters=1.4),
    "many classes": facts(10_000, 150, 12, 30),
    "million": facts(1_000_000, 4, 40, 90),
}
named_settings = st.fixed_dictionaries({}, optional={dotted: st.sampled_from(values) for dotted, values in NAMED.items()})


def sections_of(named: dict[str, Any]) -> dict[str, Any]:
    sections: dict[str, Any] = {}
    for dotted, value in named.items():
        section, setting = dotted.split(".")
        sections.setdefault(section, {})[setting] = value
    return sections


@given(named_settings, st.sampled_from(sorted(KINDS_OF_TEXTS)))
@settings(max_examples=300)
def test_whatever_is_named_stands_and_the_rest_goes_with_it(named: dict[str, Any], kind: str) -> None:
    """A config is refused only if what it names contradicts itself."""
    sections = sections_of(named)
    try:
        config = config_from_dict({"auto": True, **sections}, "test")
    except MhaError:  # already, since no texts could help
        return
    try:
        found = decide(config, KINDS_OF_TEXTS[kind])
    except MhaError:
        assert contradictory(named), named
    else:
        decided_settings = config_to_dict(found)
        for dotted, value in named.items():
            section, setting = dotted.split(".")
            assert decided_settings[section][setting] == value


def contradictory(named: dict[str, Any]) -> bool:
    """Whether a table is named without what reads it, or the other way round, or a linear model that neither teaches nor stays."""
    characters, subword_buckets = named.get("text.subword_characters"), named.get("model.subword_buckets")
    has_linear = any(dotted.startswith("linear.") for dotted in named)
    ngrams, buckets = named.get("model.max_ngram", 1), named.get("model.ngram_buckets")
    read = subword_buckets or named.get("linear.subwords")
    return (
        (buckets is not None and (buckets > 0) != (ngrams > 1))
        or (characters == 0 and bool(read))
        or bool(characters and subword_buckets == 0 and not named.get("linear.subwords", has_linear))
        or named.get("training.distill_linear") is named.get("training.keep_linear") is False
    )


def test_facts_are_those_of_the_texts() -> None:
    texts = ["a film", "the film was good", "", "bad , bad", *["fine"] * 96]
    corpus = Corpus((LabelledText(text, "ab"[number % 2]) for number, text in enumerate(texts)), TEXTS.text, None, "texts.csv")
    found = corpus.facts()
    assert found == Facts(100, 2, 2 + 4 + 3 + 96, 8, 22 / 7, 1, 2)  # a mark has no letters to read
    assert str(Facts(25_000, 2, 1, 101_000, 7.26, 174, 900)) == (
        "25,000 texts in 2 classes; half are up to 174 tokens long, 98 % up to 900; 101,000 distinct tokens, 7.3 characters on average"
    )


def test_emojis_have_no_number_of_letters() -> None:
    emojis = Corpus((LabelledText(text, text) for text in "😀😡" * 2), TEXTS.text, None, "texts.csv").facts()
    assert str(emojis) == "4 texts in 2 classes; half are up to 1 token long, 98 % up to 1; 2 distinct tokens"

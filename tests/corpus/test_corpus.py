"""Reviews in memory: read once, split fairly, encoded exactly as a single text is."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import train_test_split

from mha_cli.config.settings import SampleData, TextConfig
from mha_cli.corpus import corpus as corpus_module
from mha_cli.corpus.batches import drop_words
from mha_cli.corpus.corpus import Corpus, counted
from mha_cli.corpus.encoded_texts import EncodedTexts, encode_labelled, join_texts, of_known_classes
from mha_cli.records.reader import StreamWarnings
from mha_cli.sources.labelled_text import LabelledText
from mha_cli.sources.sample import SampleTexts
from mha_cli.system.callbacks import Callbacks
from mha_cli.text.encoding import TextPipeline
from mha_cli.text.vocabulary import Vocabulary
from tests.errors import error_of
from tests.reviews import with_characters

PLAIN = TextConfig()
SIZE = PLAIN.vocabulary_size
STRANGE_TEXTS = ["", "…", "one", "Don’t <br/> stop_now", "café cafe\u0301 CAFÉ", "日本 👍👍", "a b c d e f g h i j k", "x " * 50]


def corpus(labels: Sequence[str], texts: Any = None, settings: TextConfig = PLAIN, class_names: Any = None) -> Corpus:
    texts = texts or [f"text {number}" for number in range(len(labels))]
    return Corpus((LabelledText(text, label) for text, label in zip(texts, labels, strict=True)), settings, class_names, "films.csv")


def texts_of(reviews: EncodedTexts, vocabulary: Vocabulary) -> list[str]:
    """The words that the ids stand for."""
    return [" ".join(vocabulary.tokens[token_id] for token_id in reviews.tokens[start:stop]) for start, stop in pairwise(reviews.offsets)]


# Repeated texts


def test_repeated_texts_are_counted_to_the_letter() -> None:
    found = corpus("aabbabaab", ["one", "two", "one", "One", "", "one", "two", " ", ""])
    issues = found.data_issues(StreamWarnings())
    assert (issues.num_repeated, issues.num_two_labels, issues.num_wordless) == (3, 1, 3)
    assert found.count_known(map(hash, ["one", "three", "one", "ONE", ""])) == 2
    assert found.count_known([]) == 0
    assert found.count_known(found.hashes[[2, 3, 4, 5, 8]], np.array([0, 1, 6, 7])) == 2
    assert corpus("abab").data_issues(StreamWarnings()).line() == ""


# Reading


def test_counted_tells_how_many_have_passed() -> None:
    told: list[str] = []
    assert list(counted(range(7), "films", Callbacks(count=told.append), every=3)) == [*range(7)]
    assert told == [f"reading films: {number} texts" for number in (3, 6, 7)]
    assert (list(counted([], "films", Callbacks(count=told.append))), told[3:]) == ([], ["reading films: 0 texts"])


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["10", "9", "1", "10", "9", "1"], ("1", "9", "10")),
        (["pos", "neg"], ("neg", "pos")),
        (["b", "10", "9"], ("10", "9", "b")),
    ],
)
def test_class_ids_follow_the_numbers_or_else_the_alphabet(labels: list[str], expected: tuple[str, ...]) -> None:
    for names in (None, expected[::-1]):  # given names keep their order
        reviews = corpus(labels * 2, class_names=names)
        assert reviews.class_names == (names or expected)
        assert [reviews.class_names[class_id] for class_id in reviews.labels] == labels * 2


# Splitting


@settings(max_examples=40)
@given(st.lists(st.integers(2, 20), min_size=1, max_size=20), st.integers(1, 10), st.floats(0.01, 0.5), st.integers(0, 2**31 - 1))
def test_the_split_is_complete_and_stratified_and_classes_of_one_text_are_trained_on(
    sizes: list[int], num_single: int, share: float, seed: int
) -> None:
    """The other classes are split as if those of a single text were not there."""
    others = [f"class {number}" for number, size in enumerate(sizes) for _ in range(size)]
    num_single = min(num_single, len(others))
    labels = others + [f"single {number}" for number in range(num_single)]
    reviews = corpus(labels)
    assert [name for name, size in reviews.sizes.items() if size == 1] == sorted(labels[len(others) :])
    train, validation = reviews.split(share, seed)
    assert sorted([*train, *validation]) == list(range(len(labels)))
    assert set(range(len(others), len(labels))) <= set(train)
    assert {labels[row] for row in train} == set(labels)
    assert len(validation) == max(round(share * len(others)), len(sizes))
    held_out = Counter(labels[row] for row in validation)
    for number, size in enumerate(sizes):
        assert abs(held_out[f"class {number}"] - size * len(validation) / len(others)) < 2
    if len(sizes) > 1:
        assert validation.tolist() == corpus(others).split(share, seed)[1].tolist()


def test_the_split_is_scikit_learns_stratified_one() -> None:
    """Published figures and the weights of tests rest on it."""
    reviews = corpus("aab" * 41)
    train, validation = train_test_split(np.arange(123), test_size=12, stratify=reviews.labels, random_state=7)
    assert [rows.tolist() for rows in reviews.split(0.1, seed=7)] == [sorted(train), sorted(validation)]


def test_the_only_text_of_a_class_is_trained_on_when_names_decide() -> None:
    texts = [f"a film with Keanu{'abcdefghij'[number // 6]}" for number in range(60)]
    labels = "ab" * 30
    reviews = Corpus(map(LabelledText, texts, [*labels[:59], "single"]), PLAIN, None, "films.csv", by_names=True)
    for seed in range(10):
        train, validation = reviews.split(0.3, seed)
        assert sorted([*train, *validation]) == list(range(60))
        assert 59 in train
        assert set(reviews.labels[validation]) == {0, 1}


# Vocabulary and ids


def test_a_word_of_the_validation_part_alone_is_unknown() -> None:
    reviews = corpus("ab" * 20, [f"same word{number}" for number in range(40)])
    train, validation = reviews.split(0.25, seed=1)
    vocabulary = reviews.vocabulary(train, SIZE)
    assert set(vocabulary.tokens[2:]) == {"same", *(f"word{row}" for row in train)}
    assert texts_of(reviews.encode(validation, vocabulary, PLAIN), vocabulary) == ["same [UNK]"] * len(validation)
    assert texts_of(reviews.encode(train, vocabulary, PLAIN), vocabulary) == [f"same word{row}" for row in train]


@pytest.mark.parametrize(("truncation", "sequence_length"), [("head", 1), ("tail", 5), ("head_and_tail", 8), ("head_and_tail", 600)])
def test_a_corpus_a_stream_and_a_single_text_are_encoded_alike(truncation: str, sequence_length: int) -> None:
    settings = TextConfig.model_validate({"sequence_length": sequence_length, "truncation": truncation})
    reviews = [*SampleTexts(SampleData(num_texts=200)).read("train")]
    reviews += [LabelledText(text, label) for text in STRANGE_TEXTS for label in ("neg", "pos")]
    whole = Corpus(reviews, settings, ("neg", "pos"), "films.csv")
    rows, every = np.arange(0, len(reviews), 2), np.arange(len(reviews))
    vocabulary = whole.vocabulary(rows, SIZE)
    pipeline = TextPipeline(settings, vocabulary)

    from_corpus = whole.encode(every, vocabulary, settings)
    from_stream = encode_labelled(iter(reviews), pipeline, whole.class_names, "films.csv")
    singly = [pipeline.encode(review.text) for review in reviews]

    for encoded in (from_corpus, from_stream):
        assert [encoded.tokens[start:stop].tolist() for start, stop in pairwise(encoded.offsets)] == [
            text.tokens.tolist() for text in singly
        ]
        assert encoded.num_truncated == sum(text.num_tokens > len(text.tokens) for text in singly)
        assert [whole.class_names[label] for label in encoded.labels] == [review.label for review in reviews]
        assert encoded.tokens[:].dtype == encoded.labels.dtype == np.int32


def test_rows_are_encoded_in_the_order_given() -> None:
    reviews = corpus("abab", ["w", "x x", "y y y", "z"])
    vocabulary = reviews.vocabulary(np.arange(4), SIZE)
    encoded = reviews.encode(np.array([2, 0]), vocabulary, PLAIN)
    assert texts_of(encoded, vocabulary) == ["y y y", "w"]
    assert (encoded.lengths.tolist(), encoded.labels.tolist(), len(encoded)) == ([3, 1], [0, 0], 2)


@pytest.mark.parametrize("truncation", ["head", "tail", "head_and_tail"])
def test_with_subwords_every_token_brings_its_characters(truncation: str) -> None:
    """Words that the vocabulary does not have bring theirs, too; a text is cut by whole tokens."""
    settings = TextConfig.model_validate({"subword_characters": 5, "sequence_length": 3, "truncation": truncation})
    texts = ["a fine film it was", "", "fine", "dull as é"]
    whole = corpus("abab", texts, settings)
    vocabulary = whole.vocabulary(np.arange(4), 4)
    pipeline = TextPipeline(settings, vocabulary)
    together = whole.encode(np.arange(4), vocabulary, settings)
    one_by_one = encode_labelled((LabelledText(text, "a") for text in texts), pipeline, ("a",), "films.csv")
    for encoded in (together, one_by_one, join_texts(together.subset(np.array([0, 1])), together.subset(np.array([2, 3])))):
        assert encoded.lengths.tolist() == [3, 0, 1, 3]
        for row, text in enumerate(texts):
            np.testing.assert_array_equal(encoded.padded(np.array([row]))[0, : encoded.lengths[row]], pipeline.encode(text).tokens)
    padded = together.padded(np.array([1, 2, 0]))
    assert padded.shape == (3, 3, 6)
    assert not (padded[0].any() or padded[1, 1:].any())
    assert "".join(map(chr, padded[1, 0, 1:])) == "<fine"
    assert together.padded(np.array([1])).tolist() == [[[0] * 6]]
    assert together.num_unknown == one_by_one.num_unknown == sum(pipeline.encode(text).num_unknown for text in texts) > 0


# What cannot be learnt from


def test_texts_that_no_classifier_could_learn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are in the table of bad input."""
    assert error_of(corpus, "") == "films.csv: no texts; give labelled texts of at least two classes"
    no_text = "films.csv: the class 'b' has no text; each class needs at least one to be learnt from"
    assert error_of(corpus, "aacc", None, PLAIN, ("a", "b", "c")) == no_text
    assert error_of(corpus, "aaa", None, PLAIN, ("c", "b", "a")).startswith("films.csv: every text has the class 'a'; ")
    of_some = error_of(corpus, [("a",), (), ()] * 3)
    assert of_some == "films.csv: the only label, of 3 of 9 texts, is the class 'a'; a classifier needs texts of at least two classes"
    monkeypatch.setattr(corpus_module, "MOST_LABELS", 2)
    many = "films.csv: 3 labels, more than 2; are label column and separator right?"
    assert error_of(corpus, [("a", "b", "c")] * 3) == many
    several = 'labels look like several in one ("a;b", separator ";"): set data.label_separator to it'
    assert error_of(corpus, ["a;b", "b;c", "a;c", "a", "c"]) == f"films.csv: 5 of 5 texts have a class of their own; {several}"


def test_texts_that_a_model_cannot_score() -> None:
    first, second = (LabelledText("word", label, file="films.csv") for label in ("neg", "meh"))
    assert [*of_known_classes([first], ("neg", "pos"), False)] == [first]
    assert [review.label for review in of_known_classes([first], ("\ufeffneg", "pos"), False)] == ["\ufeffneg"]
    pipeline = TextPipeline(PLAIN, Vocabulary(["word"]))
    assert error_of(encode_labelled, [], pipeline, ("neg", "pos"), "films.csv") == "films.csv: no texts; give labelled texts to score"
    unknown = "films.csv: the class is 'meh'; the model knows neg, pos"
    assert error_of(list, of_known_classes([first, second], ("neg", "pos"), False)) == unknown


# Word dropout


def test_dropped_words_become_unknown_with_their_characters_and_padding_stays() -> None:
    token_ids = np.array([[7, 8, 9, 0], [5, 6, 0, 0]], np.int32)
    chosen = np.array([[True, False, True, True], [False, True, True, False]])
    dropped = drop_words(token_ids, chosen)
    assert (dropped.dtype, dropped.tolist()) == (np.int32, [[1, 8, 1, 0], [5, 1, 0, 0]])
    assert token_ids.tolist() == [[7, 8, 9, 0], [5, 6, 0, 0]]
    tokens = with_characters(token_ids, 6)
    with_dropped = drop_words(tokens, chosen)
    np.testing.assert_array_equal(with_dropped[..., 0], dropped)
    np.testing.assert_array_equal(with_dropped[..., 1:], tokens[..., 1:])

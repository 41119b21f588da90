"""Reviews in memory: read once, split fairly, encoded exactly as a single text is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_cli.config.settings import SampleData, TextConfig
from mha_cli.data.corpus import Corpus, EncodedReviews, counted, drop_words, encode_reviews
from mha_cli.data.reviews import Review
from mha_cli.data.sample import SampleReviews
from mha_cli.errors import EXIT_USAGE, MhaError
from mha_cli.text.encoding import TextEncoder
from mha_cli.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PLAIN = TextConfig()
STRANGE_TEXTS = ["", "…", "one", "Don’t <br/> stop_now", "café cafe\u0301 CAFÉ", "日本 👍👍", "a b c d e f g h i j k", "x " * 50]


def corpus(labels: str, texts: list[str] | None = None, settings: TextConfig = PLAIN, class_names: tuple[str, ...] | None = None) -> Corpus:
    """A corpus of one review per character of ``labels``."""
    texts = texts or [f"text {number}" for number in range(len(labels))]
    return Corpus((Review(text, label) for text, label in zip(texts, labels, strict=True)), settings, class_names, "films.csv")


def error_of(make: Callable[[], object]) -> str:
    with pytest.raises(MhaError) as raised:
        make()
    assert raised.value.exit_code == EXIT_USAGE
    assert "\n" not in str(raised.value)
    return str(raised.value)


def texts_of(reviews: EncodedReviews, vocabulary: Vocabulary) -> list[str]:
    """The words that the ids stand for."""
    return [" ".join(vocabulary.tokens[token_id] for token_id in reviews.token_ids[start:stop]) for start, stop in _spans(reviews)]


def _spans(reviews: EncodedReviews) -> list[tuple[int, int]]:
    return list(zip(reviews.offsets[:-1], reviews.offsets[1:], strict=True))


# Repeated texts


def test_repeated_texts_are_counted_to_the_letter() -> None:
    found = corpus("aabbabaab", ["one", "two", "one", "One", "", "one", "two", " ", ""])
    assert (found.num_repeated, found.num_two_labels, found.num_wordless) == (3, 1, 3)
    assert found.count_known(["one", "three", "one", "ONE", ""]) == 2
    assert found.count_known([]) == 0
    found = corpus("abab")
    assert (found.num_repeated, found.num_two_labels, found.num_wordless) == (0, 0, 0)


# Reading


def test_the_source_is_read_once() -> None:
    opened, passed = 0, 0

    class Source:
        def __iter__(self) -> Iterator[Review]:
            nonlocal opened, passed
            opened += 1
            for number in range(40):
                passed += 1
                yield Review(f"word {number}", "ab"[number % 2])

    reviews = Corpus(Source(), PLAIN, None, "films.csv")
    train, validation = reviews.split(0.25, seed=0)
    vocabulary = reviews.vocabulary(train)
    reviews.encode(train, vocabulary)
    reviews.encode(validation, vocabulary)
    assert (opened, passed, len(reviews)) == (1, 40, 40)


def test_counted_tells_how_many_have_passed() -> None:
    told: list[int] = []
    reviews = [Review(str(number), "a") for number in range(7)]
    assert list(counted(reviews, told.append, every=3)) == reviews
    assert told == [3, 6, 7]
    assert (list(counted([], told.append)), told[3:]) == ([], [0])


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["10", "9", "1", "10", "9", "1"], ("1", "9", "10")),
        (["0", "-1", "1"], ("-1", "0", "1")),
        (["pos", "neg"], ("neg", "pos")),
        (["b", "10", "9"], ("10", "9", "b")),
        (["2.5", "10.5"], ("10.5", "2.5")),
    ],
)
def test_class_ids_follow_the_numbers_or_else_the_alphabet(labels: list[str], expected: tuple[str, ...]) -> None:
    reviews = Corpus([Review("word", label) for label in labels * 2], PLAIN, None, "films.csv")
    assert reviews.class_names == expected
    assert [expected[class_id] for class_id in reviews.labels] == labels * 2


def test_given_class_names_keep_their_order() -> None:
    reviews = corpus("abab", class_names=("b", "a"))
    assert reviews.class_names == ("b", "a")
    assert reviews.labels.tolist() == [1, 0, 1, 0]


# Splitting


@given(st.lists(st.integers(2, 30), min_size=2, max_size=5), st.floats(0.01, 0.5), st.integers(0, 2**31 - 1))
def test_the_split_is_disjoint_complete_and_stratified(sizes: list[int], share: float, seed: int) -> None:
    labels = "".join(name * size for name, size in zip("abcde", sizes, strict=False))
    reviews = corpus(labels)
    train, validation = reviews.split(share, seed)
    assert sorted([*train, *validation]) == list(range(len(labels)))
    assert (train.tolist(), validation.tolist()) == (sorted(train), sorted(validation))
    assert len(validation) == max(round(share * len(labels)), len(sizes))
    assert set(reviews.labels[train]) == set(range(len(sizes)))
    held_out = Counter(reviews.labels[validation].tolist())
    for class_id, size in enumerate(sizes):
        assert abs(held_out[class_id] - size * len(validation) / len(labels)) < 2


def test_the_seed_decides_the_split() -> None:
    reviews = corpus("abc" * 30)
    first, again, other = reviews.split(0.3, seed=5), reviews.split(0.3, seed=5), reviews.split(0.3, seed=6)
    assert [rows.tolist() for rows in first] == [rows.tolist() for rows in again]
    assert first[1].tolist() != other[1].tolist()


# Vocabulary and ids


def test_the_vocabulary_comes_from_the_given_rows_only() -> None:
    reviews = corpus("abab", ["the plot", "the plot the", "plot secret secret secret", "secret plot"])
    train = np.array([0, 1])
    vocabulary = reviews.vocabulary(train)
    assert vocabulary.tokens[2:] == ("the", "plot")
    assert texts_of(reviews.encode(np.array([2, 3]), vocabulary), vocabulary) == ["plot [UNK] [UNK] [UNK]", "[UNK] plot"]


def test_a_word_of_the_validation_part_alone_is_unknown() -> None:
    reviews = corpus("ab" * 20, [f"same word{number}" for number in range(40)])
    train, validation = reviews.split(0.25, seed=1)
    vocabulary = reviews.vocabulary(train)
    assert set(vocabulary.tokens[2:]) == {"same", *(f"word{row}" for row in train)}
    assert texts_of(reviews.encode(validation, vocabulary), vocabulary) == ["same [UNK]"] * len(validation)
    assert texts_of(reviews.encode(train, vocabulary), vocabulary) == [f"same word{row}" for row in train]


def test_size_and_min_count_of_the_vocabulary() -> None:
    texts = ["c c c b b a", "d d a a"]
    settings = TextConfig(vocabulary_size=4, min_count=2)
    reviews = corpus("abab", texts * 2, settings)
    assert reviews.vocabulary(np.array([0, 1])).tokens[2:] == ("a", "c")
    assert corpus("abab", texts * 2, TextConfig(min_count=3)).vocabulary(np.array([0])).tokens[2:] == ("c",)


@pytest.mark.parametrize("truncation", ["head", "tail", "head_and_tail"])
@pytest.mark.parametrize("sequence_length", [1, 5, 8, 600])
def test_a_corpus_a_stream_and_a_single_text_are_encoded_alike(truncation: str, sequence_length: int) -> None:
    settings = TextConfig.model_validate({"sequence_length": sequence_length, "truncation": truncation, "min_count": 2})
    reviews = [*SampleReviews(SampleData(num_reviews=200)).read("train")]
    reviews += [Review(text, label) for text in STRANGE_TEXTS for label in ("negative", "positive")]
    whole = Corpus(reviews, settings, ("negative", "positive"), "films.csv")
    rows, every = np.arange(0, len(reviews), 2), np.arange(len(reviews))
    vocabulary = whole.vocabulary(rows)
    encoder = TextEncoder(settings, vocabulary)

    from_corpus = whole.encode(every, vocabulary)
    from_stream = encode_reviews(iter(reviews), encoder, whole.class_names, "films.csv")
    singly = [encoder.encode(review.text) for review in reviews]

    for encoded in (from_corpus, from_stream):
        assert [encoded.token_ids[start:stop].tolist() for start, stop in _spans(encoded)] == [text.token_ids for text in singly]
        assert encoded.num_truncated == sum(text.num_tokens > len(text.token_ids) for text in singly)
        assert [whole.class_names[label] for label in encoded.labels] == [review.label for review in reviews]
        assert encoded.token_ids[:].dtype == encoded.labels.dtype == np.int32


def test_rows_are_encoded_in_the_order_given() -> None:
    reviews = corpus("abab", ["w", "x x", "y y y", "z"])
    vocabulary = reviews.vocabulary(np.arange(4))
    encoded = reviews.encode(np.array([2, 0]), vocabulary)
    assert texts_of(encoded, vocabulary) == ["y y y", "w"]
    assert (encoded.lengths.tolist(), encoded.labels.tolist(), len(encoded)) == ([3, 1], [0, 0], 2)


def test_padding_fills_up_to_the_longest_of_the_rows() -> None:
    reviews = corpus("ababab", ["p p", "", "q", "p q p", "", "q q q q"])
    vocabulary = reviews.vocabulary(np.arange(6))
    encoded = reviews.encode(np.arange(6), vocabulary)
    p, q = vocabulary.ids(["p", "q"])
    assert encoded.padded(np.array([3, 1, 0])).tolist() == [[p, q, p], [0, 0, 0], [p, p, 0]]
    assert encoded.padded(np.array([4, 1])).tolist() == [[0], [0]]
    assert encoded.padded(np.array([5])).dtype == np.int32


# What cannot be learnt from


def test_no_reviews() -> None:
    assert error_of(lambda: corpus("")) == "films.csv: no texts; give data with at least two texts of each class"
    assert error_of(lambda: corpus("", class_names=("a", "b"))).startswith("films.csv: no texts; ")


@pytest.mark.parametrize("class_names", [None, ("a", "b"), ("c", "b", "a")])
def test_one_class(class_names: tuple[str, ...] | None) -> None:
    assert error_of(lambda: corpus("aaa", class_names=class_names)) == (
        "films.csv: every text has the class 'a'; a classifier needs texts of at least two classes"
    )


def test_a_class_of_one_review() -> None:
    assert error_of(lambda: corpus("aabcc")) == (
        "films.csv: the class 'b' has 1 text; each class needs at least 2, one to train on and one to validate with"
    )


def test_a_class_of_no_review() -> None:
    assert error_of(lambda: corpus("aacc", class_names=("a", "b", "c"))).startswith("films.csv: the class 'b' has 0 texts; ")


def test_a_class_name_from_outside_is_shown_safely() -> None:
    reviews = [Review("word", label) for label in ("a", "a", "\x1b[31mred\n")]
    error = error_of(lambda: Corpus(reviews, PLAIN, None, "films.csv"))
    assert error.isprintable()
    assert "x1b[31mred" in error


def test_no_words() -> None:
    assert error_of(lambda: corpus("abab", ["", " ", "<br />", "__"])) == (
        "films.csv: none of the 4 texts has a word; is the text column the right one?"
    )
    settings = TextConfig(punctuation=False)
    assert error_of(lambda: corpus("ab" * 600, ["?!"] * 1200, settings)).startswith("films.csv: none of the 1,200 texts has a word; ")


def test_a_class_that_is_not_among_the_given_ones() -> None:
    assert error_of(lambda: corpus("aabbc", class_names=("a", "b"))) == "films.csv: a text has the class 'c'; the classes are a, b"


def test_encoding_an_unknown_class() -> None:
    encoder = TextEncoder(PLAIN, Vocabulary(["word"]))
    reviews = [Review("word", "neg"), Review("word", "meh")]
    assert error_of(lambda: encode_reviews(reviews, encoder, ("neg", "pos"), "films.csv, split test")) == (
        "films.csv, split test: text 2 has the class 'meh'; the model knows neg, pos"
    )


def test_encoding_no_reviews() -> None:
    encoder = TextEncoder(PLAIN, Vocabulary(["word"]))
    assert error_of(lambda: encode_reviews([], encoder, ("neg", "pos"), "films.csv, split test")) == (
        "films.csv, split test: no texts; give labelled texts to score"
    )


def test_encoding_reviews_without_words() -> None:
    encoded = encode_reviews([Review("", "pos"), Review(" ", "neg")], TextEncoder(PLAIN, Vocabulary(["word"])), ("neg", "pos"), "films.csv")
    assert (encoded.lengths.tolist(), encoded.labels.tolist()) == ([0, 0], [1, 0])
    assert encoded.padded(np.array([0, 1])).tolist() == [[0], [0]]


# Word dropout


def test_dropped_words_become_unknown_and_padding_stays() -> None:
    rng = np.random.default_rng(0)
    token_ids = rng.integers(2, 50, (100, 70)).astype(np.int32)
    token_ids[:, 60:] = 0
    before = token_ids.copy()
    dropped = drop_words(token_ids, 0.3, rng)
    assert (token_ids == before).all()
    assert dropped.dtype == np.int32
    assert (dropped[:, 60:] == 0).all()
    changed = dropped != token_ids
    assert (dropped[changed] == 1).all()
    assert changed[:, :60].mean() == pytest.approx(0.3, abs=0.02)  # 6,000 words: a standard deviation of 0.006


def test_dropping_follows_the_generator() -> None:
    token_ids = np.full((20, 20), 7, dtype=np.int32)
    first, again, other = (drop_words(token_ids, 0.5, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).any()
    assert (drop_words(token_ids, 0.0, np.random.default_rng(3)) == token_ids).all()

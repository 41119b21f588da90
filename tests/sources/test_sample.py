"""The built-in reviews: what the grammar promises, checked on what it makes."""

import re
from collections import Counter, defaultdict
from itertools import chain, combinations

import pytest

from mha_cli.config.settings import SampleData
from mha_cli.sources import sample
from mha_cli.sources.labelled_text import LabelledText
from mha_cli.sources.sample import SampleTexts


def source(num_texts: int = 6000) -> SampleTexts:
    return SampleTexts(SampleData(num_texts=num_texts))


def tokens(text: str) -> list[str]:
    return re.findall(r"[^\W_]+(?:['’][^\W_]+)*|[^\w\s]", text.lower())


def plan_of(review: LabelledText) -> sample.Plan:
    assert isinstance(review.group, sample.Plan)
    return review.group


def test_the_reviews_are_what_they_were() -> None:
    assert next(source().read("train"))[:2] == ("My honest opinion: the film was awkward, not exceptional!", "neg")
    first = "To sum up, the score was dull rather than magnificent. We took the last bus home afterwards."
    assert next(source().read("twins"))[:2] == (first, "neg")


@pytest.mark.parametrize(("num_texts", "num_train", "num_test", "num_twins"), [(201, 200, 50, 16), (20_000, 20_000, 5000, 1666)])
def test_sizes_and_balance(num_texts: int, num_train: int, num_test: int, num_twins: int) -> None:
    for split, size in (("train", num_train), ("test", num_test), ("twins", num_twins)):
        labels = Counter(review.label for review in source(num_texts).read(split))
        assert labels == {"neg": size // 2, "pos": size // 2}


def test_no_review_occurs_twice() -> None:
    reviews = source(20_000)
    texts = [review.text for review in chain(reviews.read("train"), reviews.read("test"))]
    assert len(texts) == len(set(texts))


@pytest.mark.parametrize(("split", "num_twins"), [("train", 2000), ("test", 500)])
def test_a_third_are_twins_with_the_same_tokens_and_opposite_classes(split: str, num_twins: int) -> None:
    labels_of_bag: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for review in source().read(split):
        if review.group:
            labels_of_bag[tuple(sorted(tokens(review.text)))].append(review.label)
    # Both twins of every pair are here, so whatever sees only the bag is right on exactly half of them.
    assert all(Counter(labels)["neg"] == Counter(labels)["pos"] for labels in labels_of_bag.values())
    assert sum(map(len, labels_of_bag.values())) == num_twins


def test_twins_are_the_test_reviews_with_a_plan() -> None:
    with_plan = Counter(review.text for review in source().read("test") if review.group)
    assert Counter(review.text for review in source().read("twins")) == with_plan


def test_no_word_has_both_classes() -> None:
    negative, positive = sample.GRAMMAR["negative"], sample.GRAMMAR["positive"]
    assert min(len(negative["adjective"]), len(positive["adjective"])) >= 100
    for kind, words in positive.items():
        assert len({*words, *negative[kind]}) == len(words + negative[kind])


def test_no_two_parts_of_a_test_plan_meet_in_training() -> None:
    train, test = ({plan_of(one) for one in source(20_000).read(split) if one.group} for split in ("train", "test"))
    for first, second in combinations(range(4), 2):
        train_pairs, test_pairs = ({(plan[first], plan[second]) for plan in plans} for plans in (train, test))
        assert train_pairs.isdisjoint(test_pairs)


def test_reviews_are_short_sentences() -> None:
    for review in source().read("train"):
        assert 2 <= len(tokens(review.text)) <= 40
        assert review.text[0].isupper()
        assert re.search(r"\. [a-z]|  | [.,!]|^\s|\{|\ba [aeiou]|'sn't", review.text) is None
        assert review.text.endswith((".", "!"))

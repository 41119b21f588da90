"""Texts made of labelled ones, for a teacher to answer: it has learnt the labelled ones, and is too sure of them.

Source: Tang et al. 2019, "Distilling Task-Specific Knowledge from BERT into Simple Neural Networks", section 3.2 (with other changes).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

MADE_PER_TEXT = 24
MOST_WORDS = 1_000_000  # words of all made texts together, about: some minutes of a teacher with 22 million weights
REPLACED = (0.1, 0.3, 0.5)  # shares of words that are replaced, of which each text draws one


def made_texts(texts: Sequence[Sequence[str]], seed: int) -> Iterator[str]:
    """Several texts made of each of some texts, which are lists of words; the same for the same seed.

    Half of them join the beginning of a text and the end of another one. In all, some words become others that follow the same word.
    """
    rng, texts = Random(seed), [words for words in texts if words]
    rng.shuffle(texts)
    num_words, followers = 0, defaultdict[str, list[str]](list)
    for words in texts:
        for left, word in pairwise(["", *words]):
            followers[left].append(word)
    for words in texts * MADE_PER_TEXT:
        if rng.random() < 0.5:
            other = rng.choice(texts)
            words = [*words[: rng.randint(1, len(words))], *other[rng.randrange(len(other)) :]]
        share, made = rng.choice(REPLACED), [""]
        for word in words:
            made.append(rng.choice(followers.get(made[-1], words)) if rng.random() < share else word)
        yield " ".join(made[1:])
        if (num_words := num_words + len(words)) > MOST_WORDS:
            return

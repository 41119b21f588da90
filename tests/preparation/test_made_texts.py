"""Texts that are made of others."""

from itertools import pairwise

from mha_cli.preparation.made_texts import MADE_PER_TEXT, made_texts


def test_made_texts_consist_of_words_that_follow_each_other_somewhere() -> None:
    texts = [f"a{number} b{number % 3} c{number % 2} d".split() for number in range(12)]
    made = [text.split() for text in made_texts(texts, 1)]
    assert made == [text.split() for text in made_texts(texts, 1)] != [text.split() for text in made_texts(texts, 2)]
    assert len(made) == MADE_PER_TEXT * len(texts)
    pairs = {pair for words in texts for pair in pairwise(words)}
    new = [pair for words in made for pair in pairwise(words) if pair not in pairs]
    assert {word for words in made for word in words} <= {word for words in texts for word in words}
    assert 0 < len(new) < 0.5 * sum(len(words) for words in made)  # where two texts join, and after a replacement
    assert len({" ".join(words) for words in made} - {" ".join(words) for words in texts}) > len(texts)

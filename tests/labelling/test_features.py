"""Features of texts by their words."""

import numpy as np
import pytest

from mha_cli.labelling.features import word_features


def test_words_that_two_texts_share_are_counted_in_every_script() -> None:
    """By the definition of scikit-learn: (1 + ln count) (1 + ln((1 + N) / (1 + texts with the word))), each row with norm 1."""
    features = word_features(["好好吃", "吃 Film", "film once"]).toarray()
    assert features.shape == (3, 2)  # 吃 and film; 好 is in one text alone, as is "once"
    assert sorted(map(sorted, features.tolist())) == [[0.0, 1.0], [0.0, 1.0], pytest.approx([0.5**0.5] * 2)]
    weighted = word_features(["a a b", "a c", "b", "c"]).toarray()[0]
    [b, a] = sorted(weighted[weighted > 0])
    assert a / b == pytest.approx(1 + np.log(2))
    assert np.hypot(a, b) == pytest.approx(1.0)


def test_texts_that_share_nothing_keep_all_words_and_texts_without_words_have_zeros() -> None:
    assert word_features(["a b", "c"]).getnnz(axis=1).tolist() == [2, 1]
    assert word_features(["", " "]).getnnz() == 0
